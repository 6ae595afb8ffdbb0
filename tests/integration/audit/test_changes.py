"""The audit log of real brokers and a real controller tells each change once, with its outcome."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession

from audit_pipeline.__main__ import main
from audit_pipeline.ingest.land import land
from audit_pipeline.reading.query import Events
from audit_pipeline.results.settings import Settings
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.check import check
from tests.support.audit.audit_builds import built
from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import WireClient

pytestmark = pytest.mark.full

PATIENCE_S = 30.0
PASSWORD = "correct-horse"
NEW = {"replication_factor": 1, "assignments": [], "configs": []}
Row = tuple[Any, ...]


class Audited:
    """One controller and two brokers that write an audit log, and what they have told."""

    def __init__(self, folder: Path) -> None:
        self._spools, self._target = folder / "spools", FolderTarget(folder / "segments")
        spools = {"observer.class.names": "audit-log", "observer.audit-log.spool.dir": str(self._spools)}
        standard = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        self.group = BrokerGroup(
            brokers=2,
            properties={
                "authorizer.class.name": standard,
                "allow.everyone.if.no.acl.found": "true",
                "group.initial.rebalance.delay.ms": "0",
                "num.partitions": "1",
                "offsets.topic.num.partitions": "1",
            },
            of_brokers=spools,
        )
        self.group.__enter__()
        config = {"bootstrap.servers": self.group.brokers[0].bootstrap, "client.id": "admin-me", "log_level": 0}
        self.admin = AdminClient(config)

    def wire(self, broker: int = 0) -> WireClient:
        return WireClient(("127.0.0.1", self.group.brokers[broker].port()), client_id="admin-me")

    def told(self, columns: str = "") -> list[Row]:
        """Stop the brokers; return all changes of the test's client in their order."""
        for broker in self.group.brokers:
            broker.stop()
        land(self._spools, self._target)
        assert check(self._target).findings == []
        names = columns or "api, resource_type, resource_name, key, operation, old_value, new_value, error_code"
        return self.ask(f"SELECT {names} FROM change WHERE client_id = 'admin-me' ORDER BY ts, broker_id, seq")

    def await_rows(self, count: int) -> None:
        """Wait until the brokers have written so many changes: a broker that stops looks at no further answer."""
        sql = "SELECT count(*) FROM change WHERE client_id = 'admin-me'"
        until(lambda: next(iter(Events(None, [self._spools]).ask(sql)[1]))[0] >= count, f"{count} changes are written")

    def ask(self, sql: str) -> list[Row]:
        return list(Events(self._target).ask(sql)[1])

    def close(self) -> None:
        self.group.__exit__()


@pytest.fixture
def audited(tmp_path: Path) -> Iterator[Audited]:
    made = Audited(tmp_path)
    yield made
    made.close()


def outcomes(futures: Any) -> list[int]:
    """Return the error code of each resource as the client sees it."""
    found = []
    for future in futures.values():
        try:
            future.result(PATIENCE_S)
            found.append(0)
        except KafkaException as error:
            found.append(error.args[0].code())
    return found


def topics(admin: AdminClient) -> set[str]:
    return set(admin.list_topics(timeout=PATIENCE_S).topics)


