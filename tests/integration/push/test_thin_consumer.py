"""examples/thin-consumer, written in Go from the page on the push protocol only, with three real brokers."""

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.groups.groups_at_work import GroupProducer, address, coordinator_of
from tests.support.obtain.thin_consumer import ThinConsumer
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.acknowledged import create_topic
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.proxies.lying_broker import RUBBISH, Liar

pytestmark = pytest.mark.full

PARTITIONS = 6
SESSION_S = 1.5
PROPERTIES = {
    "group.min.session.timeout.ms": "100",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1500",
    # Otherwise the coordinator would move again, some time after a broker has returned.
    "auto.leader.rebalance.enable": "false",
}


@pytest.fixture(scope="module")
def brokers() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


def thin(bootstrap: str, topic: str, name: str) -> ThinConsumer:
    """Return a consumer whose group has the name of its topic."""
    pattern = f"{topic[:-1]}[{topic[-1]}]"
    return ThinConsumer(bootstrap, group=topic, name=name, pattern=pattern, session_s=SESSION_S)


def wait_shared(topic: str, *consumers: ThinConsumer) -> None:
    wanted = sorted(f"{topic}-{number}" for number in range(PARTITIONS))

    def are() -> bool:
        shares = [consumer.partitions for consumer in consumers]
        return all(shares) and sorted(each for share in shares for each in share) == wanted

    until(are, f"{[consumer.name for consumer in consumers]} share all partitions")


def wait_written(producer: GroupProducer) -> None:
    """Wait for new records in every partition, which shows that each has a leader."""
    last = max(map(int, set(producer.acknowledged)), default=-1)

    def goes_on() -> bool:
        later = [number for number in map(int, set(producer.acknowledged)) if number > last]
        return len({number % PARTITIONS for number in later}) == PARTITIONS

    until(goes_on, "the producer goes on")


def wait_read(producer: GroupProducer, *consumers: ThinConsumer) -> None:
    """Wait until every record acknowledged so far has been read."""
    wanted = set(producer.acknowledged)
    until(lambda: wanted <= frozenset().union(*(each.read() for each in consumers)), "every record has been read")


def coordinator(brokers: BrokerGroup, group: str) -> BrokerProcess:
    found: list[int] = []

    def knows() -> bool:
        answer = coordinator_of([address(each.bootstrap) for each in brokers.brokers if each.is_running], group)
        found.extend([] if answer is None else [answer["node_id"]])
        return bool(found)

    until(knows, f"a coordinator of {group}")
    return brokers.brokers[found[-1]]


def committed(brokers: BrokerGroup, topic: str) -> dict[int, int]:
    """Return the committed offsets, as an ordinary client of the group sees them."""
    settings: dict[str, Any] = {"bootstrap.servers": brokers.bootstrap, "group.id": topic, "log_level": 2}
    consumer = Consumer(settings)
    try:
        asked = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        return {each.partition: each.offset for each in consumer.committed(asked, timeout=30)}
    finally:
        consumer.close()


def ends(brokers: BrokerGroup, topic: str) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": brokers.bootstrap, "group.id": "unused", "log_level": 2})
    try:
        return {
            number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=30)[1]
            for number in range(PARTITIONS)
        }
    finally:
        consumer.close()


def test_it_survives_consumers_and_coordinators(brokers: BrokerGroup) -> None:
    """One of two is killed, then the coordinator's broker.

    Every record is read, and offsets are finally handed over.
    """
    topic = "orders"
    create_topic(brokers.bootstrap, topic, PARTITIONS, 3)
    with (
        GroupProducer(brokers.bootstrap, topic, PARTITIONS) as producer,
        thin(brokers.bootstrap, topic, "first") as first,
        thin(brokers.bootstrap, topic, "second") as second,
    ):
        wait_shared(topic, first, second)
        wait_written(producer)
        wait_read(producer, first, second)
        second.kill()
        wait_shared(topic, first)
        with thin(brokers.bootstrap, topic, "third") as third:
            wait_shared(topic, first, third)
            readers = first, second, third
            wait_read(producer, *readers)
            starts = first.starts, third.starts
            killed = coordinator(brokers, topic)
            killed.kill()
            until(lambda: first.starts > starts[0] and third.starts > starts[1], "the next coordinator starts both")
            wait_shared(topic, first, third)
            wait_written(producer)
            wait_read(producer, *readers)
            killed.start()
            producer.stop()
            assert not producer.failures, producer.failures[:3]
            wait_read(producer, *readers)
            assert (first.leave(), third.leave()) == (0, 0), first.complaints + third.complaints
    assert committed(brokers, topic) == ends(brokers, topic)


def test_it_follows_a_leader_that_moves(brokers: BrokerGroup) -> None:
    """No call reports the loss of a leader that is not the coordinator: the consumer looks for the next one itself."""
    topic = "parcels"
    create_topic(brokers.bootstrap, topic, PARTITIONS, 3)
    with (
        GroupProducer(brokers.bootstrap, topic, PARTITIONS) as producer,
        thin(brokers.bootstrap, topic, "only") as only,
    ):
        wait_shared(topic, only)
        wait_written(producer)
        wait_read(producer, only)
        coordinating = coordinator(brokers, topic)
        killed = next(each for each in brokers.brokers if each is not coordinating)
        killed.kill()
        try:
            wait_written(producer)
            wait_read(producer, only)
        finally:
            killed.start()
        assert only.starts == 1, "it was not started again"
        assert only.leave() == 0, only.complaints


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy"])
def test_the_thin_consumer_decompresses_known_codecs_and_fails_for_others(brokers: BrokerGroup, codec: str) -> None:
    """An unknown codec ends the consumer with an error, so that another one may continue."""
    topic = f"of-{codec}"
    create_topic(brokers.bootstrap, topic, PARTITIONS, 3)
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "compression.type": codec, "linger.ms": 20})
    wanted = {b"%d " % number + b"x" * 100 for number in range(500)}
    for value in wanted:
        producer.produce(topic, value, partition=0)
    assert producer.flush(60) == 0
    with thin(brokers.bootstrap, topic, "one") as consumer:
        if codec == "snappy":
            assert consumer.ended() == 1
            assert "compressed with snappy" in consumer.complaints
            return
        until(lambda: consumer.read() == wanted, "all is read")
        assert consumer.leave() == 0, consumer.complaints


def test_it_outlives_bad_frames() -> None:
    """Bad frames end the connection, and the consumer continues.

    They come from the bootstrap broker, the coordinator and a leader.
    """
    with Liar("rubbish", "one") as liar, thin(liar.address, "rubbish", "one") as consumer:
        until(liar.has_told_all, "it has been told every lie")
        # The answer with the wrong checksum is the last one to a Fetch: the consumer may still be reading it.
        until(lambda: "the checksum is wrong" in consumer.complaints, "the consumer reports the wrong checksum")
        assert consumer.leave() == 0, consumer.complaints
    complaints = consumer.complaints
    for complaint in ("no coordinator", "registering", "the coordinator 127", "reading rubbish-0 from"):
        assert complaints.count(complaint) >= len(RUBBISH), complaint + complaints
    assert "panic" not in complaints
