"""The admin client against running brokers: every method, the same expectations for Apache Kafka and for ours.

The controller confirms writes, and the broker's own view follows a little later: therefore `eventually`.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import pytest

from sluicegate_operator.kafka_admin.client import AdminClient, BrokerHandle
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kafka_admin.views import ConfigSource, NewTopic, TopicView
from sluicegate_operator.planning.limits.limits import IP, QuotaKey, ip_rate
from tests.support.processes.single_node import SingleNode

DEADLINE_S = 60.0
RATE = "max.connection.creation.rate"
EXTERNAL_RATE = f"listener.name.external.{RATE}"
MAX_CONNECTIONS = "max.connections"
UNLIMITED = "2147483647"


@pytest.fixture
async def admin(node: SingleNode) -> AsyncIterator[AdminClient]:
    """A client that leaves nothing behind: dynamic configuration, ip quotas and topics are cleared."""
    async with AdminClient([(node.host, node.port)], request_timeout_s=30) as client:
        yield client
        for broker_id in (node.node_id, None):
            await client.incremental_alter_configs(
                broker_id, ConfigChange(delete=[RATE, EXTERNAL_RATE, MAX_CONNECTIONS])
            )
        await client.alter_quotas(dict.fromkeys(await client.describe_quotas(IP)))
        for name in await client.describe_topics():
            await client.delete_topic(name)
        broker = client.broker(node.host, node.port)
        await eventually(lambda: effective(broker, node, RATE), UNLIMITED)


@pytest.fixture
def broker(admin: AdminClient, node: SingleNode) -> BrokerHandle:
    return admin.broker(node.host, node.port)


async def eventually(observe: Callable[[], Awaitable[object]], expected: object) -> None:
    """Wait until the observed value is the expected one; a refusal in between counts as another value."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        seen: object
        try:
            seen = await observe()
        except KafkaApiError as error:
            seen = error
        if seen == expected:
            return
        if time.monotonic() > deadline_s:
            raise AssertionError(f"after {DEADLINE_S:g} s still {seen!r}, expected {expected!r}")
        await asyncio.sleep(0.01)


async def effective(broker: BrokerHandle, node: SingleNode, key: str) -> str | None:
    configs = await broker.describe_broker_configs(node.node_id, [key])
    return configs[key].value if key in configs else None


async def value_and_source(broker: BrokerHandle, node: SingleNode, key: str) -> tuple[object, ...]:
    """A key's value and source; empty if no layer sets it: only listener keys, which have no default of their own."""
    entry = (await broker.describe_broker_configs(node.node_id, [key])).get(key)
    return () if entry is None else (entry.value, entry.source)


async def refusal(call: Awaitable[object]) -> str:
    with pytest.raises(KafkaApiError) as refused:
        await call
    return refused.value.name


async def test_the_cluster_is_described_with_its_brokers(admin: AdminClient, node: SingleNode) -> None:
    cluster = await admin.describe_cluster()
    assert cluster.cluster_id
    assert [(broker.id, broker.host, broker.port) for broker in cluster.brokers] == [
        (node.node_id, node.host, node.port)
    ]
    assert cluster.controller_id == node.node_id


async def test_a_broker_describes_all_its_configuration(broker: BrokerHandle, node: SingleNode) -> None:
    configs = await broker.describe_broker_configs(node.node_id)
    assert {RATE, MAX_CONNECTIONS, "quota.window.num", "node.id"} <= configs.keys()
    limit = configs[MAX_CONNECTIONS]
    assert (limit.value, limit.source) == (UNLIMITED, ConfigSource.DEFAULT_CONFIG)
    assert (limit.read_only, limit.is_sensitive) == (False, False)
    assert configs["node.id"].source is ConfigSource.STATIC_BROKER_CONFIG
    assert configs["node.id"].read_only


async def test_only_the_asked_keys_are_described(broker: BrokerHandle, node: SingleNode) -> None:
    assert set(await broker.describe_broker_configs(node.node_id, [RATE, MAX_CONNECTIONS])) == {RATE, MAX_CONNECTIONS}


async def test_a_broker_speaks_for_itself_only(broker: BrokerHandle, node: SingleNode) -> None:
    assert await refusal(broker.describe_broker_configs(node.node_id + 7)) == "INVALID_REQUEST"


@pytest.mark.parametrize("key", [RATE, EXTERNAL_RATE, MAX_CONNECTIONS])
async def test_a_brokers_own_value_beats_the_default_of_all_and_deleting_gives_way(
    admin: AdminClient, broker: BrokerHandle, node: SingleNode, key: str
) -> None:
    def now() -> Awaitable[object]:
        return value_and_source(broker, node, key)

    await admin.incremental_alter_configs(None, ConfigChange(set={key: "50"}))
    await eventually(now, ("50", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG))
    await admin.incremental_alter_configs(node.node_id, ConfigChange(set={key: "40"}))
    await eventually(now, ("40", ConfigSource.DYNAMIC_BROKER_CONFIG))
    await admin.incremental_alter_configs(node.node_id, ConfigChange(delete=[key]))
    await eventually(now, ("50", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG))