def test_topics_and_their_partitions_records_and_configurations(
    audited: Audited, tmp_path: Path, spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    admin = audited.admin
    new = NewTopic("orders", 1, 1, config={"retention.ms": "60000"})
    assert outcomes(admin.create_topics([new])) == [0]
    until(lambda: "orders" in topics(admin), "the topic is known")
    assert outcomes(admin.create_topics([NewTopic("orders", 2, 1)])) == [36]
    assert outcomes(admin.create_topics([NewTopic("checked", 2, 1)], validate_only=True)) == [0]
    assert outcomes(admin.create_partitions([NewPartitions("orders", 3)])) == [0]
    assert outcomes(admin.create_partitions([NewPartitions("nothing", 3)])) == [3]
    resource = ConfigResource(ResourceType.TOPIC, "orders")
    entry = ConfigEntry("retention.ms", "90000", incremental_operation=AlterConfigOpType.SET)
    resource.add_incremental_config(entry)
    assert outcomes(admin.incremental_alter_configs([resource])) == [0]
    bad = ConfigResource(ResourceType.TOPIC, "orders", set_config={"retention.ms": "soon"})
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        altered = admin.alter_configs([bad])
    assert outcomes(altered) == [40]
    assert outcomes(admin.delete_records([TopicPartition("orders", 0, 5)])) == [1]
    assert outcomes(admin.delete_topics(["orders", "nothing"])) == [0, 3]

    assert audited.told() == [
        ("CreateTopics", "topic", "orders", None, "create", None, "partitions=1, replicas=1", 0),
        ("CreateTopics", "topic", "orders", "retention.ms", "set", None, "60000", 0),
        ("CreateTopics", "topic", "orders", None, "create", None, "partitions=2, replicas=1", 36),
        ("CreateTopics", "topic", "checked", None, "create", None, "partitions=2, replicas=1", 0),
        ("CreatePartitions", "topic", "orders", "partitions", "set", "1", "3", 0),
        ("CreatePartitions", "topic", "nothing", "partitions", "set", None, "3", 3),
        ("IncrementalAlterConfigs", "topic", "orders", "retention.ms", "set", "60000", "90000", 0),
        ("AlterConfigs", "topic", "orders", "retention.ms", "set", "90000", "soon", 40),
        ("DeleteRecords", "partition", "orders-0", "records", "delete", None, "below 5", 1),
        ("DeleteTopics", "topic", "orders", None, "delete", "partitions=3", None, 0),
        ("DeleteTopics", "topic", "nothing", None, "delete", None, None, 3),
    ]
    errors = audited.ask(
        "SELECT api, error_code FROM request WHERE client_id = 'admin-me' AND api LIKE 'Create%' ORDER BY ts"
    )
    assert errors == [
        ("CreateTopics", 0),
        ("CreateTopics", 36),
        ("CreateTopics", 0),
        ("CreatePartitions", 0),
        ("CreatePartitions", 3),
    ]
    assert audited.ask("SELECT count(*) FROM change WHERE validate_only") == [(1,)]

    results = tmp_path / "results"
    built(spark, tmp_path / "segments", results, time.time_ns() // 1000, Settings())
    capsys.readouterr()
    assert main(["changes", "--results", str(results), "--topic", "orders", "-o", "json"], Event()) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["api"], line["after"], line["outcome"]) for line in reversed(lines)] == [
        ("CreateTopics", "partitions=1, replicas=1", "succeeded"),
        ("CreateTopics", "60000", "succeeded"),
        ("CreateTopics", "partitions=2, replicas=1", "TOPIC_ALREADY_EXISTS"),
        ("CreatePartitions", "3", "succeeded"),
        ("IncrementalAlterConfigs", "90000", "succeeded"),
        ("AlterConfigs", "soon", "INVALID_CONFIG"),
        ("DeleteRecords", "below 5", "OFFSET_OUT_OF_RANGE"),
        ("DeleteTopics", None, "succeeded"),
    ]
    assert {line["client"] for line in lines} == {"admin-me"}


