"""The lag metric of a group: its coordinator exports it, regardless of the partitions' leaders."""

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import BrokerGroup
from tests.support.processes.clients.broker_admin import until

TOPIC, GROUP = "orders", 'billing "north"'
PARTITIONS, RECORDS, COMMITTED = 4, 10, 3
LAG = 'kafka_consumergroup_lag_sum{consumergroup="billing \\"north\\"",topic="orders"}'


@pytest.fixture
def cluster() -> Iterator[BrokerGroup]:
    with BrokerGroup(2, properties={"sluicegate.group.lag.interval.ms": "1000"}) as cluster:
        yield cluster


def commit(bootstrap: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(TOPIC, index, offset) for index in range(PARTITIONS)], asynchronous=False)
    consumer.close()


def test_the_coordinator_exports_the_lag_of_partitions_led_by_other_brokers(cluster: BrokerGroup) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
    producer = Producer({"bootstrap.servers": cluster.bootstrap})
    for number in range(PARTITIONS * RECORDS):
        producer.produce(TOPIC, b"x", partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    leaders = {part.leader for part in admin.list_topics(timeout=10).topics[TOPIC].partitions.values()}
    assert leaders == {broker.node_id for broker in cluster.brokers}

    def told() -> list[float]:
        return [lag for broker in cluster.brokers if (lag := broker.metrics().get(LAG)) is not None]

    commit(cluster.bootstrap, COMMITTED)
    until(lambda: told() == [PARTITIONS * (RECORDS - COMMITTED)], "one broker tells the lag")
    commit(cluster.bootstrap, RECORDS)
    until(lambda: told() == [0], "it has read everything")
    assert all(broker.metrics()["sluicegate_group_lag_age_seconds"] < 60 for broker in cluster.brokers)