async def test_synonyms_list_the_layers_with_the_one_in_force_first(
    admin: AdminClient, broker: BrokerHandle, node: SingleNode
) -> None:
    await admin.incremental_alter_configs(None, ConfigChange(set={RATE: "50"}))
    await admin.incremental_alter_configs(node.node_id, ConfigChange(set={RATE: "40"}))
    await eventually(lambda: value_and_source(broker, node, RATE), ("40", ConfigSource.DYNAMIC_BROKER_CONFIG))
    entry = (await broker.describe_broker_configs(node.node_id, [RATE]))[RATE]
    assert [(synonym.value, synonym.source) for synonym in entry.synonyms] == [
        ("40", ConfigSource.DYNAMIC_BROKER_CONFIG),
        ("50", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        (UNLIMITED, ConfigSource.DEFAULT_CONFIG),
    ]


@pytest.mark.parametrize("value", ["-1", "many", "1.5", ""])
async def test_a_value_that_no_limit_can_have_is_refused(
    admin: AdminClient, broker: BrokerHandle, node: SingleNode, value: str
) -> None:
    refused = await refusal(admin.incremental_alter_configs(node.node_id, ConfigChange(set={RATE: value})))
    assert refused in ("INVALID_REQUEST", "INVALID_CONFIG")
    assert await effective(broker, node, RATE) == UNLIMITED


async def test_deleting_what_was_never_set_is_fine(admin: AdminClient, broker: BrokerHandle, node: SingleNode) -> None:
    await admin.incremental_alter_configs(node.node_id, ConfigChange(delete=[RATE, EXTERNAL_RATE]))
    assert await effective(broker, node, RATE) == UNLIMITED


async def alter(admin: AdminClient, rates: dict[str | None, float | None]) -> dict[QuotaKey, KafkaApiError]:
    return await admin.alter_quotas({ip_rate(address): rate for address, rate in rates.items()})


async def test_ip_quotas_of_one_address_and_of_all_are_set_and_removed(
    admin: AdminClient, broker: BrokerHandle
) -> None:
    await alter(admin, {None: 100.0, "127.0.1.7": 5.0, "127.0.1.8": 6.0})
    await eventually(broker.describe_ip_quotas, {None: 100.0, "127.0.1.7": 5.0, "127.0.1.8": 6.0})
    await alter(admin, {None: None, "127.0.1.7": 7.0, "127.0.1.9": None})
    await eventually(broker.describe_ip_quotas, {"127.0.1.7": 7.0, "127.0.1.8": 6.0})
    seven, every = ip_rate("127.0.1.7"), ip_rate(None)
    assert await broker.describe_quotas_of(seven[0]) == {seven: 7.0}
    assert await broker.describe_quotas_of(every[0]) == {}


@pytest.mark.parametrize("rate", [0.0, -3.0, 1.5, 2.0**40])
async def test_an_ip_rate_that_kafka_does_not_know_is_refused(admin: AdminClient, rate: float) -> None:
    refused = await alter(admin, {"127.0.1.7": rate, "127.0.1.8": 5.0})
    assert refused.keys() == {ip_rate("127.0.1.7")}
    [error] = refused.values()
    assert re.match(r"altering the rate of address 127\.0\.1\.7: INVALID_REQUEST: .", str(error))
    await eventually(admin.describe_ip_quotas, {"127.0.1.8": 5.0})


async def test_an_ip_that_is_none_is_refused(admin: AdminClient) -> None:
    [error] = (await alter(admin, {"no-such-host.invalid": 5.0})).values()
    assert error.name == "INVALID_REQUEST"


async def shape(admin: AdminClient, name: str) -> list[tuple[int, ...]] | str | None:
    """Replicas by partition, or the error if there are none."""
    topic = (await admin.describe_topics([name]))[name]
    return [partition.replicas for partition in topic.partitions] if topic.exists else topic.error


async def test_a_topic_is_created_described_grown_and_deleted(admin: AdminClient, node: SingleNode) -> None:
    alone = (node.node_id,)
    await admin.create_topic(NewTopic("orders", partitions=2, replicas=1))
    await eventually(lambda: shape(admin, "orders"), [alone, alone])
    topic = (await admin.describe_topics())["orders"]
    assert topic.id is not None
    assert [(p.index, p.leader, p.isr) for p in topic.partitions] == [
        (0, node.node_id, alone),
        (1, node.node_id, alone),
    ]
    await admin.create_partitions("orders", 5)
    await eventually(lambda: shape(admin, "orders"), [alone] * 5)
    await admin.delete_topic("orders")
    await eventually(lambda: shape(admin, "orders"), "UNKNOWN_TOPIC_OR_PARTITION")
    assert "orders" not in await admin.describe_topics()


async def test_an_unknown_topic_has_a_view_with_an_error_and_is_not_created(admin: AdminClient) -> None:
    expected = {"nowhere": TopicView("nowhere", None, (), "UNKNOWN_TOPIC_OR_PARTITION")}
    assert await admin.describe_topics(["nowhere"]) == expected
    assert await admin.describe_topics(["nowhere"]) == expected


async def test_the_brokers_defaults_decide_what_a_new_topic_leaves_open(admin: AdminClient, node: SingleNode) -> None:
    await admin.create_topic(NewTopic("open"))
    await eventually(lambda: shape(admin, "open"), [(node.node_id,)])


async def test_a_topics_configuration_is_set_changed_and_given_back(admin: AdminClient) -> None:
    async def retention() -> tuple[str | None, ConfigSource]:
        entry = (await admin.describe_topic_configs("kept", ["retention.ms"]))["retention.ms"]
        return entry.value, entry.source

    await admin.create_topic(NewTopic("kept", 1, 1, {"retention.ms": "60000"}))
    await eventually(retention, ("60000", ConfigSource.DYNAMIC_TOPIC_CONFIG))
    await admin.alter_topic_configs("kept", ConfigChange(set={"retention.ms": "70000"}))
    await eventually(retention, ("70000", ConfigSource.DYNAMIC_TOPIC_CONFIG))
    await admin.alter_topic_configs("kept", ConfigChange(delete=["retention.ms"]))
    await eventually(retention, ("604800000", ConfigSource.DEFAULT_CONFIG))


async def names(admin: AdminClient) -> set[str]:
    return set(await admin.describe_topics())


async def test_what_cannot_be_done_to_a_topic_has_kafkas_error_names(admin: AdminClient) -> None:
    await admin.create_topic(NewTopic("once", 2, 1))
    await eventually(lambda: names(admin), {"once"})
    attempts: Mapping[str, Awaitable[object]] = {
        "TOPIC_ALREADY_EXISTS": admin.create_topic(NewTopic("once", 2, 1)),
        "INVALID_REPLICATION_FACTOR": admin.create_topic(NewTopic("wide", 1, 9)),
        "INVALID_CONFIG": admin.create_topic(NewTopic("odd", 1, 1, {"retention.ms": "long"})),
        "INVALID_TOPIC_EXCEPTION": admin.create_topic(NewTopic("no/slash", 1, 1)),
        "INVALID_PARTITIONS": admin.create_partitions("once", 1),
        "UNKNOWN_TOPIC_OR_PARTITION": admin.delete_topic("nowhere"),
    }
    assert [await refusal(attempt) for attempt in attempts.values()] == list(attempts)


async def test_the_configuration_of_an_unknown_topic_is_refused(admin: AdminClient) -> None:
    assert await refusal(admin.describe_topic_configs("nowhere")) == "UNKNOWN_TOPIC_OR_PARTITION"
    changed = admin.alter_topic_configs("nowhere", ConfigChange(set={"retention.ms": "1"}))
    assert await refusal(changed) == "UNKNOWN_TOPIC_OR_PARTITION"


async def test_a_dynamic_key_reaches_the_broker_and_falls_back(
    admin: AdminClient, broker: BrokerHandle, node: SingleNode
) -> None:
    def now() -> Awaitable[object]:
        return value_and_source(broker, node, "log.retention.bytes")

    await admin.incremental_alter_configs(None, ConfigChange(set={"log.retention.bytes": "1000000"}))
    await eventually(now, ("1000000", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG))
    await admin.incremental_alter_configs(None, ConfigChange(delete=["log.retention.bytes"]))
    await eventually(now, ("-1", ConfigSource.DEFAULT_CONFIG))


async def test_a_static_key_is_refused_while_the_broker_runs(admin: AdminClient) -> None:
    assert await refusal(admin.incremental_alter_configs(None, ConfigChange(set={"node.id": "7"}))) in (
        "INVALID_REQUEST",
        "INVALID_CONFIG",
    )


async def test_min_isr_of_topics_is_that_in_force(admin: AdminClient) -> None:
    await admin.create_topic(NewTopic("strict", 1, 1, {"min.insync.replicas": "2"}))
    await admin.create_topic(NewTopic("plain", 1, 1))
    await eventually(lambda: admin.describe_min_isr(["strict", "plain", "nowhere"]), {"strict": 2, "plain": 1})


async def test_a_broker_that_is_not_registered_cannot_be_unregistered(admin: AdminClient, node: SingleNode) -> None:
    assert await refusal(admin.unregister_broker(node.node_id + 7)) == "BROKER_ID_NOT_REGISTERED"


async def test_replicas_go_only_to_brokers_that_are_there(admin: AdminClient, node: SingleNode) -> None:
    await admin.create_topic(NewTopic("settled", 1, 1))
    await eventually(lambda: names(admin), {"settled"})
    refused = await admin.alter_reassignments({("settled", 0): (node.node_id, node.node_id + 7)})
    assert set(refused) == {("settled", 0)}
    assert await admin.alter_reassignments({("settled", 0): (node.node_id,)}) == {}
    assert await admin.list_reassignments() == {}