def test_acls_and_credentials_without_their_secrets(audited: Audited, tmp_path: Path) -> None:
    admin = audited.admin
    acl = AclBinding(
        ResourceType.TOPIC,
        "orders",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )
    assert outcomes(admin.create_acls([acl])) == [0]
    upsertion = UserScramCredentialUpsertion(
        "alice", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 8192), PASSWORD.encode(), b"salt-salt"
    )
    assert outcomes(admin.alter_user_scram_credentials([upsertion])) == [0]
    deletion = UserScramCredentialDeletion("nobody", ScramMechanism.SCRAM_SHA_512)
    assert outcomes(admin.alter_user_scram_credentials([deletion])) == [91]
    with audited.wire() as client:
        secret = {"name": "listener.name.external.ssl.keystore.key", "config_operation": 0, "value": PASSWORD}
        unknown = {"name": "pasword", "config_operation": 0, "value": PASSWORD}
        resources = [{"resource_type": 4, "resource_name": "0", "configs": [secret, unknown]}]
        client.ask("incremental_alter_configs", 1, resources=resources, validate_only=False)
        every = {"resource_type_filter": 2, "resource_name_filter": "orders", "pattern_type_filter": 3}
        every |= {"principal_filter": None, "host_filter": None, "operation": 1, "permission_type": 1}
        client.ask("delete_acls", 3, filters=[every])

    rows = audited.told()
    assert [row[:5] + row[6:] for row in rows] == [
        ("CreateAcls", "acl", "TOPIC:LITERAL:orders", "User:alice", "create", "ALLOW READ from any host", 0),
        ("AlterUserScramCredentials", "user", "alice", "SCRAM-SHA-256", "set", "sensitive", 0),
        ("AlterUserScramCredentials", "user", "nobody", "SCRAM-SHA-512", "delete", None, 91),
        ("IncrementalAlterConfigs", "broker", "0", secret["name"], "set", "sensitive", rows[3][-1]),
        ("IncrementalAlterConfigs", "broker", "0", "pasword", "set", "sensitive", rows[4][-1]),
        ("DeleteAcls", "acl", "TOPIC:LITERAL:orders", "any principal", "delete", None, 0),
    ]
    assert rows[3][-1] not in (None, 0)
    spoken = [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]
    assert spoken == []


