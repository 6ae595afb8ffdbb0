"""Ordinary clients produce and consume over TLS, on real sockets."""

import ssl
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.support.processes.broker_process import BrokerProcess
from tests.support.tls.round_trips import confluent_round_trip, kafka_python_round_trip
from tests.support.tls.secure_broker import LISTENER, TlsWorld

PATIENCE_S = 60


@pytest.fixture(scope="module")
def broker(world: TlsWorld) -> Iterator[BrokerProcess]:
    with BrokerProcess(listeners=[LISTENER], properties=world.properties()) as process:
        yield process


def bootstrap(broker: BrokerProcess) -> str:
    return f"{broker.host}:{broker.port(LISTENER)}"


def test_confluent_kafka(broker: BrokerProcess, world: TlsWorld) -> None:
    settings = {"bootstrap.servers": bootstrap(broker), **world.confluent()}
    confluent_round_trip(settings, [bytes([number]) * 100_000 for number in range(100)], PATIENCE_S)


def test_kafka_python(broker: BrokerProcess, world: TlsWorld) -> None:
    kafka_python_round_trip({"bootstrap_servers": bootstrap(broker), **world.kafka_python()}, PATIENCE_S)


async def test_aiokafka(broker: BrokerProcess, world: TlsWorld) -> None:
    context = ssl.create_default_context(cafile=str(world.trusted))
    settings = {"bootstrap_servers": bootstrap(broker), "security_protocol": "SSL", "ssl_context": context}
    async with AIOKafkaProducer(**settings) as producer:
        assert (await producer.send_and_wait("aio", b"value")).offset == 0
    async with AIOKafkaConsumer("aio", auto_offset_reset="earliest", **settings) as consumer:
        assert (await consumer.getone()).value == b"value"
