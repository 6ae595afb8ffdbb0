"""Validation of every record.

Records of real clients pass in every compression, and bad records are refused by name.
"""

import asyncio
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from kafka_bytes.batches import encode_batch
from tests.support.logs.packed_batches import packed
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import WireClient

COUNT = 500
TIMEOUT_S = 60.0
CHECKED = {"compacted": ("cleanup.policy", "compact"), "checked": ("sluicegate.record.validation", "all")}
OF_AIOKAFKA = "of-aiokafka"
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as running, WireClient(("127.0.0.1", running.port())) as client:
        for name, (key, value) in {**CHECKED, OF_AIOKAFKA: CHECKED["checked"]}.items():
            configs = [{"name": key, "value": value}]
            topic = {"name": name, "num_partitions": len(CODECS), "replication_factor": 1, "assignments": ()}
            asked = [topic | {"configs": configs}]
            (made,) = client.ask("create_topics", 7, topics=asked, timeout=30_000, validate_only=False)["topics"]
            assert made["error_code"] == "none", made
        yield running


def read(broker: BrokerProcess, topic: str, partition: int, count: int) -> list[tuple[bytes, bytes]]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[tuple[bytes, bytes]] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while len(found) < count and time.monotonic() < deadline_s:
        found += [(message.key(), message.value()) for message in consumer.consume(count, 1.0)]
    consumer.close()
    return found


@pytest.mark.parametrize("topic", CHECKED)
@pytest.mark.parametrize("codec", CODECS)
def test_what_librdkafka_packs_is_stored_and_read(broker: BrokerProcess, topic: str, codec: str) -> None:
    partition = CODECS.index(codec)
    refused: list[KafkaError] = []

    def told(error: KafkaError | None, message: Message) -> None:
        del message
        if error is not None:
            refused.append(error)

    producer = Producer({"bootstrap.servers": broker.bootstrap, "compression.type": codec, "linger.ms": 50})
    sent = [(b"%d" % number, b"value %d " % number * 40) for number in range(COUNT)]
    for key, value in sent:
        producer.produce(topic, value, key, partition=partition, headers={"h": b"x"}, on_delivery=told)
    assert producer.flush(TIMEOUT_S) == 0
    assert refused == []
    assert read(broker, topic, partition, COUNT) == sent


async def test_what_aiokafka_packs_is_stored(broker: BrokerProcess) -> None:
    """The batches include Java's blocks of snappy."""
    for codec in CODECS[1:]:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=codec, linger_ms=50)
        await producer.start()
        try:
            told = [await producer.send(OF_AIOKAFKA, b"value %d" % n * 100, b"%d" % n) for n in range(COUNT)]
            assert len(await asyncio.wait_for(asyncio.gather(*told), TIMEOUT_S)) == COUNT
        finally:
            await producer.stop()


def test_records_without_keys_are_refused_in_a_compressed_batch_too(broker: BrokerProcess) -> None:
    batch = packed(1, encode_batch([(b"k", b"v"), (None, b"v")], int(time.time() * 1000)))
    with WireClient(("127.0.0.1", broker.port())) as client:
        answer = client.ask(
            "produce",
            9,
            transactional_id=None,
            acks=-1,
            timeout=30_000,
            topic_data=[{"name": "compacted", "partition_data": [{"index": 0, "records": batch}]}],
        )
    (result,) = answer["responses"][0]["partition_responses"]
    assert result["error_code"] == "invalid_record"
    assert [error["batch_index"] for error in result["record_errors"]] == [1]
