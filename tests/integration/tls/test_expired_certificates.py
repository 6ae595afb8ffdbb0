"""A client's certificate expires while it produces: its connection goes on, and a new one is refused."""

import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.broker_admin import PATIENCE_S, until
from tests.support.tls.authority import VALID_FROM, KeyFiles
from tests.support.tls.counted_senders import SENDERS, Sender, lost, of_each_client
from tests.support.tls.secure_broker import LISTENER, TlsWorld

REFUSALS = f'kafka_server_socket_server_failed_authentication_total{{listener="{LISTENER}"}}'
LIVES_S = 6


@pytest.fixture(scope="module")
def broker(world: TlsWorld) -> Iterator[BrokerProcess]:
    with BrokerProcess(listeners=[LISTENER], properties=world.properties(ssl_client_auth="required")) as process:
        yield process


def settings(broker: BrokerProcess, world: TlsWorld, client: str, files: KeyFiles) -> Mapping[str, Any]:
    address = f"{broker.host}:{broker.port(LISTENER)}"
    if client == "confluent-kafka":
        return {"bootstrap.servers": address, **world.confluent(files)}
    if client == "kafka-python":
        return {"bootstrap_servers": address, **world.kafka_python(files)}
    return {"bootstrap_servers": address, "security_protocol": "SSL", "ssl_context": world.context(files)}


def goes_on(sender: Sender, records: int = 20) -> None:
    before = len(sender.acknowledged)
    until(lambda: len(sender.acknowledged) >= before + records, "records are acknowledged")


def connect_once(broker: BrokerProcess, world: TlsWorld, files: KeyFiles) -> None:
    """Read until the broker answers; with TLS 1.3 a refusal comes after the client's handshake."""
    address = (broker.host, broker.port(LISTENER))
    with (
        socket.create_connection(address, timeout=PATIENCE_S) as plain,
        world.context(files).wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.recv(1)


@pytest.mark.full
@of_each_client
def test_a_certificate_expires_under_a_producer(
    broker: BrokerProcess, world: TlsWorld, tmp_path: Path, client: str
) -> None:
    topic = f"of-{client}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(PATIENCE_S)
    ends = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=LIVES_S)
    expiring = world.authority.issue("CN=app", valid_for=ends - VALID_FROM).write(tmp_path, "expiring")
    with SENDERS[client](settings(broker, world, client, expiring), topic) as sender:
        goes_on(sender)
        until(lambda: datetime.now(UTC) > ends, "the certificate has expired")
        goes_on(sender)
    before = broker.metrics().get(REFUSALS, 0)
    with pytest.raises(ssl.SSLError, match="certificate expired"):
        connect_once(broker, world, expiring)
    assert broker.metrics()[REFUSALS] == before + 1
    assert "certificate has expired" in broker.log()
    rotated = world.client("CN=app", f"rotated-{client}")
    with SENDERS[client](settings(broker, world, client, rotated), topic) as next_sender:
        goes_on(next_sender)
    assert lost(sender, broker.bootstrap) == lost(next_sender, broker.bootstrap) == {}
