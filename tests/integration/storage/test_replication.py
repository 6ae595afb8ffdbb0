"""Brokers are killed, frozen and stopped under a running acks=all producer: no record is lost or repeated."""

import os
import signal
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka import TopicPartition as ConfluentPartition

from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, Partitions, create_topic
from tests.support.processes.clients.broker_admin import until

PARTITIONS = 4
PROPERTIES = {
    "broker.session.timeout.ms": "1500",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.backoff.ms": "200",
}


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


class Scene:
    """One topic of three replicas with min.insync.replicas=2, and its leader."""

    def __init__(self, group: BrokerGroup, topic: str) -> None:
        self.group = group
        self.topic = topic
        create_topic(group.bootstrap, topic, PARTITIONS, 3, min_insync_replicas="2")
        self.partitions = Partitions(group.bootstrap, topic)
        self.wait_in_sync()

    def wait_in_sync(self) -> None:
        until(lambda: self.partitions.all_in_sync(3), "all replicas are in sync")

    def wait_moved_from(self, broker: BrokerProcess) -> None:
        until(lambda: broker.node_id not in self.partitions.leaders().values(), "other brokers lead")

    def workload(self) -> AcknowledgedWorkload:
        return AcknowledgedWorkload(self.group.bootstrap, self.topic, PARTITIONS)


def progress(work: AcknowledgedWorkload, records: int = 200) -> None:
    before = work.count
    until(lambda: work.count >= before + records, "the producer goes on")


def kill(scene: Scene, broker: BrokerProcess, work: AcknowledgedWorkload) -> None:
    broker.kill()
    scene.wait_moved_from(broker)
    progress(work)
    broker.start()


def stop_cleanly(scene: Scene, broker: BrokerProcess, work: AcknowledgedWorkload) -> None:
    assert broker.stop() == 0
    scene.wait_moved_from(broker)
    progress(work)
    broker.start()


def freeze(scene: Scene, broker: BrokerProcess, work: AcknowledgedWorkload) -> None:
    """Freeze the broker for longer than its session: it wakes up believing that it leads."""
    os.kill(broker.pid, signal.SIGSTOP)
    try:
        scene.wait_moved_from(broker)
        progress(work)
    finally:
        os.kill(broker.pid, signal.SIGCONT)


@pytest.mark.parametrize(
    "mishap",
    [
        pytest.param(kill, id="kill -9"),
        pytest.param(stop_cleanly, id="SIGTERM", marks=pytest.mark.full),
        pytest.param(freeze, id="SIGSTOP", marks=pytest.mark.full),
    ],
)
def test_each_broker_in_turn(
    group: BrokerGroup, mishap: Callable[[Scene, BrokerProcess, AcknowledgedWorkload], None]
) -> None:
    scene = Scene(group, f"each-{mishap.__name__}")
    with scene.workload() as work:
        progress(work)
        for broker in group.brokers:
            mishap(scene, broker, work)
            scene.wait_in_sync()
            progress(work)
    work.check()


@pytest.mark.full
def test_all_brokers_at_once(group: BrokerGroup) -> None:
    scene = Scene(group, "all")
    with scene.workload() as work:
        progress(work)
        for broker in group.brokers:
            broker.kill()
        for broker in group.brokers:
            broker.start(wait=False)
        for broker in group.brokers:
            broker.wait_ready()
        scene.wait_in_sync()
        progress(work)
    work.check()


@pytest.mark.full
def test_leaders_are_spread_again_soon_after_brokers_are_back(group: BrokerGroup) -> None:
    scene = Scene(group, "spread")
    first, *others = group.brokers
    before = scene.partitions.leaders()
    assert set(before.values()) == {broker.node_id for broker in group.brokers}
    for broker in others:
        broker.kill()
    until(lambda: set(scene.partitions.leaders().values()) == {first.node_id}, "one broker leads everything")
    for broker in others:
        broker.start()
    scene.wait_in_sync()
    # Kafka's own interval is five minutes.
    until(lambda: scene.partitions.leaders() == before, "the preferred replicas lead")


@pytest.mark.full
def test_the_controller_and_a_leader_together(group: BrokerGroup) -> None:
    scene = Scene(group, "controller")
    with scene.workload() as work:
        progress(work)
        group.controller.kill()
        group.brokers[0].kill()
        group.controller.start()
        group.brokers[0].start()
        scene.wait_in_sync()
        progress(work)
    work.check()


@pytest.mark.full
def test_too_few_replicas_take_no_acks_all_and_give_what_they_have(group: BrokerGroup) -> None:
    scene = Scene(group, "few")
    with scene.workload() as work:
        progress(work)
    keeper, *others = group.brokers
    for broker in others:
        broker.kill()
    try:
        until(lambda: all(isr == {keeper.node_id} for isr in scene.partitions.isr().values()), "one is in sync")
        producer = Producer(
            {"bootstrap.servers": keeper.bootstrap, "acks": "all", "message.timeout.ms": 2_000, "log_level": 2}
        )
        told: list[object] = []
        producer.produce(scene.topic, b"refused", partition=0, on_delivery=lambda error, _: told.append(error))
        producer.flush(30)
        (error,) = told
        assert error is not None, "the record was taken without a second replica"
        assert producer.list_topics(scene.topic, timeout=30).topics[scene.topic].partitions[0].leader == keeper.node_id
    finally:
        for broker in others:
            broker.start()
    scene.wait_in_sync()
    work.check()


@pytest.mark.full
def test_a_sole_replica_comes_back_with_its_broker(group: BrokerGroup) -> None:
    create_topic(group.bootstrap, "sole", 3, 1)
    partitions = Partitions(group.bootstrap, "sole")
    until(lambda: set(partitions.leaders().values()) == {0, 1, 2}, "each broker leads one")
    with AcknowledgedWorkload(group.bootstrap, "sole", 3) as work:
        progress(work)
        group.brokers[2].kill()
        until(lambda: -1 in partitions.leaders().values(), "its partition has no leader")
        group.brokers[2].start()
        until(lambda: -1 not in partitions.leaders().values(), "the leader is back")
        progress(work)
    work.check()


def test_consumers_see_nothing_that_is_not_replicated(group: BrokerGroup) -> None:
    """A frozen follower blocks the high watermark until it is removed from the in-sync set."""
    scene = Scene(group, "watermark")
    leader = scene.partitions.leaders()[0]
    follower = next(b for b in group.brokers if b.node_id != leader)
    os.kill(follower.pid, signal.SIGSTOP)
    try:
        bootstrap = group.brokers[leader].bootstrap
        producer = Producer({"bootstrap.servers": bootstrap, "acks": "1", "log_level": 2})
        producer.produce(scene.topic, b"v", partition=0)
        assert producer.flush(60) == 0
        assert high_watermark(bootstrap, scene.topic) in (0, 1)
        until(lambda: high_watermark(bootstrap, scene.topic) == 1, "the set shrank and the record is readable")
        assert follower.node_id not in scene.partitions.isr()[0]
    finally:
        os.kill(follower.pid, signal.SIGCONT)
    scene.wait_in_sync()


def high_watermark(bootstrap: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "log_level": 2})
    try:
        return int(consumer.get_watermark_offsets(ConfluentPartition(topic, 0), timeout=5)[1])
    except KafkaException:
        return -1
    finally:
        consumer.close()
