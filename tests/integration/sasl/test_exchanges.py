"""Exchanges over real sockets that ordinary clients do not have, and sessions that end under load."""

import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer
from kafka import KafkaProducer

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import ConnectionEnded, WireClient

MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
JAAS = f'{MODULE} required user_alice="secret";'
PROPERTIES = {
    "num.partitions": "1",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT,SHORT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.secure.plain.sasl.jaas.config": JAAS,
    "listener.name.short.plain.sasl.jaas.config": JAAS,
    "listener.name.short.connections.max.reauth.ms": "2000",
    "connection.failed.authentication.delay.ms": "300",
}
RIGHT = b"\0alice\0secret"


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    with BrokerProcess(listeners=["SECURE", "SHORT"], properties=PROPERTIES) as process:
        yield process


def client(broker: BrokerProcess, listener: str = "SECURE") -> WireClient:
    return WireClient((broker.host, broker.port(listener)))


def authenticate(one: WireClient, token: bytes = RIGHT) -> dict[str, Any]:
    assert one.ask("sasl_handshake", 1, mechanism="PLAIN")["error_code"] == "none"
    answer: dict[str, Any] = one.ask("sasl_authenticate", 2, auth_bytes=token)
    return answer


def topics(one: WireClient) -> object:
    return one.ask(
        "metadata", 12, topics=[], allow_auto_topic_creation=False, include_topic_authorized_operations=False
    )


def test_raw_tokens(broker: BrokerProcess) -> None:
    with client(broker) as one:
        assert one.ask("sasl_handshake", 0, mechanism="PLAIN")["mechanisms"] == ["PLAIN"]
        one.send(struct.pack(">i", len(RIGHT)) + RIGHT)
        assert one.receive() == b""
        assert topics(one)


def test_raw_tokens_that_are_wrong_are_not_answered(broker: BrokerProcess) -> None:
    with client(broker) as one:
        one.ask("sasl_handshake", 0, mechanism="PLAIN")
        began_s = time.monotonic()
        one.send(struct.pack(">i", 4) + b"\0a\0b")
        assert one.receive() is None
        assert time.monotonic() - began_s >= 0.3


def test_a_failure_is_answered_after_the_delay(broker: BrokerProcess) -> None:
    with client(broker) as one:
        began_s = time.monotonic()
        answer = authenticate(one, b"\0alice\0wrong")
        assert time.monotonic() - began_s >= 0.3
        assert answer["error_code"] == "sasl_authentication_failed"
        assert one.receive() is None


@pytest.mark.parametrize("before", ["nothing", "handshake"])
def test_ordinary_requests_are_not_served_before(broker: BrokerProcess, before: str) -> None:
    with client(broker) as one:
        if before == "handshake":
            one.ask("sasl_handshake", 1, mechanism="PLAIN")
        with pytest.raises(ConnectionEnded):
            topics(one)


def test_a_token_of_600_kilobytes_is_too_large(broker: BrokerProcess) -> None:
    with client(broker) as one:
        one.ask("sasl_handshake", 1, mechanism="PLAIN")
        with pytest.raises((ConnectionEnded, OSError)):
            one.ask("sasl_authenticate", 2, auth_bytes=bytes(600 * 1024))


def test_large_requests_are_served_afterwards(broker: BrokerProcess) -> None:
    producer = KafkaProducer(
        bootstrap_servers=f"{broker.host}:{broker.port('SECURE')}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password="secret",
    )
    assert producer.send("large", bytes(900_000)).get(60).offset == 0
    producer.close()


@pytest.mark.parametrize("listener", ["PLAINTEXT", "SECURE"])
def test_a_handshake_at_another_time_keeps_the_connection(broker: BrokerProcess, listener: str) -> None:
    with client(broker, listener) as one:
        if listener == "SECURE":
            authenticate(one)
        assert one.ask("sasl_handshake", 1, mechanism="PLAIN")["error_code"] == "illegal_sasl_state"
        assert one.ask("sasl_authenticate", 2, auth_bytes=b"")["error_code"] == "illegal_sasl_state"
        assert topics(one)


