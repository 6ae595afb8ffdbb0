"""One controller process and three brokers: metadata, dynamic configuration and quotas reach all of them."""

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic

from tests.support.broker_process import BrokerGroup, BrokerProcess

RATE = "max.connection.creation.rate"
DEADLINE_S = 15.0


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(brokers=3, listeners=["EXTERNAL"]) as running:
        yield running


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"


def alter_default(bootstrap: str, key: str, value: str | None) -> None:
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(key, value or "", incremental_operation=operation)
    resource = ConfigResource(ConfigResource.Type.BROKER, "", incremental_configs=[entry])
    for future in AdminClient({"bootstrap.servers": bootstrap}).incremental_alter_configs([resource]).values():
        future.result(10)


def effective(broker: BrokerProcess, key: str) -> str | None:
    resource = ConfigResource(ConfigResource.Type.BROKER, str(broker.node_id))
    (future,) = AdminClient({"bootstrap.servers": broker.bootstrap}).describe_configs([resource]).values()
    entry = future.result(10).get(key)
    return None if entry is None else entry.value


def test_all_brokers_are_in_the_metadata_and_share_the_partitions(group: BrokerGroup) -> None:
    admin = AdminClient({"bootstrap.servers": group.brokers[0].bootstrap})
    for future in admin.create_topics([NewTopic("spread", 6, 1)]).values():
        future.result(10)
    until(lambda: "spread" in admin.list_topics(timeout=10).topics, "the topic is in the metadata")
    metadata = admin.list_topics(timeout=10)
    assert sorted(metadata.brokers) == [0, 1, 2]
    leaders = [part.leader for part in metadata.topics["spread"].partitions.values()]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]


def test_a_producer_reaches_every_partition(group: BrokerGroup) -> None:
    admin = AdminClient({"bootstrap.servers": group.brokers[1].bootstrap})
    for future in admin.create_topics([NewTopic("everywhere", 6, 1)]).values():
        future.result(10)
    producer = Producer({"bootstrap.servers": group.bootstrap})
    failed: list[object] = []
    for partition in range(6):
        producer.produce(
            "everywhere", b"x", partition=partition, on_delivery=lambda e, _m: failed.append(e) if e else None
        )
    assert producer.flush(20) == 0
    assert failed == []


def test_a_changed_limit_reaches_every_broker_and_its_removal_too(group: BrokerGroup) -> None:
    key = f"listener.name.external.{RATE}"
    alter_default(group.brokers[2].bootstrap, key, "77")
    for broker in group.brokers:
        until(lambda broker=broker: effective(broker, key) == "77", "the limit is in force")  # type: ignore[misc]
    alter_default(group.brokers[0].bootstrap, key, None)
    for broker in group.brokers:
        until(lambda broker=broker: effective(broker, key) != "77", "the limit is lifted")  # type: ignore[misc]


def test_a_broker_that_was_away_learns_what_it_missed(group: BrokerGroup) -> None:
    away = group.brokers[2]
    alter_default(group.brokers[0].bootstrap, RATE, "55")
    until(lambda: effective(away, RATE) == "55", "the first limit is in force")
    away.kill()
    alter_default(group.brokers[0].bootstrap, RATE, None)
    away.start()
    until(lambda: effective(away, RATE) == "2147483647", "the limit was lifted while the broker was away")


def test_brokers_serve_clients_while_the_controller_is_away(group: BrokerGroup) -> None:
    admin = AdminClient({"bootstrap.servers": group.brokers[0].bootstrap})
    for future in admin.create_topics([NewTopic("independent", 3, 1)]).values():
        future.result(10)
    producer = Producer({"bootstrap.servers": group.bootstrap})
    producer.produce("independent", b"before")
    assert producer.flush(20) == 0
    group.controller.kill()
    for number in range(30):
        producer.produce("independent", b"%d" % number)
    assert producer.flush(20) == 0
    group.controller.start()
    alter_default(group.brokers[0].bootstrap, RATE, "66")
    until(lambda: effective(group.brokers[1], RATE) == "66", "changes go on when the controller is back")
    alter_default(group.brokers[0].bootstrap, RATE, None)
