"""Access control lists with real sockets and clients. Clients are told apart by their address."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import kafka.admin as python
import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.wire_client import WireClient

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
PROPERTIES = {
    "authorizer.class.name": STANDARD,
    "allow.everyone.if.no.acl.found": "true",
    "group.initial.rebalance.delay.ms": "0",
    "num.partitions": "1",
}
ANONYMOUS, OWNER, GUEST = "User:ANONYMOUS", "127.0.0.1", "127.0.0.2"
PATIENCE_S = 30.0
TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.BROKER
ALLOW, DENY = AclPermissionType.ALLOW, AclPermissionType.DENY
LITERAL, PREFIXED = ResourcePatternType.LITERAL, ResourcePatternType.PREFIXED
NEW = {"num_partitions": 1, "replication_factor": 1, "assignments": [], "configs": []}


def binding(
    resource: ResourceType,
    name: str,
    operation: AclOperation,
    *,
    host: str = GUEST,
    permission: AclPermissionType = ALLOW,
    pattern: ResourcePatternType = LITERAL,
) -> AclBinding:
    return AclBinding(resource, name, pattern, ANONYMOUS, host, operation, permission)


def every(host: str | None = None) -> AclBindingFilter:
    return AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, host, AclOperation.ANY, AclPermissionType.ANY
    )


def owners() -> list[AclBinding]:
    """What lets 127.0.0.1 do everything, and closes everything to others."""
    wanted = [(CLUSTER, "kafka-cluster"), (TOPIC, "*"), (GROUP, "*")]
    return [binding(kind, name, AclOperation.ALL, host=OWNER) for kind, name in wanted]


def create(admin: AdminClient, *acls: AclBinding) -> None:
    before = len(found(admin))
    for future in admin.create_acls(list(acls)).values():
        future.result(PATIENCE_S)
    until(lambda: len(found(admin)) == before + len(acls))


def found(admin: AdminClient, host: str | None = None) -> list[AclBinding]:
    acls: list[AclBinding] = admin.describe_acls(every(host)).result(PATIENCE_S)
    return acls


def until(true: Callable[[], object]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline_s, "what was waited for did not come true"


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=PROPERTIES) as running:
        yield running


@pytest.fixture
def admin(broker: BrokerProcess) -> AdminClient:
    client = AdminClient({"bootstrap.servers": broker.bootstrap})
    client.create_topics([NewTopic("orders", 1), NewTopic("secret", 1)])["secret"].result(PATIENCE_S)
    return client


def test_acls_are_made_found_and_deleted_by_a_client(admin: AdminClient) -> None:
    create(admin, *owners(), binding(TOPIC, "ord", AclOperation.READ, pattern=PREFIXED))
    assert {(acl.name, acl.resource_pattern_type, acl.operation) for acl in found(admin, GUEST)} == {
        ("ord", PREFIXED, AclOperation.READ)
    }
    (future,) = admin.delete_acls([every(GUEST)]).values()
    assert [acl.name for acl in future.result(PATIENCE_S)] == ["ord"]
    until(lambda: not found(admin, GUEST))
    assert len(found(admin)) == 3


def test_kafka_python_makes_finds_and_deletes_them_too(broker: BrokerProcess) -> None:
    one = python.ACL(
        "User:alice",
        "*",
        python.ACLOperation.READ,
        python.ACLPermissionType.ALLOW,
        python.ResourcePattern(python.ResourceType.TOPIC, "t"),
    )
    wanted = python.ACLFilter(
        "User:alice",
        None,
        python.ACLOperation.ANY,
        python.ACLPermissionType.ANY,
        python.ResourcePatternFilter(python.ResourceType.TOPIC, "t", python.ACLResourcePatternType.MATCH),
    )
    client = python.KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    try:
        assert client.create_acls([one])["failed"] == []
        until(lambda: client.describe_acls(wanted)[0] == [one])
        ((_, deleted, _),) = client.delete_acls([wanted])
        assert list(deleted) == [one]
        until(lambda: client.describe_acls(wanted)[0] == [])
    finally:
        client.close()


def test_a_guest_may_do_what_it_was_given_and_no_more(broker: BrokerProcess, admin: AdminClient) -> None:
    create(admin, *owners())
    address = broker.host, broker.port()
    with WireClient(address, source=GUEST) as guest, WireClient(address, source=OWNER) as owner:

        def topics() -> list[str]:
            return [each["name"] for each in guest.ask("metadata", 9, **everything)["topics"]]

        everything = {"topics": None, "allow_auto_topic_creation": False}
        everything |= dict.fromkeys(("include_topic_authorized_operations",), False)
        everything |= {"include_cluster_authorized_operations": False}
        assert topics() == []
        assert created(guest, "mine-1") == "topic_authorization_failed"
        create(admin, binding(TOPIC, "mine", AclOperation.CREATE, pattern=PREFIXED))
        assert [created(guest, name) for name in ("mine-1", "other")] == ["none", "topic_authorization_failed"]
        create(admin, binding(TOPIC, "mine", AclOperation.DESCRIBE, pattern=PREFIXED))
        until(lambda: topics() == ["mine-1"])
        create(admin, binding(TOPIC, "mine-1", AclOperation.ALL, permission=DENY))
        assert topics() == []
        assert len(owner.ask("metadata", 9, **everything)["topics"]) == 3


def test_a_fetch_session_ends_with_its_permission(broker: BrokerProcess, admin: AdminClient) -> None:
    create(admin, *owners(), binding(TOPIC, "orders", AclOperation.READ))
    with WireClient((broker.host, broker.port()), source=GUEST) as guest:

        def fetch(session: int, epoch: int, topics: list[Any]) -> tuple[int, list[str]]:
            answer = guest.ask("fetch", 11, **asked, session_id=session, session_epoch=epoch, topics=topics)
            parts = [part for topic in answer["responses"] for part in topic["partitions"]]
            return answer["session_id"], [part["error_code"] for part in parts]

        asked: dict[str, Any] = {
            "replica_id": -1,
            "max_wait": 0,
            "min_bytes": 0,
            "max_bytes": 1000,
            "isolation_level": 0,
        }
        asked |= {"forgotten_topics_data": [], "rack_id": ""}
        part = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "log_start_offset": -1}
        session, codes = fetch(0, 0, [{"topic": "orders", "partitions": [part | {"partition_max_bytes": 1000}]}])
        assert (session > 0, codes) == (True, ["none"])
        assert fetch(session, 1, []) == (session, [])
        admin.delete_acls([every(GUEST)])
        until(lambda: not found(admin, GUEST))
        assert fetch(session, 2, []) == (session, ["topic_authorization_failed"])


def created(client: WireClient, name: str) -> str:
    answer = client.ask("create_topics", 7, topics=[NEW | {"name": name}], timeout=15_000, validate_only=False)
    code: str = answer["topics"][0]["error_code"]
    return code


def test_real_clients_are_told_what_they_may_not_do(broker: BrokerProcess, admin: AdminClient) -> None:
    denied = [binding(TOPIC, "secret", operation, host=OWNER, permission=DENY) for operation in (AclOperation.WRITE,)]
    create(admin, *owners(), *denied, binding(GROUP, "theirs", AclOperation.READ, host=OWNER, permission=DENY))
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    errors: dict[str, int | None] = {}
    for topic in ("orders", "secret"):
        producer.produce(
            topic, b"x", on_delivery=lambda error, sent: errors.update({sent.topic(): error and error.code()})
        )
    assert producer.flush(PATIENCE_S) == 0
    assert errors == {"orders": None, "secret": KafkaError.TOPIC_AUTHORIZATION_FAILED}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "theirs", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    told: list[int] = []

    def is_refused() -> bool:
        message = consumer.poll(0.5)
        if message is not None and message.error():
            told.append(message.error().code())
        return KafkaError.GROUP_AUTHORIZATION_FAILED in told

    until(is_refused)
    consumer.close()


def test_authorized_operations_are_those_of_the_acls(broker: BrokerProcess, admin: AdminClient) -> None:
    create(admin, *owners(), binding(TOPIC, "secret", AclOperation.DELETE, host=OWNER, permission=DENY))
    with WireClient((broker.host, broker.port()), source=OWNER) as owner:
        asked: dict[str, Any] = {"allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
        asked |= {"include_cluster_authorized_operations": True, "topics": [{"name": "secret"}, {"name": "orders"}]}
        answer = owner.ask("metadata", 9, **asked)
        bits = {each["name"]: each["topic_authorized_operations"] for each in answer["topics"]}
    assert (bits["orders"], bits["secret"]) == (0xDF8, 0xDF8 & ~(1 << 6))
    assert answer["cluster_authorized_operations"] == 0x1FA0


def test_acls_outlive_a_restart_and_denials_are_logged_and_counted(broker: BrokerProcess, admin: AdminClient) -> None:
    create(admin, *owners())
    broker.stop()
    broker.start()
    with WireClient((broker.host, broker.port()), source=GUEST) as guest:
        assert created(guest, "x") == "topic_authorization_failed"
    assert "User:ANONYMOUS from 127.0.0.2 is denied CREATE on TOPIC 'x' for CreateTopics" in broker.log()


def test_a_client_that_may_not_create_acls_is_told_for_each(broker: BrokerProcess, admin: AdminClient) -> None:
    create(admin, *owners(), binding(CLUSTER, "kafka-cluster", AclOperation.ALTER, host=OWNER, permission=DENY))
    (future,) = admin.create_acls([binding(TOPIC, "t", AclOperation.READ)]).values()
    with pytest.raises(KafkaException) as refused:
        future.result(PATIENCE_S)
    assert refused.value.args[0].code() == KafkaError.CLUSTER_AUTHORIZATION_FAILED


def test_controllers_in_other_processes_authorize_the_client_and_not_its_broker() -> None:
    with BrokerGroup(brokers=2, properties=PROPERTIES) as group:
        broker = group.brokers[1]
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        create(admin, *owners(), binding(TOPIC, "given", AclOperation.CREATE))
        address = broker.host, broker.port()
        with WireClient(address, source=GUEST) as guest:
            assert created(guest, "taken") == "topic_authorization_failed"
            assert created(guest, "given") == "none"
        names = admin.list_topics(timeout=PATIENCE_S).topics
        assert ("given" in names, "taken" in names) == (True, False)
