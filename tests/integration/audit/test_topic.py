"""The audit topic on a real broker: a killed publisher loses and repeats no event; the topic itself is not audited."""

import json
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from audit_pipeline.contract import contract
from audit_pipeline.ingest.land import land
from audit_pipeline.reading.query import Events
from audit_pipeline.spool.targets import FolderTarget
from tests.support.processes.broker_process import ROOT, BrokerProcess
from tests.support.processes.clients.broker_admin import until

PARTITIONS = 2
REQUESTS = 3000
TOPIC = "audit"


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    """A broker that records everything but the audit topic; a spool is complete after a moment."""
    properties = {"observer.class.names": "audit-log", "auto.create.topics.enable": "false"}
    properties |= {"observer.audit-log.audit.topic": TOPIC, "observer.audit-log.segment.ms": "200"}
    with BrokerProcess(properties=properties) as process:
        yield process


def create(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(60)


def produce(broker: BrokerProcess, count: int) -> None:
    """Produce each record in a separate request, without batching."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "batch.num.messages": 1, "log_level": 0})
    for number in range(count):
        producer.produce("orders", b"x" * 50, partition=number % PARTITIONS)
    assert producer.flush(60) == 0


def publishing(folder: Path, broker: BrokerProcess, *arguments: str) -> "subprocess.Popen[str]":
    place = f"kafka:{broker.bootstrap}/{TOPIC}"
    command = [sys.executable, "-m", "audit_pipeline", "publish", str(folder), place, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def size(broker: BrokerProcess) -> int:
    """Return the number of records in the topic."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "log_level": 0})
    ends = [consumer.get_watermark_offsets(TopicPartition(TOPIC, each), timeout=30)[1] for each in range(PARTITIONS)]
    consumer.close()
    return sum(ends)


def topic_of(broker: BrokerProcess) -> list[dict[str, Any]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "log_level": 0})
    consumer.assign([TopicPartition(TOPIC, partition, 0) for partition in range(PARTITIONS)])
    found: list[dict[str, Any]] = []
    wanted = size(broker)
    while len(found) < wanted:
        messages = consumer.consume(wanted, timeout=30)
        assert messages, f"only {len(found)} of {wanted} records came"
        found += [json.loads(message.value()) for message in messages]
    consumer.close()
    return found


@pytest.mark.full
def test_a_publisher_that_is_killed_has_published_everything_once_when_another_one_has(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    spools, segments = broker.data / "audit", tmp_path / "segments"
    for topic in ("orders", TOPIC):
        create(broker, topic)
    target = FolderTarget(segments)
    produce(broker, REQUESTS)
    until(lambda: landed(spools, target) == REQUESTS, "all requests are landed")

    killed = publishing(segments, broker, "--follow", "--interval-s", "0.05")
    until(lambda: size(broker) > 100, "events are published")
    killed.kill()
    killed.communicate()
    follows = publishing(segments, broker, "--follow", "--interval-s", "0.05")
    produce(broker, 200)
    until(lambda: landed(spools, target) == REQUESTS + 200, "the others are landed")
    until(lambda: _is_all_there(broker, target), "they are published")
    follows.send_signal(signal.SIGTERM)
    assert follows.wait(60) == 0
    follows.communicate()

    once = publishing(segments, broker)
    assert "published 0 events of 0 segments" in once.communicate(timeout=60)[1]
    assert once.returncode == 0
    asked = Events(target)
    assert asked.ask(f"SELECT count(*) FROM partition WHERE topic = '{TOPIC}'")[1] == [(0,)]
    own = "SELECT count(*) FROM request WHERE client_id = 'sluicegate-audit' AND api = 'Produce'"
    assert asked.ask(own)[1] == [(0,)]


def landed(spools: Path, target: FolderTarget) -> int:
    """Land the spools again, and return the number of landed produce requests to the topic `orders`."""
    land(spools, target)
    found: int = Events(target).ask("SELECT count(*) FROM partition WHERE topic = 'orders' AND api_key = 0")[1][0][0]
    return found


def _is_all_there(broker: BrokerProcess, target: FolderTarget) -> bool:
    """Return whether every event of the segments is in the topic."""
    asked, tables = Events(target), contract().tables
    rows = {table: asked.ask(f"SELECT count(*) FROM {table}")[1][0][0] for table in tables}
    keys = {
        (read["table"], *(read[name] for name in tables[read["table"]].key))
        for read in topic_of(broker)
        if read["table"] in tables
    }
    return Counter(table for table, *_ in keys) == Counter({table: count for table, count in rows.items() if count})


def test_a_topic_that_is_not_there_is_told(broker: BrokerProcess, tmp_path: Path) -> None:
    produce_to_nothing = publishing(tmp_path, broker)
    assert "published 0 events" in produce_to_nothing.communicate(timeout=60)[1]
    create(broker, "orders")
    produce(broker, 10)
    until(lambda: landed(broker.data / "audit", FolderTarget(tmp_path)) >= 10, "they are landed")
    refused = publishing(tmp_path, broker)
    assert f"topic {TOPIC} does not exist at {broker.bootstrap}" in refused.communicate(timeout=60)[1]
    assert refused.returncode == 2
