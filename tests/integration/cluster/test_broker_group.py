"""One controller process and three brokers: metadata, dynamic configuration and quotas reach all of them."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.broker_admin import effective_config, set_default_config, until

RATE = "max.connection.creation.rate"
LISTENER_RATE = f"listener.name.external.{RATE}"


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(brokers=3, listeners=["EXTERNAL"]) as running:
        yield running


def test_all_brokers_are_in_the_metadata_and_share_the_partitions(group: BrokerGroup) -> None:
    admin = AdminClient({"bootstrap.servers": group.brokers[0].bootstrap})
    for future in admin.create_topics([NewTopic("spread", 6, 1)]).values():
        future.result(60)
    until(lambda: "spread" in admin.list_topics(timeout=10).topics, "the topic is in the metadata")
    metadata = admin.list_topics(timeout=10)
    assert sorted(metadata.brokers) == [0, 1, 2]
    leaders = [part.leader for part in metadata.topics["spread"].partitions.values()]
    assert sorted(leaders) == [0, 0, 1, 1, 2, 2]


def test_a_producer_reaches_every_partition(group: BrokerGroup) -> None:
    admin = AdminClient({"bootstrap.servers": group.brokers[1].bootstrap})
    for future in admin.create_topics([NewTopic("everywhere", 6, 1)]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": group.bootstrap})
    failed: list[object] = []
    for partition in range(6):
        producer.produce(
            "everywhere", b"x", partition=partition, on_delivery=lambda e, _m: failed.append(e) if e else None
        )
    assert producer.flush(60) == 0
    assert failed == []


def test_a_changed_limit_reaches_every_broker_and_its_removal_too(group: BrokerGroup) -> None:
    set_default_config(group.brokers[2], LISTENER_RATE, "77")
    for broker in group.brokers:
        until(lambda broker=broker: effective_config(broker, LISTENER_RATE) == "77", "the limit is in force")  # type: ignore[misc]
    set_default_config(group.brokers[0], LISTENER_RATE, None)
    for broker in group.brokers:
        until(lambda broker=broker: effective_config(broker, LISTENER_RATE) != "77", "the limit is lifted")  # type: ignore[misc]


@pytest.mark.full
def test_a_broker_that_was_away_learns_what_it_missed(group: BrokerGroup) -> None:
    away = group.brokers[2]
    set_default_config(group.brokers[0], RATE, "55")
    until(lambda: effective_config(away, RATE) == "55", "the first limit is in force")
    away.kill()
    set_default_config(group.brokers[0], RATE, None)
    away.start()
    until(lambda: effective_config(away, RATE) == "2147483647", "the limit was lifted while the broker was away")


def test_brokers_serve_clients_while_the_controller_is_away(group: BrokerGroup) -> None:
    admin = AdminClient({"bootstrap.servers": group.brokers[0].bootstrap})
    for future in admin.create_topics([NewTopic("independent", 3, 1)]).values():
        future.result(60)
    producer = Producer({"bootstrap.servers": group.bootstrap})
    producer.produce("independent", b"before")
    assert producer.flush(60) == 0
    group.controller.kill()
    for number in range(30):
        producer.produce("independent", b"%d" % number)
    assert producer.flush(60) == 0
    group.controller.start()
    set_default_config(group.brokers[0], RATE, "66")
    until(lambda: effective_config(group.brokers[1], RATE) == "66", "changes go on when the controller is back")
    set_default_config(group.brokers[0], RATE, None)