def test_api_versions_are_those_of_the_listener(broker: BrokerProcess) -> None:
    asked = {"client_software_name": "test", "client_software_version": "1"}
    with client(broker) as one, client(broker, "PLAINTEXT") as other:
        before = one.ask("api_versions", 3, **asked)["api_keys"]
        assert before == other.ask("api_versions", 3, **asked)["api_keys"]
        assert {17: (0, 1), 36: (0, 2)}.items() <= {
            each["api_key"]: (each["min_version"], each["max_version"]) for each in before
        }.items()
        authenticate(one)
        assert one.ask("api_versions", 3, **asked)["api_keys"] == before


def test_a_session_is_served_until_it_ends_and_begins_again_in_place(broker: BrokerProcess) -> None:
    with client(broker, "SHORT") as one, client(broker, "SHORT") as silent:
        lifetime = authenticate(one)["session_lifetime"]
        authenticate(silent)
        assert lifetime == 2_000
        began_s = time.monotonic()
        while time.monotonic() - began_s < 1.5:
            topics(one)
        authenticate(one)
        while time.monotonic() - began_s < 2.5:
            topics(one)
        with pytest.raises((ConnectionEnded, OSError)):
            topics(silent)


@pytest.mark.full
def test_clients_authenticate_again_under_load(broker: BrokerProcess) -> None:
    """librdkafka and kafka-python lose nothing while their sessions end several times."""
    failed: list[object] = []
    sent = 0
    stop = threading.Event()

    def with_confluent() -> None:
        nonlocal sent
        producer = Producer(
            {
                "bootstrap.servers": f"{broker.host}:{broker.port('SHORT')}",
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "secret",
                "linger.ms": 1,
            }
        )
        while not stop.is_set():
            producer.produce("load", b"x" * 1000, on_delivery=lambda e, _: failed.append(e) if e else None)
            sent += 1
            producer.poll(0.001)
        assert producer.flush(60) == 0

    running = threading.Thread(target=with_confluent)
    running.start()
    producer = KafkaProducer(
        bootstrap_servers=f"{broker.host}:{broker.port('SHORT')}",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="alice",
        sasl_plain_password="secret",
    )
    deadline = time.monotonic() + 8
    futures = []
    while time.monotonic() < deadline:
        futures.append(producer.send("load", b"y"))
        futures[-1].get(30)
    producer.close()
    stop.set()
    running.join()
    assert failed == []
    assert sent > 100
    lines = broker.get("/metrics")[1].splitlines()
    again = next(line for line in lines if 'successful_reauthentication_total{listener="SHORT"}' in line)
    assert float(again.split()[-1]) >= 5


def test_secrets_are_not_described_and_not_altered(broker: BrokerProcess) -> None:
    with client(broker, "PLAINTEXT") as one:
        wanted = {"resource_type": 4, "resource_name": "1", "configuration_keys": None}
        asked = {"resources": [wanted], "include_synonyms": True, "include_documentation": True}
        (result,) = one.ask("describe_configs", 4, **asked)["results"]
        entries = {config["name"]: config for config in result["configs"]}
        shown = [entry for name, entry in entries.items() if name.endswith("sasl.jaas.config")]
        assert shown
        assert all(entry["value"] is None and entry["is_sensitive"] for entry in shown)
        assert "secret" not in str([entry["synonyms"] for entry in shown])
        changed = {"name": "listener.name.secure.plain.sasl.jaas.config", "config_operation": 0, "value": JAAS}
        altered = one.ask(
            "incremental_alter_configs",
            1,
            resources=[{"resource_type": 4, "resource_name": "1", "configs": [changed]}],
            validate_only=False,
        )
        assert altered["responses"][0]["error_code"] == "invalid_request"
        assert "secret" not in str(altered["responses"][0]["error_message"])
