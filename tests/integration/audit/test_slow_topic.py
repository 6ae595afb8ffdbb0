"""A slow or unavailable topic receives each event once; a publisher that waits for it can be stopped."""

import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from audit_pipeline.spool.listing import segment_paths
from audit_pipeline.spool.stored_segment import footer_at
from audit_pipeline.spool.targets import FolderTarget
from tests.support.audit.audit_weeks.week import Week, write_week
from tests.support.processes.broker_process import ROOT, BrokerProcess
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.proxies.slow_proxy import SlowProxy

WEEK = Week(
    days=1, clusters=1, brokers=1, events=4_500, segments=1, hours=1, storm=0, topics=2, principals=4, spoils=()
)
BYTES_PER_S = 60_000
FOR_EVER = {"retention.ms": "-1"}


@pytest.fixture(scope="module")
def proxy() -> Iterator[SlowProxy]:
    with SlowProxy(None) as made:
        yield made


@pytest.fixture(scope="module")
def broker(proxy: SlowProxy) -> Iterator[BrokerProcess]:
    properties = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}", "auto.create.topics.enable": "false"}
    process = BrokerProcess(properties=properties)
    proxy.target = process.port()
    with process:
        yield process


@pytest.fixture(scope="module")
def segments(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("segments")
    write_week(WEEK, folder)
    return folder


def create(broker: BrokerProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config=FOR_EVER)])[topic].result(60)


def publishing(folder: Path, broker: BrokerProcess, topic: str, *arguments: str) -> "subprocess.Popen[str]":
    place = f"kafka:{broker.bootstrap}/{topic}"
    command = [sys.executable, "-m", "audit_pipeline", "publish", str(folder), place, *arguments]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)


def records_of(folder: Path) -> int:
    """Return the expected number of records for all segments: events and end marks."""
    target = FolderTarget(folder)
    footers = {(f.boot, f.segments): f for f in (footer_at(file.path, target) for file in segment_paths(target))}
    return sum(sum(footer.rows.values()) + 1 for footer in footers.values())


def size(broker: BrokerProcess, topic: str) -> int:
    """Return the number of records; 0 also while the files of a new topic are being created."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "log_level": 0})
    try:
        end: int = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=30)[1]
    except KafkaException as error:
        if error.args[0].code() != KafkaError.NOT_LEADER_FOR_PARTITION:
            raise
        return 0
    finally:
        consumer.close()
    return end


def values(broker: BrokerProcess, topic: str, count: int) -> Counter[bytes]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "none", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: Counter[bytes] = Counter()
    while found.total() < count:
        messages = consumer.consume(count, timeout=1)
        assert messages, f"only {found.total()} of {count} records came"
        found.update(message.value() for message in messages)
    consumer.close()
    return found


@pytest.mark.full
def test_a_slow_topic_that_stands_still_for_a_while_gets_every_event_once(
    proxy: SlowProxy, broker: BrokerProcess, segments: Path
) -> None:
    create(broker, "slow")
    proxy.bytes_per_s = BYTES_PER_S
    follows = publishing(segments, broker, "slow", "--follow", "--interval-s", "0.05", "--timeout-s", "1")
    until(lambda: size(broker, "slow") > 0, "the first events are there")
    began_s = time.monotonic()
    proxy.bytes_per_s = 0
    assert follows.stderr is not None
    said = next(line for line in follows.stderr if "has acknowledged none" in line)
    assert "records for 1 s: waiting on" in said
    proxy.bytes_per_s = BYTES_PER_S
    wanted = records_of(segments)
    until(lambda: size(broker, "slow") >= wanted, "all events are there")
    assert time.monotonic() - began_s > 3, "each of the last ones waited for longer than the timeout"
    follows.send_signal(signal.SIGTERM)
    assert follows.wait(60) == 0
    follows.communicate()
    proxy.bytes_per_s = None
    found = values(broker, "slow", wanted)
    assert (size(broker, "slow"), len(found)) == (wanted, wanted), "none is there twice"


@pytest.mark.full
def test_ctrl_c_stops_a_publisher_that_waits_for_a_slow_topic(
    proxy: SlowProxy, broker: BrokerProcess, segments: Path
) -> None:
    create(broker, "stopped")
    proxy.bytes_per_s = BYTES_PER_S / 4
    once = publishing(segments, broker, "stopped", "--timeout-s", "60")
    until(lambda: size(broker, "stopped") > 0, "the first events are there")
    once.send_signal(signal.SIGINT)
    said = once.communicate(timeout=60)[1]
    assert once.returncode == 130, said
    assert "stopped while" in said
    proxy.bytes_per_s = None
    assert 0 < size(broker, "stopped") < records_of(segments)
