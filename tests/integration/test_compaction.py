"""A compacted topic on a real broker: what clients read of it after it was cleaned, and after kill -9."""

import os
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

TIMEOUT_S = 30.0
KEYS = 20
ROUNDS = 40
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


def read(broker: BrokerProcess, topic: str, partition: int, start: int) -> list[tuple[int, bytes, bytes]]:
    """(offset, key, value) from an offset up to the last record."""
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
        # Inside a gap begins what comes after it.
        assert [offset for offset, _, _ in read(broker, "cleaned", partition, offsets[0] - 1)] == offsets
    broker.kill()
    broker.start()
    for partition, last in enumerate(written):
        assert last.items() <= values(read(broker, "cleaned", partition, 1)).items()
