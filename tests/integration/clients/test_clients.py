"""Ordinary clients with their default settings produce to a broker process and read their records back."""

import asyncio
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioPartition
from confluent_kafka import Consumer, Producer, TopicPartition
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as PythonPartition

from tests.support.processes.broker_process import BrokerProcess

COUNT = 500
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(properties={"num.partitions": "1"}) as process:
        yield process


def payload(number: int) -> bytes:
    return b"record %d " % number + b"x" * (number % 300)


def produce_with_confluent(bootstrap: str, topic: str, **settings: object) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap, **settings})
    for number in range(COUNT):
        producer.produce(
            topic, payload(number), key=b"%d" % number, on_delivery=lambda e, _m: failed.append(e) if e else None
        )
    assert producer.flush(60) == 0
    assert failed == []


def consume_with_confluent(bootstrap: str, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < COUNT:
        messages = consumer.consume(COUNT, timeout=60)
        assert messages, f"only {len(found)} of {COUNT} records came"
        found += [message.value() for message in messages]
    consumer.close()
    return found


@pytest.mark.parametrize("codec", CODECS)
def test_confluent_kafka_reads_what_it_wrote_with_every_codec(broker: BrokerProcess, codec: str) -> None:
    topic = f"confluent-{codec}"
    produce_with_confluent(broker.bootstrap, topic, **{"compression.type": codec})
    assert consume_with_confluent(broker.bootstrap, topic) == [payload(n) for n in range(COUNT)]


def test_confluent_kafka_produces_idempotently(broker: BrokerProcess) -> None:
    produce_with_confluent(broker.bootstrap, "idempotent", **{"enable.idempotence": True})
    assert consume_with_confluent(broker.bootstrap, "idempotent") == [payload(n) for n in range(COUNT)]


def test_kafka_python_with_its_defaults(broker: BrokerProcess) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap)
    futures = [producer.send("kafka-python", payload(number)) for number in range(COUNT)]
    producer.flush(60)
    assert [future.get(60).offset for future in futures] == list(range(COUNT))
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=60_000)
    partition = PythonPartition("kafka-python", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = [record.value for _, record in zip(range(COUNT), consumer, strict=False)]
    consumer.close()
    assert found == [payload(n) for n in range(COUNT)]


def test_aiokafka_with_its_defaults(broker: BrokerProcess) -> None:
    async def run() -> list[bytes]:
        producer = AIOKafkaProducer(bootstrap_servers=broker.bootstrap)
        await producer.start()
        for number in range(COUNT):
            await producer.send("aiokafka", payload(number), partition=0)
        await producer.flush()
        await producer.stop()
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap)
        await consumer.start()
        partition = AioPartition("aiokafka", 0)
        consumer.assign([partition])
        await consumer.seek_to_beginning(partition)
        found: list[bytes] = []
        async with asyncio.timeout(60):
            while len(found) < COUNT:
                for records in (await consumer.getmany(timeout_ms=1000)).values():
                    found += [record.value for record in records]
        await consumer.stop()
        return found

    assert asyncio.run(run()) == [payload(n) for n in range(COUNT)]


def test_records_compressed_by_one_client_are_read_by_another(broker: BrokerProcess) -> None:
    produce_with_confluent(broker.bootstrap, "shared", **{"compression.type": "gzip"})
    consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, consumer_timeout_ms=60_000)
    partition = PythonPartition("shared", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    found = [record.value for _, record in zip(range(COUNT), consumer, strict=False)]
    consumer.close()
    assert found == [payload(n) for n in range(COUNT)]


def test_a_consumer_that_waits_gets_a_record_as_soon_as_it_is_written(broker: BrokerProcess) -> None:
    produce_with_confluent(broker.bootstrap, "waiting")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 30_000,
            "fetch.min.bytes": 1,
        }
    )
    consumer.assign([TopicPartition("waiting", 0, COUNT)])
    assert consumer.poll(1.0) is None
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("waiting", b"late")
    producer.flush(60)
    message = consumer.poll(20.0)
    consumer.close()
    assert message is not None
    assert message.value() == b"late"


def test_offsets_can_be_found_by_time_and_at_both_ends(broker: BrokerProcess) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    an_hour_ago_ms = int(time.time() * 1000) - 3_600_000
    for number in range(10):
        producer.produce("times", payload(number), timestamp=an_hour_ago_ms + number * 1000)
        producer.flush(60)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "unused", "enable.auto.commit": False})
    assert consumer.get_watermark_offsets(TopicPartition("times", 0), timeout=60) == (0, 10)
    (found,) = consumer.offsets_for_times([TopicPartition("times", 0, an_hour_ago_ms + 3500)], timeout=60)
    consumer.close()
    assert found.offset == 4


def test_assigned_partitions_without_an_offset_are_read_from_where_a_reset_says(broker: BrokerProcess) -> None:
    """The group has no committed offset; each client commits periodically, as by default."""
    produce_with_confluent(broker.bootstrap, "unplaced")
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "nobody", "auto.offset.reset": "earliest"}
    confluent = Consumer(settings)
    confluent.assign([TopicPartition("unplaced", 0)])
    message = confluent.poll(60)
    assert message is not None
    assert (message.error(), message.offset()) == (None, 0)
    confluent.close()
    python = KafkaConsumer(
        bootstrap_servers=broker.bootstrap,
        group_id="nobody else",
        auto_offset_reset="earliest",
        consumer_timeout_ms=60_000,
    )
    python.assign([PythonPartition("unplaced", 0)])
    assert next(python).offset == 0
    python.close()

    async def first() -> int:
        consumer = AIOKafkaConsumer(bootstrap_servers=broker.bootstrap, group_id="third", auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([AioPartition("unplaced", 0)])
        async with asyncio.timeout(60):
            record = await consumer.getone()
        await consumer.stop()
        return int(record.offset)

    assert asyncio.run(first()) == 0
