"""Deleted records: with several replicas, across a failover, and for replicas that are added later."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition
from confluent_kafka.admin import AdminClient

from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.acknowledged import Partitions, create_topic
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import WireClient

PROPERTIES = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1500",
}


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


def produce(group: BrokerGroup, topic: str, records: int, per_batch: int) -> None:
    settings = {"bootstrap.servers": group.bootstrap, "acks": "all", "linger.ms": 10_000, "log_level": 2}
    producer = Producer(settings | {"batch.num.messages": per_batch})
    for number in range(records):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0


def delete_before(group: BrokerGroup, topic: str, offset: int) -> int:
    admin = AdminClient({"bootstrap.servers": group.bootstrap, "log_level": 2})
    (deleted,) = admin.delete_records([ConfluentPartition(topic, 0, offset)], operation_timeout=60).values()
    return int(deleted.result(60).low_watermark)


def earliest(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 2})
    try:
        return int(consumer.get_watermark_offsets(ConfluentPartition(topic, 0), timeout=5)[0])
    except KafkaException:
        return -1
    finally:
        consumer.close()


@pytest.mark.full
def test_the_leader_after_the_one_that_answered_serves_no_deleted_records(group: BrokerGroup) -> None:
    create_topic(group.bootstrap, "gone", 1, 3, min_insync_replicas="2")
    partitions = Partitions(group.bootstrap, "gone")
    until(lambda: partitions.all_in_sync(3), "all replicas are in sync")
    produce(group, "gone", 100, 10)
    for offset in (60, 65, 90):
        leader = partitions.leaders()[0]
        assert delete_before(group, "gone", offset) == offset
        group.brokers[leader].kill()
        wait_for_leader(partitions, {0, 1, 2} - {leader})
        until(lambda: earliest(group.bootstrap, "gone") >= 0, "the new leader tells its log start")
        assert earliest(group.bootstrap, "gone") == offset
        group.brokers[leader].start()
        until(lambda: partitions.all_in_sync(3), "all replicas are in sync")


def wait_for_leader(partitions: Partitions, choice: set[int]) -> None:
    until(lambda: partitions.leaders()[0] in choice, f"one of {choice} leads")


@pytest.mark.full
def test_a_new_replica_of_a_log_that_starts_inside_a_batch_catches_up(group: BrokerGroup) -> None:
    create_topic(group.bootstrap, "inside", 1, 1)
    partitions = Partitions(group.bootstrap, "inside")
    produce(group, "inside", 50, 10)
    assert delete_before(group, "inside", 25) == 25
    leader = partitions.leaders()[0]
    wanted = [leader, (leader + 1) % 3]
    with WireClient((group.brokers[0].host, group.brokers[0].port())) as client:
        moved = [{"name": "inside", "partitions": [{"partition_index": 0, "replicas": wanted}]}]
        client.ask("alter_partition_reassignments", 0, timeout=60_000, topics=moved)
    until(lambda: partitions.isr()[0] == set(wanted), "the new replica is in sync")
    group.brokers[leader].kill()
    wait_for_leader(partitions, {wanted[1]})
    until(lambda: earliest(group.bootstrap, "inside") == 25, "it begins where the other one did")
    group.brokers[leader].start()
