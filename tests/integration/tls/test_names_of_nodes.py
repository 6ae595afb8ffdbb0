"""Names in the certificates of nodes that connect to each other, and what a node reports about its certificates."""

import hashlib
import socket
import ssl
from contextlib import closing, suppress
from pathlib import Path

import pytest

from broker_runtime.config import BrokerSettings, SecurityProtocol, ServerAddress, broker_settings
from broker_runtime.network.sockets.transport import HandshakeError
from broker_runtime.node.tls.tls_in_force import TlsInForce
from tests.support.tls.authority import Authority, Issued

NAME = "shop-brokers.default.svc"
ADDRESS = ServerAddress("192.0.2.7", 9095, SecurityProtocol.SSL)
ROUNDS = 50


class Nodes:
    """Nodes with one certificate, which has a name and no address."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority()
        self.issued: Issued = self.authority.issue("CN=shop-nodes", NAME)
        self._store = self.issued.write(folder, "nodes").store
        self._trusted = folder / "trusted.pem"
        self._trusted.write_text(self.authority.pem)

    def settings(self, **more: str) -> BrokerSettings:
        own = {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._store),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self._trusted),
            "ssl.client.auth": "required",
            **{key.replace("_", "."): value for key, value in more.items()},
        }
        properties = {
            "node.id": "1",
            "process.roles": "broker,controller",
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0,SECURE://127.0.0.1:0",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SSL",
            **{f"listener.name.secure.{key}": value for key, value in own.items()},
        }
        return broker_settings(properties)


@pytest.fixture
def nodes(tmp_path: Path) -> Nodes:
    return Nodes(tmp_path)


def talk(server: TlsInForce, client: TlsInForce) -> bytes:
    """Return the bytes that the server receives of a client that connects by address. Raises HandshakeError."""
    accepted, connected = socket.socketpair()
    for end in (accepted, connected):
        end.setblocking(False)
    to_client = server.accepting("SECURE", SecurityProtocol.SSL)(accepted)
    to_server = client.dialling("SECURE", ADDRESS)(connected)
    with closing(to_client), closing(to_server):
        received = bytearray(100)
        for _ in range(ROUNDS):
            with suppress(BlockingIOError):
                to_server.write([b"hello"])
            with suppress(BlockingIOError):
                return bytes(received[: to_client.receive_into(memoryview(received))])
    raise AssertionError("the handshake does not end")


def test_a_node_checks_the_configured_name_instead_of_the_address(nodes: Nodes) -> None:
    server = TlsInForce(nodes.settings())
    named = TlsInForce(nodes.settings(sluicegate_tls_server_name=NAME))
    assert talk(server, named)[:5] == b"hello"
    for settings in (nodes.settings(), nodes.settings(sluicegate_tls_server_name="shop-controllers.default.svc")):
        with pytest.raises(HandshakeError):
            talk(server, TlsInForce(settings))


def test_a_node_reports_digests_and_nothing_secret(nodes: Nodes) -> None:
    node = TlsInForce(nodes.settings())
    assert node.report() == {}
    node.accepting("SECURE", SecurityProtocol.SSL)
    [(listener, told)] = node.report().items()
    authority = hashlib.sha256(ssl.PEM_cert_to_DER_cert(nodes.authority.pem)).hexdigest()
    assert listener == "SECURE"
    assert told["certificate"] == hashlib.sha256(nodes.issued.der).hexdigest()
    assert told["authorities"] == [authority]
    assert told["problem"] is None
    assert set(told) == {"certificate", "ends", "authorities", "problem"}