def test_groups_and_their_offsets(audited: Audited) -> None:
    admin, bootstrap = audited.admin, audited.group.bootstrap
    assert outcomes(admin.create_topics([NewTopic("orders", 1, 1)])) == [0]
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0, "linger.ms": 100})
    for number in range(100):
        producer.produce("orders", b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0
    settings = {"bootstrap.servers": bootstrap, "group.id": "readers", "client.id": "reader", "log_level": 0}
    consumer = Consumer({**settings, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe(["orders"])
    received = 0
    while received < 100:
        received += len(consumer.consume(100, 5))
    consumer.commit(asynchronous=False)
    assert outcomes(admin.delete_consumer_groups(["readers"])) == [68]
    consumer.close()
    until(lambda: audited_is_empty(admin), "the group is empty")

    def offsets(broker: int) -> Any:
        topic = {"name": "orders", "partitions": [{"partition_index": 0}, {"partition_index": 7}]}
        with audited.wire(broker) as client:
            return client.ask("offset_delete", 0, group_id="readers", topics=[topic])

    answers = [offsets(broker) for broker in (0, 1)]
    assert sorted(answer["error_code"] for answer in answers) == ["none", "not_coordinator"]
    assert outcomes(admin.delete_consumer_groups(["readers"])) == [0]

    rows = audited.told()
    deleted = [row[1:] for row in rows if row[0] == "DeleteGroups" and row[-1] != 16]
    assert deleted == [("group", "readers", None, "delete", None, None, code) for code in (68, 0)]
    expected = [("group", "readers", f"orders-{index}", "delete offset", None, None) for index in (0, 7)]
    by_offset = sorted((row[1:7], row[7]) for row in rows if row[0] == "OffsetDelete")
    assert by_offset == sorted(
        (row, code) for row, codes in zip(expected, ((0, 16), (3, 16)), strict=True) for code in codes
    )
    apis = audited.ask(
        "SELECT DISTINCT api FROM request WHERE group_id = 'readers' AND client_id = 'reader' ORDER BY 1"
    )
    names = {name for (name,) in apis}
    assert {"JoinGroup", "SyncGroup", "OffsetCommit", "OffsetFetch", "LeaveGroup"} <= names
    assert audited.ask("SELECT count(*) FROM request WHERE group_id IS NOT NULL AND api IN ('Fetch', 'Produce')") == [
        (0,)
    ]
    records = "SELECT sum(records) FROM partition JOIN request USING (cluster_id, broker_id, boot_id, seq) WHERE"
    assert audited.ask(f"{records} request.client_id = 'reader' AND topic = 'orders'") == [(100,)]


def audited_is_empty(admin: AdminClient) -> bool:
    (future,) = admin.describe_consumer_groups(["readers"]).values()
    return not future.result(PATIENCE_S).members


def test_quotas_reassignments_elections_features_and_brokers(audited: Audited) -> None:
    with audited.wire() as client:
        topic = {"name": "orders", "num_partitions": 1, **NEW}
        client.ask("create_topics", 4, topics=[topic], timeout=30_000, validate_only=False)
        user, limit = {"entity_type": "user", "entity_name": "alice"}, {"key": "producer_byte_rate", "remove": False}
        good = {"entity": [user], "ops": [{**limit, "value": 1000.0}]}
        bad = {"entity": [{**user, "entity_name": "bob"}], "ops": [{**limit, "key": "no_such_rate", "value": 1.0}]}
        client.ask("alter_client_quotas", 1, entries=[good, bad], validate_only=False)
        parts = [{"partition_index": index, "replicas": [1]} for index in (0, 5)]
        wanted = [{"name": "orders", "partitions": parts}]
        client.ask("alter_partition_reassignments", 0, timeout=30_000, topics=wanted)
        parts_only = [{"topic": "orders", "partitions": [9]}]
        client.ask("elect_leaders", 2, election_type=0, topic_partitions=parts_only, timeout=30_000)
        level = [{"feature": "no.such.feature", "max_version_level": 3, "upgrade_type": 1}]
        client.ask("update_features", 1, timeout=30_000, feature_updates=level, validate_only=False)
        client.ask("unregister_broker", 0, broker_id=77)

    rows = audited.told("api, resource_name, key, new_value, error_code, validate_only, further")
    codes = [row[4] for row in rows]
    assert [row[:4] for row in rows] == [
        ("CreateTopics", "orders", None, "partitions=1, replicas=1"),
        ("AlterClientQuotas", "user=alice", "producer_byte_rate", "1000"),
        ("AlterClientQuotas", "user=bob", "no_such_rate", "1"),
        ("AlterPartitionReassignments", "orders-0", "replicas", "1"),
        ("AlterPartitionReassignments", "orders-5", "replicas", "1"),
        ("ElectLeaders", "orders-9", "leader", "preferred"),
        ("UpdateFeatures", "no.such.feature", "level", "3"),
        ("UnregisterBroker", "77", None, None),
    ]
    assert [code == 0 for code in codes] == [True, True, False, True, False, False, False, False]
    assert None not in codes
    assert {row[6] for row in rows} == {None}


def test_of_thousands_of_topics_some_are_told_and_the_rest_is_counted(audited: Audited) -> None:
    def create(count: int) -> set[str]:
        wanted = [{"name": f"many-{number}", "num_partitions": 1, **NEW} for number in range(count)]
        with audited.wire() as client:
            answer = client.ask("create_topics", 7, topics=wanted, timeout=600_000, validate_only=True)
        return {topic["error_code"] for topic in answer["topics"]}

    assert create(3_000) == {"none"}
    assert create(10_000) == {"policy_violation"}, "the cluster has no room for so many partitions"

    audited.await_rows(2 * 1001)
    rows = audited.told("resource_name, error_code, further")
    names = [f"many-{number}" for number in range(1000)]
    assert rows[:1001] == [*((name, 0, None) for name in names), (None, 0, 2_000)]
    assert rows[1001:] == [*((name, 44, None) for name in names), (None, 44, 9_000)]
