"""confluent-kafka's members of KIP-848 groups (group.protocol=consumer) against a broker process."""

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from tests.support.processes.broker_process import BrokerProcess

DEADLINE_S = 30.0
PARTITIONS = 4
QUICK = {
    "num.partitions": str(PARTITIONS),
    "offsets.topic.num.partitions": "4",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "3000",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.assignment.interval.ms": "100",
    "group.initial.rebalance.delay.ms": "0",
}
OTHER_PROCESS = """
import sys
from confluent_kafka import Consumer
consumer = Consumer({"bootstrap.servers": sys.argv[1], "group.id": sys.argv[2], "group.protocol": "consumer"})
consumer.subscribe([sys.argv[3]])
while not consumer.assignment():
    consumer.poll(0.1)
print("assigned", flush=True)
while True:
    consumer.poll(0.1)
"""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=QUICK) as process:
        yield process


def fill(bootstrap: str, topic: str, count: int = 40) -> None:
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=number % PARTITIONS)
    assert producer.flush(DEADLINE_S) == 0


@contextmanager
def member(bootstrap: str, group: str, *topics: str, **settings: Any) -> Iterator[Consumer]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "topic.metadata.refresh.interval.ms": 500,
            **settings,
        }
    )
    consumer.subscribe(list(topics))
    try:
        yield consumer
    finally:
        consumer.close()


def until(reached: Callable[[], bool], *members: Consumer) -> list[bytes]:
    """Poll the members until the condition is true, and return the records that they read."""
    read: list[bytes] = []
    deadline = time.monotonic() + DEADLINE_S
    while not reached():
        assert time.monotonic() < deadline, [consumer.assignment() for consumer in members]
        for consumer in members:
            message = consumer.poll(0.02)
            if message is not None:
                assert message.error() is None, message.error()
                read.append(message.value())
    return read


def shares(*members: Consumer) -> list[int]:
    return sorted(len(consumer.assignment()) for consumer in members)


def indexes(*members: Consumer) -> list[int]:
    return sorted(part.partition for consumer in members for part in consumer.assignment())


def test_a_member_reads_commits_and_the_next_goes_on_there(broker: BrokerProcess) -> None:
    fill(broker.bootstrap, "alone")
    with member(broker.bootstrap, "alone", "alone") as first:
        read: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(read) < 40 and time.monotonic() < deadline:
            read += [message.value() for message in first.consume(40, 0.2)]
        assert sorted(read, key=int) == [b"%d" % number for number in range(40)]
        committed = first.commit(asynchronous=False)
        assert sum(part.offset for part in committed) == 40
    fill(broker.bootstrap, "alone", 4)
    with member(broker.bootstrap, "alone", "alone") as second:
        found = sum(part.offset for part in second.committed([TopicPartition("alone", p) for p in range(PARTITIONS)]))
        assert found == 40
        more: list[bytes] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(more) < 4 and time.monotonic() < deadline:
            more += [message.value() for message in second.consume(4, 0.2)]
        assert sorted(more) == [b"0", b"1", b"2", b"3"]


def test_two_members_share_and_the_one_that_stays_has_all(broker: BrokerProcess) -> None:
    fill(broker.bootstrap, "shared")
    with member(broker.bootstrap, "shared", "shared") as first:
        until(lambda: shares(first) == [PARTITIONS], first)
        with member(broker.bootstrap, "shared", "shared") as second:
            until(lambda: shares(first, second) == [2, 2], first, second)
            assert indexes(first, second) == list(range(PARTITIONS))
        until(lambda: shares(first) == [PARTITIONS], first)


def test_the_partitions_of_a_member_that_is_killed_go_to_the_other(broker: BrokerProcess) -> None:
    fill(broker.bootstrap, "killed")
    command = [sys.executable, "-c", OTHER_PROCESS, broker.bootstrap, "killed", "killed"]
    with member(broker.bootstrap, "killed", "killed") as survivor:
        until(lambda: shares(survivor) == [PARTITIONS], survivor)
        with subprocess.Popen(command, stdout=subprocess.PIPE) as other:
            until(lambda: shares(survivor) == [2], survivor)
            other.send_signal(signal.SIGKILL)
            until(lambda: shares(survivor) == [PARTITIONS], survivor)


def test_a_returning_static_member_gets_its_partitions_back(broker: BrokerProcess) -> None:
    fill(broker.bootstrap, "static")
    with member(broker.bootstrap, "static", "static", **{"group.instance.id": "other"}) as other:
        with member(broker.bootstrap, "static", "static", **{"group.instance.id": "one"}) as one:
            until(lambda: shares(one, other) == [2, 2], one, other)
            had, others = indexes(one), indexes(other)
        with member(broker.bootstrap, "static", "static", **{"group.instance.id": "one"}) as again:
            until(lambda: shares(again) == [2], again, other)
            assert (indexes(again), indexes(other)) == (had, others)


def test_two_with_one_instance_id(broker: BrokerProcess) -> None:
    """The second is refused while the first is a member (UNRELEASED_INSTANCE_ID)."""
    fill(broker.bootstrap, "twice")
    with member(broker.bootstrap, "twice", "twice", **{"group.instance.id": "one"}) as first:
        until(lambda: shares(first) == [PARTITIONS], first)
        with member(broker.bootstrap, "twice", "twice", **{"group.instance.id": "one"}) as second:
            refused = second.poll(DEADLINE_S)
            assert refused is not None
            assert "instance ID is still used by another member" in refused.error().str()
        assert shares(first) == [PARTITIONS]


def test_topics_by_a_regular_expression_and_partitions_that_are_added(broker: BrokerProcess) -> None:
    fill(broker.bootstrap, "matched-one")
    with member(broker.bootstrap, "matching", "^matched-.*") as consumer:
        until(lambda: shares(consumer) == [PARTITIONS], consumer)
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for done in admin.create_partitions([NewPartitions("matched-one", PARTITIONS + 2)]).values():
            done.result(DEADLINE_S)
        until(lambda: shares(consumer) == [PARTITIONS + 2], consumer)


def test_members_of_both_protocols_share_and_the_group_follows_those_who_stay(broker: BrokerProcess) -> None:
    """Online migration: a classic group accepts a member of KIP-848, and is classic again after that one has left."""
    fill(broker.bootstrap, "mixed")
    old = {"group.protocol": "classic", "session.timeout.ms": 6_000, "heartbeat.interval.ms": 200}
    old["partition.assignment.strategy"] = "cooperative-sticky"
    with member(broker.bootstrap, "mixed", "mixed", **old) as classic:
        until(lambda: shares(classic) == [PARTITIONS], classic)
        with member(broker.bootstrap, "mixed", "mixed") as modern:
            until(lambda: shares(classic, modern) == [2, 2], classic, modern)
            assert indexes(classic, modern) == list(range(PARTITIONS))
            classic.commit(offsets=[TopicPartition("mixed", part.partition, 1) for part in classic.assignment()])
        until(lambda: shares(classic) == [PARTITIONS], classic)
        with member(broker.bootstrap, "mixed", "mixed", **old) as second:
            until(lambda: shares(classic, second) == [2, 2], classic, second)
    with member(broker.bootstrap, "mixed", "mixed") as modern:
        until(lambda: shares(modern) == [PARTITIONS], modern)
    with member(broker.bootstrap, "mixed", "mixed", **old) as classic:
        until(lambda: shares(classic) == [PARTITIONS], classic)
