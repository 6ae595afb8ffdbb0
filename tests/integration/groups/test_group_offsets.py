"""Committed offsets of groups: later clients read them back, regardless of faults of brokers in between."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.broker_admin import until

TOPIC = "orders"
PARTITIONS = 3
# A broker whose heartbeat comes later than its session lasts would be fenced again and again.
QUICK_SESSIONS = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "200"}
OUT_OF_SYNC = "kafka_server_replica_manager_under_replicated_partitions"


def make_topic(broker: BrokerProcess, replicas: int) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.create_topics([NewTopic(TOPIC, PARTITIONS, replicas)]).values():
        future.result(60)
    until(lambda: TOPIC in admin.list_topics(timeout=10).topics, "the topic is in the metadata")


def member(bootstrap: str, group: str) -> Consumer:
    """Return a client that is assigned its partitions, and joins no group."""
    return Consumer({"bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False})


def commit(consumer: Consumer, offsets: list[int], topic: str = TOPIC) -> None:
    wanted = [TopicPartition(topic, index, offset) for index, offset in enumerate(offsets)]
    for done in consumer.commit(offsets=wanted, asynchronous=False) or ():
        assert done.error is None, done.error


def committed(consumer: Consumer, count: int = PARTITIONS) -> list[int]:
    found = consumer.committed([TopicPartition(TOPIC, index) for index in range(count)], timeout=60)
    return [each.offset for each in found]


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as running:
        yield running


@pytest.mark.full
def test_offsets_of_a_consumer_with_assigned_partitions_outlast_a_restart_and_a_kill(broker: BrokerProcess) -> None:
    make_topic(broker, 1)
    consumer = member(broker.bootstrap, "billing")
    assert committed(consumer) == [-1001, -1001, -1001], "nobody has committed anything"
    commit(consumer, [5, 0, 7])
    assert committed(member(broker.bootstrap, "billing")) == [5, 0, 7]
    broker.stop()
    broker.start()
    assert committed(member(broker.bootstrap, "billing")) == [5, 0, 7]
    assert committed(member(broker.bootstrap, "other")) == [-1001, -1001, -1001]
    commit(member(broker.bootstrap, "billing"), [6, 1, 8])
    broker.kill()
    broker.start()
    again = member(broker.bootstrap, "billing")
    assert committed(again) == [6, 1, 8]
    for each in (consumer, again):
        each.close()


def test_the_topic_of_offsets_is_internal(broker: BrokerProcess) -> None:
    make_topic(broker, 1)
    commit(member(broker.bootstrap, "billing"), [1])
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("__consumer_offsets", b"x", key=b"k", on_delivery=lambda error, _: refused.append(error))
    assert producer.flush(60) == 0
    assert "INVALID_TOPIC" in str(refused[0]) or "invalid topic" in str(refused[0]).lower()
    topics = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=10).topics
    assert len(topics["__consumer_offsets"].partitions) == 50


def committed_at_last(consumer: Consumer, offset: int) -> None:
    """Retry until a coordinator accepts the commit."""

    def taken() -> bool:
        try:
            commit(consumer, [offset])
        except KafkaException:
            return False
        return True

    until(taken, f"offset {offset} is committed")


def coordinator_of(group: BrokerGroup, group_id: str) -> BrokerProcess:
    admin = AdminClient({"bootstrap.servers": group.bootstrap})
    described = admin.describe_consumer_groups([group_id])[group_id].result(60)
    return next(broker for broker in group.brokers if broker.node_id == described.coordinator.id)


@pytest.mark.full
def test_committed_offsets_never_go_back_when_coordinators_are_killed() -> None:
    """The next leader of the group's partition has every acknowledged commit, and so does the returning one."""
    with BrokerGroup(brokers=3, properties=QUICK_SESSIONS) as group:
        make_topic(group.brokers[0], 3)
        consumer = member(group.bootstrap, "billing")
        acknowledged = 0
        for _ in range(2):
            for _ in range(20):
                acknowledged += 1
                committed_at_last(consumer, acknowledged)
            killed = coordinator_of(group, "billing")
            killed.kill()
            acknowledged += 1
            committed_at_last(consumer, acknowledged)
            assert committed(member(group.bootstrap, "billing"), 1) == [acknowledged]
            killed.start()
            for broker in group.brokers:
                until(lambda broker=broker: broker.metrics()[OUT_OF_SYNC] == 0, "all replicas are in sync")  # type: ignore[misc]
            assert committed(member(group.bootstrap, "billing"), 1) == [acknowledged]
