"""Ordinary clients authenticate by PLAIN over real sockets, and are refused with wrong passwords."""

from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.sasl_clients import refusal

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
PROPERTIES = {
    "num.partitions": "1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
    "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secure.plain.sasl.jaas.config": f'{MODULE} required user_alice="alice-secret" user_bob="bob";',
}
RIGHT = {"user": "alice", "password": "alice-secret"}
WRONG = ({"user": "alice", "password": "bob"}, {"user": "carol", "password": "alice-secret"})


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(listeners=["SECURE"], properties=PROPERTIES) as process:
        yield process


def bootstrap(broker: BrokerProcess) -> str:
    return f"{broker.host}:{broker.port('SECURE')}"


def of_kafka_python(user: str, password: str) -> dict[str, object]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


def of_confluent(user: str, password: str) -> dict[str, object]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password,
    }


def test_kafka_python_produces_and_consumes(broker: BrokerProcess) -> None:
    settings = of_kafka_python(**RIGHT)
    producer = KafkaProducer(bootstrap_servers=bootstrap(broker), **settings)
    assert producer.send("python", b"value").get(60).offset == 0
    producer.close()
    consumer = KafkaConsumer(bootstrap_servers=bootstrap(broker), consumer_timeout_ms=60_000, **settings)
    partition = TopicPartition("python", 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    assert next(consumer).value == b"value"
    consumer.close()


@pytest.mark.parametrize("wrong", WRONG)
async def test_wrong_passwords_and_unknown_users_are_refused_alike(
    broker: BrokerProcess, wrong: dict[str, str]
) -> None:
    user, password = wrong.values()
    told = await refusal(bootstrap(broker), "PLAIN", sasl_plain_username=user, sasl_plain_password=password)
    assert "Authentication failed: Invalid username or password" in (told or "")


def test_confluent_kafka_produces(broker: BrokerProcess) -> None:
    failed: list[object] = []
    producer = Producer({"bootstrap.servers": bootstrap(broker), **of_confluent(**RIGHT)})
    producer.produce("confluent", b"value", on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(60) == 0
    assert failed == [None]


def test_confluent_kafka_is_refused(broker: BrokerProcess) -> None:
    errors: list[KafkaError] = []
    client = Producer({"bootstrap.servers": bootstrap(broker), **of_confluent(**WRONG[0]), "error_cb": errors.append})
    with pytest.raises(KafkaException):
        client.list_topics(timeout=2)
    client.poll(0)
    assert KafkaError._AUTHENTICATION in [error.code() for error in errors]


async def test_aiokafka_produces(broker: BrokerProcess) -> None:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap(broker), **of_kafka_python(**RIGHT)) as producer:
        assert (await producer.send_and_wait("aio", b"value")).offset == 0


def test_attempts_are_counted_and_no_secret_is_logged(broker: BrokerProcess) -> None:
    counted = broker.get("/metrics")[1]
    assert 'successful_authentication_total{listener="SECURE"}' in counted
    failed = next(line for line in counted.splitlines() if "failed_authentication_total{" in line)
    assert float(failed.split()[-1]) >= 3
    assert "alice-secret" not in broker.log()
    assert "the client has failed to authenticate: PLAIN" in broker.log()
