"""Who is let in over TLS, under which name, and how refused clients and unfinished handshakes end."""

import json
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import PATIENCE_S, set_default_config, until
from tests.support.processes.clients.wire_client import request_frame
from tests.support.tls.authority import Authority, KeyFiles
from tests.support.tls.secure_broker import LISTENER, PREFIX, TlsWorld

RULES = r"RULE:^CN=(.*?),OU=Apps.*$/$1/L,DEFAULT"
TIMEOUT_MS = 1_000
SERVER = "kafka_server_socket_server_"


@pytest.fixture(scope="module")
def broker(world: TlsWorld, requests: Path) -> Iterator[BrokerProcess]:
    properties = {
        **world.properties(ssl_client_auth="requested", ssl_principal_mapping_rules=RULES),
        "sluicegate.tls.handshake.timeout.ms": str(TIMEOUT_MS),
        "observer.class.names": "json-log",
        "observer.json-log.path": str(requests),
    }
    with BrokerProcess(listeners=[LISTENER], properties=properties) as process:
        yield process


def counted(broker: BrokerProcess, name: str) -> float:
    return broker.metrics()[f'{SERVER}{name}{{listener="{LISTENER}"}}']


def refusals(broker: BrokerProcess, kind: str) -> float:
    return broker.metrics().get(f'{SERVER}refused_total{{kind="{kind}"}}', 0)


def ask(broker: BrokerProcess, settings: dict[str, str], client_id: str, within_s: float = PATIENCE_S) -> None:
    """Ask for the metadata of the cluster. Raises KafkaException."""
    bootstrap = f"{broker.host}:{broker.port(LISTENER)}"
    AdminClient({"bootstrap.servers": bootstrap, "client.id": client_id, **settings}).list_topics(timeout=within_s)


def principals(requests: Path, client_id: str) -> set[str]:
    lines = [json.loads(line) for line in requests.read_text().splitlines()]
    return {line["principal"] for line in lines if line.get("client_id") == client_id}


@pytest.mark.parametrize(
    ("client_id", "subject", "principal"),
    [
        ("rule", "CN=Anna,OU=Apps,O=Firm,C=DE", "User:anna"),
        ("default", "CN=Anna,OU=Ops,O=Firm", "User:CN=Anna,OU=Ops,O=Firm"),
        ("none", None, "User:ANONYMOUS"),
    ],
)
def test_observers_see_the_principal_of_the_certificate(
    broker: BrokerProcess, world: TlsWorld, requests: Path, client_id: str, subject: str | None, principal: str
) -> None:
    before = counted(broker, "successful_authentication_total")
    files: KeyFiles | None = None if subject is None else world.client(subject, client_id)
    ask(broker, world.confluent(files), client_id)
    until(lambda: principals(requests, client_id) == {principal}, "the request is logged with its principal")
    assert counted(broker, "successful_authentication_total") > before


def test_open_connections_are_shown_by_their_cipher(broker: BrokerProcess, world: TlsWorld) -> None:
    context = ssl.create_default_context(cafile=str(world.trusted))
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.set_ciphers("ECDHE-ECDSA-AES128-GCM-SHA256")
    labels = f'listener="{LISTENER}",cipher="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",protocol="TLSv1.2"'
    name = f"{SERVER}connections{{{labels}}}"
    with (
        socket.create_connection((broker.host, broker.port(LISTENER)), timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost"),
    ):
        until(lambda: broker.metrics().get(name) == 1, "the connection is counted")
    until(lambda: name not in broker.metrics(), "an ended connection is not counted")


def test_a_client_that_does_not_trust_the_broker_is_counted_with_its_reason(
    broker: BrokerProcess, world: TlsWorld, tmp_path: Path
) -> None:
    before = counted(broker, "failed_authentication_total")
    other = tmp_path / "other.pem"
    other.write_text(Authority("Other CA").pem)
    with pytest.raises(KafkaException):
        ask(broker, {**world.confluent(), "ssl.ca.location": str(other)}, "mistrustful", within_s=1)
    until(lambda: counted(broker, "failed_authentication_total") > before, "the refusal is counted")
    assert "the other side does not trust the certificate of this node" in broker.log()


def test_a_client_with_a_foreign_certificate_gets_an_alert(
    broker: BrokerProcess, world: TlsWorld, tmp_path: Path
) -> None:
    before = counted(broker, "failed_authentication_total")
    foreign = Authority("Other CA").issue("CN=Eve").write(tmp_path, "eve")
    context = ssl.create_default_context(cafile=str(world.trusted))
    context.load_cert_chain(str(foreign.certificate), str(foreign.key))
    address = (broker.host, broker.port(LISTENER))
    with (
        socket.create_connection(address, timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        # By TLS 1.3 the client finishes first: it learns of the refusal when it reads.
        secure.sendall(request_frame("api_versions", 0, 1, {}))
        with pytest.raises(ssl.SSLError, match=r"ALERT_UNKNOWN_CA"):
            secure.recv(1)
    until(lambda: counted(broker, "failed_authentication_total") == before + 1, "the refusal is counted")


@pytest.mark.parametrize("sent", [request_frame("api_versions", 0, 1, {}), b"GET / HTTP/1.1\r\n\r\n"])
def test_a_client_without_tls_is_refused_at_once(broker: BrokerProcess, sent: bytes) -> None:
    before = counted(broker, "failed_authentication_total")
    with socket.create_connection((broker.host, broker.port(LISTENER)), timeout=PATIENCE_S) as plain:
        plain.sendall(sent)
        with suppress(ConnectionResetError):
            assert b"ApiVersions" not in plain.recv(1_000)
    until(lambda: counted(broker, "failed_authentication_total") == before + 1, "the refusal is counted")


@pytest.mark.parametrize("sent", [b"", bytes.fromhex("1603010200010001fc0303")])
def test_a_handshake_that_does_not_end_is_ended(broker: BrokerProcess, sent: bytes) -> None:
    failed, overdue = counted(broker, "failed_authentication_total"), refusals(broker, "tls-handshake-overdue")
    with socket.create_connection((broker.host, broker.port(LISTENER)), timeout=PATIENCE_S) as plain:
        plain.sendall(sent)
        assert plain.recv(1) == b""
    assert refusals(broker, "tls-handshake-overdue") == overdue + 1
    assert counted(broker, "failed_authentication_total") == failed


def test_a_connection_counts_before_its_first_byte(broker: BrokerProcess, world: TlsWorld) -> None:
    key = f"{PREFIX}max.connections"
    set_default_config(broker, key, "1")
    try:
        with socket.create_connection((broker.host, broker.port(LISTENER)), timeout=PATIENCE_S) as silent:
            name = f'{SERVER}connection_count{{listener="{LISTENER}"}}'
            until(lambda: broker.metrics()[name] == 1, "the connection without a handshake counts")
            with pytest.raises(KafkaException):
                ask(broker, world.confluent(), "late", within_s=0.3)
            assert silent.recv(1) == b"", "the deadline of the handshake frees the slot"
        ask(broker, world.confluent(), "later")
    finally:
        set_default_config(broker, key, None)


def test_no_secret_is_shown(broker: BrokerProcess) -> None:
    assert "BEGIN" not in broker.log()
