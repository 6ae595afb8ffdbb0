"""Clients that request transactions fail at once, with an error that they treat as fatal, and do not retry."""

import time
from collections.abc import Callable, Iterator

import aiokafka
import aiokafka.errors
import confluent_kafka
import kafka
import kafka.errors
import pytest

from tests.support.processes.broker_process import BrokerProcess

ID = "payments"
LIMIT_S = 2.0
"""Longest time since the call that requests transactions. The clients' own timeouts are 30 s and more."""


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess() as process:
        yield process


def with_confluent_kafka(bootstrap: str, limit: Callable[[], None]) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": ID, "log_level": 0})
    limit()
    with pytest.raises(confluent_kafka.KafkaException) as raised:
        producer.init_transactions(30)
    error = raised.value.args[0]
    assert error.code() == confluent_kafka.KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert error.fatal()


def with_kafka_python(bootstrap: str, limit: Callable[[], None]) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id=ID)
    limit()
    with pytest.raises(kafka.errors.TransactionalIdAuthorizationFailedError):
        producer.init_transactions()
    producer.close(timeout=0)


async def with_aiokafka(bootstrap: str, limit: Callable[[], None]) -> None:
    producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=ID)
    limit()
    with pytest.raises(aiokafka.errors.TransactionalIdAuthorizationFailed):
        await producer.start()
    await producer.stop()


async def test_every_client_fails_within_two_seconds_and_the_log_says_what_to_do(
    broker: BrokerProcess,
) -> None:
    began_s = {}

    def limit(name: str) -> Callable[[], None]:
        return lambda: began_s.update({name: time.monotonic()})

    with_confluent_kafka(broker.bootstrap, limit("confluent-kafka"))
    took_s = {"confluent-kafka": time.monotonic() - began_s["confluent-kafka"]}
    with_kafka_python(broker.bootstrap, limit("kafka-python"))
    took_s["kafka-python"] = time.monotonic() - began_s["kafka-python"]
    await with_aiokafka(broker.bootstrap, limit("aiokafka"))
    took_s["aiokafka"] = time.monotonic() - began_s["aiokafka"]
    assert max(took_s.values()) <= LIMIT_S, took_s
    (line,) = [line for line in broker.log().splitlines() if "transactional id" in line]
    assert f"with transactional id '{ID}' was refused: transactions are not served; remove transactional.id" in line
    assert " at 127.0.0.1:" in line
