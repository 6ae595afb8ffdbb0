"""The last in-sync replica dies and returns: it leads if its data are complete, else a complete replica must return."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.acknowledged import Partitions, create_topic
from tests.support.processes.clients.broker_admin import until

PROPERTIES = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "200",
    "replica.lag.time.max.ms": "1500",
    "replica.fetch.backoff.ms": "200",
    "sluicegate.controlled.shutdown.timeout.ms": "1000",
}


@pytest.fixture(scope="module")
def group() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, properties=PROPERTIES) as running:
        yield running


class Scene:
    """A partition on three brokers with min.insync.replicas=2."""

    def __init__(self, group: BrokerGroup, topic: str) -> None:
        self.group = group
        self.topic = topic
        create_topic(group.bootstrap, topic, 1, 3, min_insync_replicas="2")
        self.partitions = Partitions(group.bootstrap, topic)
        self.acknowledged: list[bytes] = []
        self.wait_in_sync(0, 1, 2)

    def wait_in_sync(self, *brokers: int) -> None:
        until(lambda: self.partitions.isr()[0] == set(brokers), f"{brokers} are in sync")

    @property
    def leader(self) -> int:
        return self.partitions.leaders()[0]

    def wait_led_by(self, broker: BrokerProcess) -> None:
        until(lambda: self.leader == broker.node_id, f"broker {broker.node_id} leads")

    def produce(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.group.bootstrap, "acks": "all", "log_level": 2})

        def done(error: object, message: Message) -> None:
            assert error is None
            value = message.value()
            assert value is not None
            self.acknowledged.append(value)

        for number in range(count):
            producer.produce(self.topic, b"%d" % (len(self.acknowledged) + number), partition=0, on_delivery=done)
        assert producer.flush(30) == 0

    def read(self) -> list[bytes | None]:
        settings = {"group.id": "unused", "enable.auto.commit": False, "log_level": 2}
        consumer = Consumer({"bootstrap.servers": self.group.bootstrap} | settings)
        place = TopicPartition(self.topic, 0, 0)
        try:
            _, end = consumer.get_watermark_offsets(place, timeout=30)
            consumer.assign([place])
            found: list[bytes | None] = []
            while len(found) < end:
                batch = consumer.consume(end, timeout=30)
                assert batch, f"{len(found)} of {end} records within 30 s"
                found += [message.value() for message in batch]
            return found
        finally:
            consumer.close()

    def state(self, broker: BrokerProcess) -> str:
        return str(self.group.controller.brokers()[broker.node_id]["state"])


def loses_power(broker: BrokerProcess, topic: str) -> None:
    """Change the boot ID and truncate the log, as after a power loss that lost the last records."""
    record = broker.data / ".sluicegate_run"
    run = json.loads(record.read_text())
    assert run["bootId"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    record.write_text(json.dumps(run | {"bootId": "the boot before"}))
    segment = broker.data / f"{topic}-0" / f"{0:020}.log"
    with segment.open("r+b") as file:
        file.truncate(segment.stat().st_size // 2)


def one_dies_while_the_other_stops(group: BrokerGroup, topic: str) -> tuple[Scene, BrokerProcess, BrokerProcess]:
    """Kill one of two brokers in sync, and stop the other one before the controller notices.

    The second leaves by a controlled shutdown.
    """
    scene = Scene(group, topic)
    away, first, second = sorted(group.brokers, key=lambda broker: broker.node_id == scene.leader)
    scene.produce(20)
    assert away.stop() == 0
    scene.wait_in_sync(first.node_id, second.node_id)
    scene.produce(200)
    first.kill()
    assert second.stop() == 0
    return scene, first, second


def end(scene: Scene) -> None:
    for broker in scene.group.brokers:
        if broker.get("/healthz")[0] == 0:
            broker.start()
    scene.wait_in_sync(0, 1, 2)
    assert scene.read() == scene.acknowledged
    scene.produce(20)
    assert scene.read() == scene.acknowledged


@pytest.mark.full
def test_after_a_power_loss_it_waits_for_the_one_that_stopped_cleanly(group: BrokerGroup) -> None:
    scene, dead, stopped = one_dies_while_the_other_stops(group, "power")
    loses_power(dead, scene.topic)
    dead.start()
    until(lambda: scene.state(dead) == "Online", "it is back")
    assert scene.leader == -1, "it has lost records that were acknowledged"
    stopped.start()
    scene.wait_led_by(stopped)
    scene.wait_in_sync(dead.node_id, stopped.node_id)
    assert scene.read() == scene.acknowledged
    end(scene)


@pytest.mark.full
def test_after_a_kill_it_leads_again_without_the_other(group: BrokerGroup) -> None:
    scene, dead, _ = one_dies_while_the_other_stops(group, "kill")
    dead.start()
    scene.wait_led_by(dead)
    end(scene)


@pytest.mark.full
def test_consumers_see_nothing_that_an_eligible_replica_might_not_have(group: BrokerGroup) -> None:
    scene = Scene(group, "alone")
    scene.produce(20)
    leader = next(broker for broker in group.brokers if broker.node_id == scene.leader)
    others = [broker for broker in group.brokers if broker is not leader]
    for broker in others:
        assert broker.stop() == 0
    scene.wait_in_sync(leader.node_id)
    producer = Producer({"bootstrap.servers": leader.bootstrap, "acks": "1", "log_level": 2})
    producer.produce(scene.topic, b"20", partition=0)
    assert producer.flush(30) == 0
    assert scene.read() == scene.acknowledged
    others[0].start()
    scene.wait_in_sync(leader.node_id, others[0].node_id)
    scene.acknowledged.append(b"20")
    until(lambda: scene.read() == scene.acknowledged, "the record is to be seen")
    end(scene)
