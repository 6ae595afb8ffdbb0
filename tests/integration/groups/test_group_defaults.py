"""Clients and a broker with default settings: a group commits what it has read, and the next member continues after it.

Only the start offset of a new group is set.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

from tests.support.processes.broker_process import BrokerProcess

RECORDS, ROUNDS = 200, 2
PATIENCE_S = 60.0

Session = Callable[[str, str], list[bytes]]
"""Reads records of the topic's group as one member, and leaves. Its arguments are bootstrap and topic."""


def confluent(bootstrap: str, topic: str, **settings: str) -> list[bytes]:
    base = {"bootstrap.servers": bootstrap, "group.id": f"of-{topic}", "auto.offset.reset": "earliest"}
    consumer = Consumer(base | settings)
    consumer.subscribe([topic])
    found: list[bytes] = []
    while len(found) < RECORDS:
        messages = consumer.consume(RECORDS, timeout=PATIENCE_S)
        assert messages, f"{len(found)} of {RECORDS} records came"
        found += [message.value() for message in messages]
    consumer.close()
    return found


def confluent_of_kip_848(bootstrap: str, topic: str) -> list[bytes]:
    return confluent(bootstrap, topic, **{"group.protocol": "consumer"})


def kafka_python(bootstrap: str, topic: str) -> list[bytes]:
    consumer = KafkaConsumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"of-{topic}",
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(PATIENCE_S * 1000),
    )
    found = [record.value for record in islice(consumer, RECORDS)]
    consumer.close()
    return found


def aiokafka(bootstrap: str, topic: str) -> list[bytes]:
    async def run() -> list[bytes]:
        consumer = AIOKafkaConsumer(
            topic, bootstrap_servers=bootstrap, group_id=f"of-{topic}", auto_offset_reset="earliest"
        )
        await consumer.start()
        async with asyncio.timeout(PATIENCE_S):
            found = [(await consumer.getone()).value for _ in range(RECORDS)]
        await consumer.stop()
        return found

    return asyncio.run(run())


CLIENTS: dict[str, Session] = {
    "confluent-kafka": confluent,
    "confluent-kafka-KIP-848": confluent_of_kip_848,
    "kafka-python": kafka_python,
    "aiokafka": aiokafka,
}


@pytest.mark.full
def test_groups_continue_after_their_committed_records() -> None:
    with BrokerProcess(properties={"num.partitions": "3"}) as broker, ThreadPoolExecutor(len(CLIENTS)) as threads:
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        for number in range(ROUNDS):
            written = {b"%d" % value for value in range(number * RECORDS, (number + 1) * RECORDS)}
            for topic in CLIENTS:
                for value in written:
                    producer.produce(topic, value)
            assert producer.flush(60) == 0
            reading = {client: threads.submit(session, broker.bootstrap, client) for client, session in CLIENTS.items()}
            for client, read in reading.items():
                assert set(read.result()) == written, f"{client}, round {number}"
