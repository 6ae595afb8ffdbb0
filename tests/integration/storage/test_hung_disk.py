"""An fsync that does not return delays only the operations that wait for it."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from tests.integration.cluster.test_process_life import consume
from tests.support.fakes.disks.hung_fsync import VARIABLE
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.acknowledged import create_topic
from tests.support.processes.clients.broker_admin import until

SESSION_S = 2.0
PROPERTIES = {"broker.session.timeout.ms": str(round(SESSION_S * 1000)), "broker.heartbeat.interval.ms": "200"}


@pytest.fixture
def hung(tmp_path: Path) -> Path:
    """The file that selects hanging files: each line is a part of their paths."""
    return tmp_path / "hung"


@pytest.fixture
def broker(hung: Path) -> Iterator[BrokerProcess]:
    environment = {VARIABLE: str(hung)}
    with BrokerProcess(
        properties=PROPERTIES, module="tests.support.fakes.disks.hung_fsync", environment=environment
    ) as running:
        yield running


class Waiting:
    """One record, and the time of its acknowledgement."""

    def __init__(self, broker: BrokerProcess, topic: str, acks: str) -> None:
        settings = {"bootstrap.servers": broker.bootstrap, "acks": acks, "message.timeout.ms": 120_000, "log_level": 2}
        self._producer = Producer(settings)
        self.told: list[object] = []
        self._producer.produce(topic, b"v", partition=0, on_delivery=lambda error, _: self.told.append(error))
        self._producer.poll(0)

    @property
    def acknowledged(self) -> bool:
        self._producer.poll(0.01)
        assert self.told in ([], [None])
        return bool(self.told)


def longest_wait_s(broker: BrokerProcess, topic: str, for_s: float) -> float:
    """Return the longest wait of another client that writes records one after another."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all", "log_level": 2})
    end_s, longest_s = time.monotonic() + for_s, 0.0
    while time.monotonic() < end_s:
        began_s = time.monotonic()
        producer.produce(topic, b"w", partition=0)
        assert producer.flush(60) == 0
        longest_s = max(longest_s, time.monotonic() - began_s)
    return longest_s


@pytest.mark.full
def test_one_topics_fsync_hangs_and_the_broker_goes_on(broker: BrokerProcess, hung: Path) -> None:
    create_topic(broker.bootstrap, "synced", 1, 1, flush_messages="1")
    create_topic(broker.bootstrap, "timed", 1, 1, flush_ms="100")
    create_topic(broker.bootstrap, "other", 1, 1)
    first = Waiting(broker, "synced", "all")
    until(lambda: first.acknowledged, "the disk is well")
    hung.write_text("/synced-0/\n/timed-0/\n")
    for_all, for_leader = Waiting(broker, "synced", "all"), Waiting(broker, "synced", "1")
    timed = Waiting(broker, "timed", "all")
    until(lambda: timed.acknowledged, "flush.ms holds nobody up")
    assert longest_wait_s(broker, "other", 3 * SESSION_S) < SESSION_S
    assert not for_all.acknowledged
    assert not for_leader.acknowledged
    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 2})
    assert {"synced", "timed", "other"} <= set(admin.list_topics(timeout=30).topics)
    assert "serves no clients" not in broker.log()
    hung.unlink()
    until(lambda: for_all.acknowledged and for_leader.acknowledged, "the disk is well again")
    assert consume(broker.bootstrap, "synced", 3) == [b"v"] * 3
    assert broker.stop() == 0


def test_what_was_not_synced_was_not_acknowledged_when_the_broker_is_killed(broker: BrokerProcess, hung: Path) -> None:
    create_topic(broker.bootstrap, "synced", 1, 1, flush_messages="1")
    hung.write_text("/synced-0/\n")
    waiting = Waiting(broker, "synced", "1")
    until(lambda: any(path.stat().st_size for path in (broker.data / "synced-0").glob("*.log")), "it is written")
    assert not waiting.acknowledged
    broker.kill()
    hung.unlink()
    broker.start()
    until(lambda: waiting.acknowledged, "it is acknowledged by the next process")
