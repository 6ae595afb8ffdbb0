"""A compacted topic on a real broker: the records that clients read after cleaning, and after kill -9."""

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from broker_runtime.config import TopicConfig
from kafka_bytes.batches import ProducerStamp
from tests.support.logs.cleaning import append_keyed, clean
from tests.support.logs.logs import LogHouse
from tests.support.obtain.java import java
from tests.support.obtain.kafka_libs import kafka_libs
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.acknowledged import Partitions, create_topic
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import WireClient

TIMEOUT_S = 30.0
KEYS = 20
ROUNDS = 30
TOTAL = KEYS * ROUNDS + 2
LAST = b"last"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUICK = {"log.cleaner.backoff.ms": "100", "log.segment.delete.delay.ms": "0"}
CONFIGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "20000",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "0",
}


@pytest.fixture
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties=QUICK) as running:
        yield running


def make_topic(broker: BrokerProcess, name: str) -> None:
    configs = [{"name": key, "value": value} for key, value in CONFIGS.items()]
    topic = {"name": name, "num_partitions": len(CODECS), "replication_factor": 1, "assignments": ()}
    with WireClient(("127.0.0.1", broker.port())) as client:
        asked = [topic | {"configs": configs}]
        (made,) = client.ask("create_topics", 7, topics=asked, timeout=30_000, validate_only=False)["topics"]
        assert made["error_code"] == "none", made


def read(broker: BrokerProcess | BrokerGroup, topic: str, partition: int, start: int) -> list[tuple[int, bytes, bytes]]:
    """Read (offset, key, value) from an offset up to the last record."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, start)])
    found: list[tuple[int, bytes, bytes]] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while (not found or found[-1][2] != LAST) and time.monotonic() < deadline_s:
        found += [(message.offset(), message.key(), message.value()) for message in consumer.consume(500, 0.2)]
    consumer.close()
    return found


def values(found: list[tuple[int, bytes, bytes]]) -> dict[bytes, bytes]:
    return {key: value for _, key, value in found if value is not None}


def test_clients_read_the_last_record_of_each_key_from_everywhere_and_after_kill_9(broker: BrokerProcess) -> None:
    make_topic(broker, "cleaned")
    written: list[dict[bytes, bytes]] = []
    for partition, codec in enumerate(CODECS):
        last: dict[bytes, bytes] = {}
        settings = {"compression.type": codec, "enable.idempotence": True, "linger.ms": 5}
        producer = Producer({"bootstrap.servers": broker.bootstrap} | settings)
        for _ in range(ROUNDS):
            for number in range(KEYS):
                key, value = b"key %d" % number, os.urandom(60)
                producer.produce("cleaned", value, key, partition=partition)
                last[key] = value
            producer.flush(TIMEOUT_S)
        producer.produce("cleaned", None, b"key 0", partition=partition)
        producer.produce("cleaned", LAST, b"end", partition=partition)
        assert producer.flush(TIMEOUT_S) == 0
        del last[b"key 0"]
        written.append(last | {b"end": LAST})
    deadline_s = time.monotonic() + TIMEOUT_S
    for partition, last in enumerate(written):
        while len(found := read(broker, "cleaned", partition, 0)) > TOTAL / 2:
            assert time.monotonic() < deadline_s, f"{CODECS[partition]} is not cleaned"
        assert {key: value for key, value in values(found).items() if key != b"key 0"} == last
        offsets = [offset for offset, _, _ in found]
        assert offsets == sorted(set(offsets))
        assert offsets[-1] == TOTAL - 1
        # A read from inside a gap returns the records after it.
        assert [offset for offset, _, _ in read(broker, "cleaned", partition, offsets[0] - 1)] == offsets
    broker.kill()
    broker.start()
    for partition, last in enumerate(written):
        assert last.items() <= values(read(broker, "cleaned", partition, 1)).items()


@pytest.mark.full
def test_a_new_replica_takes_what_the_leader_has_left_and_leads_with_it() -> None:
    quick = {"broker.session.timeout.ms": "1500", "broker.heartbeat.interval.ms": "200"}
    with BrokerGroup(2, properties=QUICK | quick) as group:
        create_topic(group.bootstrap, "moved", 1, 1, **{key.replace(".", "_"): value for key, value in CONFIGS.items()})
        partitions = Partitions(group.bootstrap, "moved")
        producer = Producer({"bootstrap.servers": group.bootstrap, "enable.idempotence": True, "linger.ms": 5})
        for number in range(TOTAL - 1):
            producer.produce("moved", b"%d" % number + bytes(60), b"key %d" % (number % KEYS))
            if number % KEYS == 0:
                producer.flush(TIMEOUT_S)
        producer.produce("moved", LAST, b"end")
        assert producer.flush(TIMEOUT_S) == 0
        until(lambda: len(read(group, "moved", 0, 0)) < TOTAL / 2, "the log is cleaned")
        before = values(read(group, "moved", 0, 0))
        (leader,) = partitions.leaders().values()
        with WireClient((group.brokers[0].host, group.brokers[0].port())) as client:
            moved = [{"name": "moved", "partitions": [{"partition_index": 0, "replicas": [leader, 1 - leader]}]}]
            client.ask("alter_partition_reassignments", 0, timeout=60_000, topics=moved)
        until(lambda: partitions.isr()[0] == {0, 1}, "the new replica is in sync")
        group.brokers[leader].kill()
        until(lambda: partitions.leaders()[0] == 1 - leader, "the new replica leads")
        found = read(group, "moved", 0, 0)
        assert values(found) == before
        assert len(found) < TOTAL / 2


@pytest.mark.full
def test_apache_kafkas_tool_reads_a_cleaned_segment(tmp_path: Path) -> None:
    house = LogHouse(TopicConfig(cleanup_policy=("compact",)))
    for number in range(10):
        codec = number % len(CODECS)
        # One separate record of each batch remains, and a tombstone of each of the last batches.
        records = [(b"all", b"%d" % number), (b"own %d" % number, b"x" * 100), (b"gone %d" % codec, None)]
        append_keyed(house, *records, codec=codec, producer=ProducerStamp(codec, 0, 3 * (number // len(CODECS))))
    append_keyed(house, (b"superseded", b"1"), producer=ProducerStamp(9, 0, 0))
    append_keyed(house, (b"superseded", b"2"))
    house.log.files.roll()
    house.log.flush()
    clean(house)
    segment = house.log.segments[0]
    copied = tmp_path / segment.path.name
    copied.write_bytes(segment.file.pread(segment.size, 0))
    tool = ["org.apache.kafka.tools.DumpLogSegments", "--deep-iteration", "--print-data-log", "--files", str(copied)]
    command = [java(), "-Xmx128m", "-cp", f"{kafka_libs()}/*", *tool]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=180, check=True).stdout.splitlines()
    batches = [line for line in shown if line.startswith("baseOffset: ")]
    assert len(batches) == 12
    assert all("isvalid: true" in line for line in batches), shown
    assert ["count: 0" in line for line in batches] == [False] * 10 + [True, False]
    assert ["deleteHorizonMs: OptionalLong[" in line for line in batches] == [False] * 5 + [True] * 5 + [False] * 2
    keys = [line.partition(" key: ")[2].partition(" ")[0] for line in shown if line.startswith("| offset: ")]
    assert keys == ["own"] * 5 + ["own", "gone"] * 4 + ["all", "own", "gone"] + ["superseded"]
