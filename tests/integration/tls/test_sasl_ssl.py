"""Clients of a listener with SASL_SSL: TLS hides the exchange, and SCRAM proves who the client is."""

import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.integration.sasl import test_between_nodes as between_nodes
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.clients.wire_client import request_frame
from tests.support.tls.authority import Authority
from tests.support.tls.round_trips import confluent_round_trip, kafka_python_round_trip
from tests.support.tls.secure_broker import LISTENER, TlsWorld

PATIENCE_S = 60
MECHANISM, USER, PASSWORD = "SCRAM-SHA-512", "anna", "hidden=password"
SERVER = "kafka_server_socket_server_"
METADATA = request_frame("metadata", 12, 7, {"topics": None, "include_topic_authorized_operations": False})


@pytest.fixture(scope="module")
def broker(world: TlsWorld, requests: Path) -> Iterator[BrokerProcess]:
    properties = {
        **world.properties(ssl_client_auth="requested"),
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SECURE:SASL_SSL",
        "sasl.enabled.mechanisms": MECHANISM,
        "observer.class.names": "json-log",
        "observer.json-log.path": str(requests),
    }
    with BrokerProcess(listeners=[LISTENER], properties=properties) as process:
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        admin = AdminClient({"bootstrap.servers": process.bootstrap})
        upsertion = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
        admin.alter_user_scram_credentials([upsertion])[USER].result(PATIENCE_S)
        yield process


def bootstrap(broker: BrokerProcess) -> str:
    return f"{broker.host}:{broker.port(LISTENER)}"


def confluent(broker: BrokerProcess, world: TlsWorld, password: str = PASSWORD) -> dict[str, str]:
    return {
        **world.confluent(),
        "bootstrap.servers": bootstrap(broker),
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": MECHANISM,
        "sasl.username": USER,
        "sasl.password": password,
    }


def kafka_python(broker: BrokerProcess, world: TlsWorld) -> dict[str, str]:
    return {
        **world.kafka_python(),
        "bootstrap_servers": bootstrap(broker),
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": MECHANISM,
        "sasl_plain_username": USER,
        "sasl_plain_password": PASSWORD,
    }


def counted(broker: BrokerProcess, name: str) -> float:
    return broker.metrics()[f'{SERVER}{name}{{listener="{LISTENER}"}}']


def test_confluent_kafka(broker: BrokerProcess, world: TlsWorld) -> None:
    before = counted(broker, "successful_authentication_total")
    confluent_round_trip(confluent(broker, world), [bytes([number]) * 100_000 for number in range(20)], PATIENCE_S)
    assert counted(broker, "successful_authentication_total") > before


def test_kafka_python(broker: BrokerProcess, world: TlsWorld) -> None:
    kafka_python_round_trip(kafka_python(broker, world), PATIENCE_S)


def test_the_password_and_not_the_certificate_names_the_client(
    broker: BrokerProcess, world: TlsWorld, requests: Path
) -> None:
    files = world.client("CN=admin", "admin")
    settings = confluent(broker, world) | world.confluent(files) | {"security.protocol": "SASL_SSL"}
    AdminClient({**settings, "client.id": "both"}).list_topics(timeout=PATIENCE_S)

    def principals() -> set[tuple[str, str]]:
        lines = [json.loads(line) for line in requests.read_text().splitlines()]
        found = (line for line in lines if line.get("client_id") == "both")
        return {(line["api"], line["principal"]) for line in found if line["api"] != "ApiVersions"}

    until(lambda: principals() != set(), "the request is logged")
    assert {principal for _, principal in principals()} == {f"User:{USER}"}


def test_a_wrong_password_is_refused(broker: BrokerProcess, world: TlsWorld) -> None:
    before = counted(broker, "failed_authentication_total")
    with pytest.raises(KafkaException):
        AdminClient(confluent(broker, world, "wrong")).list_topics(timeout=1)
    until(lambda: counted(broker, "failed_authentication_total") > before, "the refusal is counted")


def test_a_client_that_does_not_trust_the_broker_sends_no_password(
    broker: BrokerProcess, world: TlsWorld, tmp_path: Path
) -> None:
    before = counted(broker, "failed_authentication_total")
    other = tmp_path / "other.pem"
    other.write_text(Authority("Other CA").pem)
    with pytest.raises(KafkaException):
        AdminClient({**confluent(broker, world), "ssl.ca.location": str(other)}).list_topics(timeout=1)
    until(lambda: counted(broker, "failed_authentication_total") > before, "the refused handshake is counted")
    assert "the other side does not trust the certificate of this node" in broker.log()


def test_a_trusted_certificate_alone_is_served_nothing(broker: BrokerProcess, world: TlsWorld) -> None:
    files = world.client("CN=admin", "alone")
    context = ssl.create_default_context(cafile=str(world.trusted))
    context.load_cert_chain(str(files.certificate), str(files.key))
    with (
        socket.create_connection((broker.host, broker.port(LISTENER)), timeout=PATIENCE_S) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        secure.sendall(METADATA)
        assert secure.recv(1) == b""


def test_brokers_and_controllers_authenticate_over_tls(world: TlsWorld) -> None:
    """The authorizer knows only their user, so a broker without its principal could not even register."""
    stores = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(world.broker.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(world.trusted),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:node",
        "num.partitions": "3",
        "default.replication.factor": "2",
        "min.insync.replicas": "2",
    }
    of_all = stores | between_nodes.OF_CONTROLLERS
    of_all["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,INTERNAL:SASL_SSL,CONTROLLER:SASL_SSL"
    jaas = f'{between_nodes.PLAIN} required username="node" password="{PASSWORD}" user_node="{PASSWORD}";'
    mine = between_nodes.of_brokers("PLAIN", jaas)
    with BrokerGroup(2, listeners=["INTERNAL"], properties=of_all, of_brokers=mine) as group:
        failed: list[object] = []
        first = group.brokers[0]
        settings = {
            **world.confluent(),
            "bootstrap.servers": f"{first.host}:{first.port('INTERNAL')}",
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "node",
            "sasl.password": PASSWORD,
            "acks": "all",
        }
        producer = Producer(settings)
        for _ in range(100):
            producer.produce("replicated", b"value", on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(PATIENCE_S) == 0
        assert failed == [None] * 100
        logs = "".join(node.log() for node in group.nodes)
        assert PASSWORD not in logs
        assert "node-secret" not in logs


def test_no_secret_is_shown(broker: BrokerProcess, requests: Path) -> None:
    for text in (broker.log(), requests.read_text()):
        assert PASSWORD not in text
        assert "BEGIN" not in text
