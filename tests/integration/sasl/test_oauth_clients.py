"""Clients authenticate by tokens of OAUTHBEARER: signed ones, and those of Kubernetes' service accounts."""

import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider as AioTokenProvider
from confluent_kafka import Producer
from kafka import KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider

from sluicegate_operator.kube.certificates.new_certificate import new_pair
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.sasl_clients import refusal
from tests.support.processes.clients.wire_client import WireClient
from tests.support.requests.tokens import key_set, token

ISSUER = "https://kubernetes.default.svc.cluster.local"
ACCOUNT = "system:serviceaccount:shop:orders"
PREFIX = "listener.name.secure.oauthbearer."


def fresh(kid: int = 0, lives_s: int = 300, **changes: Any) -> str:
    now_s = int(time.time())
    usual: dict[str, Any] = {"sub": ACCOUNT, "iss": ISSUER, "iat": now_s - 5, "exp": now_s + lives_s}
    return token(kid, **(usual | changes))


def properties(url: str) -> dict[str, str]:
    return {
        "num.partitions": "1",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}sasl.oauthbearer.jwks.endpoint.url": url,
        f"{PREFIX}sasl.oauthbearer.expected.audience": "kafka",
        f"{PREFIX}sasl.oauthbearer.expected.issuer": ISSUER,
    }


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("jwks") / "keys.json"
    path.write_bytes(key_set(0))
    return path


@pytest.fixture(scope="module")
def broker(keys: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(listeners=["SECURE"], properties=properties(keys.as_uri())) as process:
        yield process


def bootstrap(broker: BrokerProcess) -> str:
    return f"{broker.host}:{broker.port('SECURE')}"


class Provider(AbstractTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self._text = text

    def token(self) -> str:
        return self._text


class AioProvider(AioTokenProvider):  # type: ignore[misc]
    def __init__(self, text: str) -> None:
        self._text = text

    async def token(self) -> str:
        return self._text


async def refused(broker: BrokerProcess, text: str) -> str | None:
    return await refusal(bootstrap(broker), "OAUTHBEARER", sasl_oauth_token_provider=AioProvider(text))


def python_producer(broker: BrokerProcess, text: str) -> KafkaProducer:
    return KafkaProducer(
        bootstrap_servers=bootstrap(broker),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(text),
    )


def test_kafka_python(broker: BrokerProcess) -> None:
    producer = python_producer(broker, fresh())
    assert producer.send("python", b"value").get(60).offset == 0
    producer.close()


async def test_aiokafka(broker: BrokerProcess) -> None:
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap(broker),
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=AioProvider(fresh()),
    )
    async with producer:
        assert (await producer.send_and_wait("aio", b"value")).offset == 0


@pytest.mark.full
def test_confluent_kafka_authenticates_again_before_its_token_expires(broker: BrokerProcess) -> None:
    def next_token(_: str) -> tuple[str, float]:
        return fresh(lives_s=4), time.time() + 4

    failed: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap(broker),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "oauth_cb": next_token,
        }
    )
    deadline = time.monotonic() + 60
    while counted(broker, "successful_reauthentication_total") < 2:
        assert time.monotonic() < deadline
        producer.produce("again", b"value", on_delivery=lambda error, _: failed.append(error) if error else None)
        producer.poll(0.05)
    assert producer.flush(30) == 0
    assert failed == []


def counted(broker: BrokerProcess, name: str) -> float:
    lines = broker.get("/metrics")[1].splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"kafka_server_socket_server_{name}{{"))


@pytest.mark.parametrize("bad", [{"aud": "other"}, {"iss": "other"}, {"exp": 1_000_000_000}, {"kid": 9}, {"sub": None}])
def test_other_tokens_are_refused_after_the_clients_acknowledgement(broker: BrokerProcess, bad: dict[str, Any]) -> None:
    with WireClient((broker.host, broker.port("SECURE"))) as client:
        assert client.ask("sasl_handshake", 1, mechanism="OAUTHBEARER")["error_code"] == "none"
        message = f"n,,\x01auth=Bearer {fresh(**bad)}\x01\x01".encode()
        first = client.ask("sasl_authenticate", 2, auth_bytes=message)
        assert (first["error_code"], first["auth_bytes"]) == ("none", b'{"status":"invalid_token"}')
        last = client.ask("sasl_authenticate", 2, auth_bytes=b"\x01")
        assert (last["error_code"], last["error_message"]) == (
            "sasl_authentication_failed",
            '{"status":"invalid_token"}',
        )
    assert "ey" + "J" not in broker.log()


async def test_a_changed_file_of_keys_is_read(broker: BrokerProcess, keys: Path) -> None:
    write_keys(keys, 1)
    assert await refused(broker, fresh(kid=1)) is None
    assert await refused(broker, fresh(kid=0)) is not None
    write_keys(keys, 0)


def write_keys(path: Path, kid: int) -> None:
    path.write_bytes(key_set(kid))


class KeyServer:
    """Serves a key set by HTTPS to clients that send the right token, as Kubernetes' API server does.

    As that one, it has only one media type. It writes its authority and the token into `folder`.
    """

    def __init__(self, folder: Path) -> None:
        self.content = key_set(0)
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                is_right = self.headers.get("Authorization") == "Bearer of-the-pod"
                is_accepted = "application/jwk-set+json" in self.headers.get("Accept", "")
                self.send_response((200 if is_accepted else 406) if is_right else 401)
                self.send_header("Content-Type", "application/jwk-set+json")
                self.end_headers()
                self.wfile.write(owner.content if is_right and is_accepted else b"")

            def log_message(self, *_: object) -> None:
                pass

        pair = new_pair(["127.0.0.1"], datetime.now(UTC), 1)
        for name, content in (("ca.crt", pair.authorities), ("tls.crt", pair.certificate), ("tls.key", pair.key)):
            (folder / name).write_bytes(content)
        (folder / "token").write_text("of-the-pod\n")
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        tls.load_cert_chain(folder / "tls.crt", folder / "tls.key")
        self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        url = f"https://127.0.0.1:{self.server.server_port}/openid/v1/jwks"
        self.properties = properties(url) | {
            "sluicegate.oauthbearer.jwks.token.file": str(folder / "token"),
            "sluicegate.oauthbearer.jwks.ca.file": str(folder / "ca.crt"),
        }


async def test_keys_of_a_server_with_a_token_and_a_new_key(tmp_path: Path) -> None:
    keys = KeyServer(tmp_path)
    serving = Thread(target=keys.server.serve_forever)
    serving.start()
    try:
        with BrokerProcess(listeners=["SECURE"], properties=keys.properties) as broker:
            assert await refused(broker, fresh()) is None
            keys.content = key_set(1)
            # The first token of the new key is refused, and causes the read.
            assert await refused(broker, fresh(kid=1)) is not None
            deadline = time.monotonic() + 30
            while await refused(broker, fresh(kid=1)) is not None:
                assert time.monotonic() < deadline
            assert "of-the-pod" not in broker.log()
    finally:
        keys.server.shutdown()
        serving.join()
        keys.server.server_close()
