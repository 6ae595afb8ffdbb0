"""Clients authenticate by SCRAM with credentials that an administrator creates, changes and removes while it runs."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from kafka import KafkaProducer

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.sasl_clients import refusal
from tests.support.processes.clients.wire_client import WireClient

PROPERTIES = {
    "num.partitions": "1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
}
MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}
NAME = "special user= test,scram"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(listeners=["SECURE"], properties=PROPERTIES) as process:
        for mechanism in MECHANISMS:
            set_password(process, NAME, mechanism, "päss=word")
        yield process


def admin(broker: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


def alter(broker: BrokerProcess, user: str, change: object) -> None:
    client = admin(broker)
    client.alter_user_scram_credentials([change])[user].result(30)


def set_password(broker: BrokerProcess, user: str, mechanism: str, password: str) -> None:
    info = ScramCredentialInfo(MECHANISMS[mechanism], 4096)
    alter(broker, user, UserScramCredentialUpsertion(user, info, password.encode()))


def bootstrap(broker: BrokerProcess) -> str:
    return f"{broker.host}:{broker.port('SECURE')}"


def python_settings(broker: BrokerProcess, mechanism: str, user: str, password: str) -> dict[str, Any]:
    return {
        "bootstrap_servers": bootstrap(broker),
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": user,
        "sasl_plain_password": password,
    }


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_kafka_python(broker: BrokerProcess, mechanism: str) -> None:
    """The client sends the name without an escape, so that the name may have neither a comma nor an equals sign."""
    set_password(broker, "simple", mechanism, "päss=word")
    producer = KafkaProducer(**python_settings(broker, mechanism, "simple", "päss=word"))
    assert producer.send(f"python-{mechanism}", b"value").get(60).offset == 0
    producer.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_aiokafka(broker: BrokerProcess, mechanism: str) -> None:
    async with AIOKafkaProducer(**python_settings(broker, mechanism, NAME, "päss=word")) as producer:
        assert (await producer.send_and_wait(f"aio-{mechanism}", b"value")).offset == 0


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_confluent_kafka(broker: BrokerProcess, mechanism: str) -> None:
    assert produced_with_confluent(broker, mechanism, NAME, "päss=word")


def produced_with_confluent(broker: BrokerProcess, mechanism: str, user: str, password: str) -> bool:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap(broker),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.username": user,
            "sasl.password": password,
            "message.timeout.ms": 3_000,
        }
    )
    failed: list[object] = []
    producer.produce("confluent", b"value", on_delivery=lambda error, _: failed.append(error))
    producer.flush(30)
    return failed == [None]


@pytest.mark.parametrize(("user", "password"), [(NAME, "wrong"), ("nobody", "päss=word")])
async def test_wrong_passwords_and_unknown_users_are_refused_alike(
    broker: BrokerProcess, user: str, password: str
) -> None:
    told = await refused(broker, user, password)
    assert "due to invalid credentials with SASL mechanism SCRAM-SHA-512" in (told or "")


async def test_a_changed_password_holds_for_new_connections_and_open_ones_go_on(broker: BrokerProcess) -> None:
    set_password(broker, "changing", "SCRAM-SHA-512", "old")
    producer = KafkaProducer(**python_settings(broker, "SCRAM-SHA-512", "changing", "old"))
    assert producer.send("changing", b"before").get(60).offset == 0
    set_password(broker, "changing", "SCRAM-SHA-512", "new")
    deadline = time.monotonic() + 60
    while await refused(broker, "changing", "new") is not None:
        assert time.monotonic() < deadline
    assert await refused(broker, "changing", "old") is not None
    assert producer.send("changing", b"after").get(60).offset == 1
    producer.close()
    with WireClient((broker.host, broker.port())) as client:
        deletion = {"name": "changing", "mechanism": 2}
        answer = client.ask("alter_user_scram_credentials", 0, deletions=[deletion], upsertions=[])
    assert [(result["user"], result["error_code"]) for result in answer["results"]] == [("changing", "none")]
    assert await refused(broker, "changing", "new") is not None


async def refused(broker: BrokerProcess, user: str, password: str) -> str | None:
    return await refusal(bootstrap(broker), "SCRAM-SHA-512", sasl_plain_username=user, sasl_plain_password=password)


def test_credentials_are_described_and_survive_a_restart(broker: BrokerProcess) -> None:
    def described() -> list[tuple[object, int]]:
        client = admin(broker)
        found = client.describe_user_scram_credentials([NAME])[NAME].result(30)
        return [(info.mechanism, info.iterations) for info in found.scram_credential_infos]

    expected = [(mechanism, 4096) for mechanism in MECHANISMS.values()]
    assert described() == expected
    broker.stop()
    broker.start()
    assert described() == expected
    assert produced_with_confluent(broker, "SCRAM-SHA-256", NAME, "päss=word")
