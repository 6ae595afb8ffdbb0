"""Transactions of real clients: commit, abort, fencing, time-outs, and offsets that are committed with their output."""

import random
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import until
from tests.support.transactions.clients import (
    COMMITTED,
    PRODUCERS,
    TIMEOUT_S,
    UNCOMMITTED,
    FencedError,
    Transactional,
    end_offset,
    read_all,
)

PROPERTIES = {
    "num.partitions": "1",
    "transaction.state.log.num.partitions": "3",
    "offsets.topic.num.partitions": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
}


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=PROPERTIES) as running:
        yield running


@pytest.fixture(params=PRODUCERS)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_committed_records_are_read_and_aborted_ones_only_by_readers_of_everything(
    broker: BrokerProcess, client: str
) -> None:
    topic, bootstrap = f"records-{client}", broker.bootstrap
    producer: Transactional = PRODUCERS[client](bootstrap, topic)
    producer.begin()
    producer.send(topic, ["a1", "a2"])
    assert (end_offset(bootstrap, topic, COMMITTED), end_offset(bootstrap, topic, UNCOMMITTED)) == (0, 2)
    assert read_all(bootstrap, topic, UNCOMMITTED) == ["a1", "a2"]
    producer.commit()
    producer.begin()
    producer.send(topic, ["b1"])
    producer.abort()
    producer.begin()
    producer.send(topic, ["c1", "c2"])
    producer.commit()
    # Three transactions have a marker each. The last one may still be on its way.
    until(lambda: end_offset(bootstrap, topic, COMMITTED) == 8, "the markers are written")
    assert read_all(bootstrap, topic, COMMITTED) == ["a1", "a2", "c1", "c2"]
    assert read_all(bootstrap, topic, UNCOMMITTED) == ["a1", "a2", "b1", "c1", "c2"]
    producer.close()


def test_a_second_producer_of_an_id_fences_the_first_and_aborts_its_transaction(
    broker: BrokerProcess, client: str
) -> None:
    topic, bootstrap = f"fencing-{client}", broker.bootstrap
    zombie: Transactional = PRODUCERS[client](bootstrap, topic)
    zombie.begin()
    zombie.send(topic, ["zombie"])
    heir: Transactional = PRODUCERS[client](bootstrap, topic)
    heir.begin()
    heir.send(topic, ["heir"])
    with pytest.raises(FencedError):
        zombie.commit()
    heir.commit()
    until(lambda: end_offset(bootstrap, topic, COMMITTED) == 4, "the markers are written")
    assert read_all(bootstrap, topic, COMMITTED) == ["heir"]
    assert read_all(bootstrap, topic, UNCOMMITTED) == ["zombie", "heir"]
    zombie.close()
    heir.close()


def test_an_idle_transaction_is_aborted_and_readers_go_on(broker: BrokerProcess, client: str) -> None:
    topic, bootstrap = f"idle-{client}", broker.bootstrap
    idle: Transactional = PRODUCERS[client](bootstrap, f"idle-{topic}", timeout_ms=1_000)
    idle.begin()
    idle.send(topic, ["idle"])
    other: Transactional = PRODUCERS[client](bootstrap, f"other-{topic}")
    other.begin()
    other.send(topic, ["other"])
    other.commit()
    until(lambda: end_offset(bootstrap, topic, COMMITTED) == 4, "the idle transaction is aborted")
    assert read_all(bootstrap, topic, COMMITTED) == ["other"]
    with pytest.raises(FencedError):
        idle.commit()
    idle.close()
    other.close()


def consumer_of(bootstrap: str, group: str, topic: str, **more: str) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": COMMITTED,
            **more,
        }
    )
    consumer.subscribe([topic])
    return consumer


def read_some(consumer: Consumer) -> list[Message]:
    """At least one and at most seven records."""
    found: list[Message] = []

    def read() -> bool:
        found.extend(consumer.consume(7, 0.2))
        return bool(found)

    until(read, "the consumer gets a record", TIMEOUT_S)
    return found


def committed_offset(consumer: Consumer, topic: str) -> int:
    (found,) = consumer.committed([TopicPartition(topic, 0)], TIMEOUT_S)
    return int(found.offset)


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.full), "consumer"])
def test_each_input_has_its_output_once_although_some_transactions_are_aborted(
    broker: BrokerProcess, client: str, protocol: str
) -> None:
    bootstrap, chance = broker.bootstrap, random.Random(7)
    source, target, group = (f"{kind}-{client}-{protocol}" for kind in ("in", "out", "group"))
    count = 63
    feeder: Transactional = PRODUCERS[client](bootstrap, source)
    feeder.begin()
    feeder.send(source, [str(number) for number in range(count)])
    feeder.commit()
    feeder.close()
    producer: Transactional = PRODUCERS[client](bootstrap, target)
    consumer = consumer_of(bootstrap, group, source, **{"group.protocol": protocol})
    at, aborted = 0, 0
    while at < count:
        messages = read_some(consumer)
        values = [(message.value() or b"").decode() for message in messages]
        producer.begin()
        producer.send(target, [f"made of {value}" for value in values])
        position = (messages[-1].offset() or 0) + 1
        producer.send_offsets({(source, 0): position}, consumer, group)
        if aborted < 4 and chance.random() < 0.5:
            producer.abort()
            aborted += 1
            consumer.seek(TopicPartition(source, 0, at))
        else:
            producer.commit()
            at = position
    assert aborted
    until(lambda: committed_offset(consumer, source) == count, "the offsets of the last transaction count")
    consumer.close()
    producer.close()
    until(
        lambda: end_offset(bootstrap, target, COMMITTED) == end_offset(bootstrap, target, UNCOMMITTED),
        "the markers are written",
    )
    assert read_all(bootstrap, target, COMMITTED) == [f"made of {number}" for number in range(count)]
    assert len(read_all(bootstrap, target, UNCOMMITTED)) > count


def test_a_zombie_of_an_earlier_generation_commits_no_offsets(broker: BrokerProcess) -> None:
    bootstrap, source, group = broker.bootstrap, "in-zombie", "group-zombie"
    producer = PRODUCERS["confluent-kafka"](bootstrap, "zombie")
    producer.begin()
    producer.send(source, ["x"])
    producer.commit()
    first = consumer_of(bootstrap, group, source)
    assert read_some(first)
    stale = first.consumer_group_metadata()
    first.close()
    second = consumer_of(bootstrap, group, source)
    assert read_some(second)

    class Stale:
        def consumer_group_metadata(self) -> object:
            return stale

    producer.begin()
    with pytest.raises(Exception, match=r"UNKNOWN_MEMBER_ID|unknown member|Unknown member"):
        producer.send_offsets({(source, 0): 1}, Stale(), group)
    producer.abort()
    assert committed_offset(second, source) < 0
    second.close()
