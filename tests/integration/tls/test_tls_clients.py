"""Ordinary clients produce and consume over TLS, on real sockets."""

import ssl
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.support.processes.broker_process import BrokerProcess
from tests.support.tls.secure_broker import LISTENER, TlsWorld

PATIENCE_S = 60


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> TlsWorld:
    return TlsWorld(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def broker(world: TlsWorld) -> Iterator[BrokerProcess]:
    with BrokerProcess(listeners=[LISTENER], properties=world.properties()) as process:
        yield process


def bootstrap(broker: BrokerProcess) -> str:
    return f"{broker.host}:{broker.port(LISTENER)}"


def test_confluent_kafka(broker: BrokerProcess, world: TlsWorld) -> None:
    failed: list[object] = []
    settings = {"bootstrap.servers": bootstrap(broker), **world.confluent()}
    producer = Producer(settings)
    values = [bytes([number]) * 100_000 for number in range(100)]
    for value in values:
        producer.produce("confluent", value, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failed == [None] * len(values)
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["confluent"])
    found: list[bytes] = []
    while len(found) < len(values):
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        assert message.error() is None
        found.append(message.value())
    consumer.close()
    assert found == values


def test_kafka_python(broker: BrokerProcess, world: TlsWorld) -> None:
    settings = world.kafka_python()
    producer = KafkaProducer(bootstrap_servers=bootstrap(broker), **settings)
    assert producer.send("python", b"value").get(PATIENCE_S).offset == 0
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap(broker), consumer_timeout_ms=PATIENCE_S * 1000, **settings)
    partition = TopicPartition("python", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    assert next(consumer).value == b"value"
    consumer.close()


async def test_aiokafka(broker: BrokerProcess, world: TlsWorld) -> None:
    context = ssl.create_default_context(cafile=str(world.trusted))
    settings = {"bootstrap_servers": bootstrap(broker), "security_protocol": "SSL", "ssl_context": context}
    async with AIOKafkaProducer(**settings) as producer:
        assert (await producer.send_and_wait("aio", b"value")).offset == 0
    async with AIOKafkaConsumer("aio", auto_offset_reset="earliest", **settings) as consumer:
        assert (await consumer.getone()).value == b"value"
