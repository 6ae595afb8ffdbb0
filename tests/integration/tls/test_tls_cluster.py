"""Three brokers and a controller that use TLS for clients, among themselves, and to the controller."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.broker_admin import PATIENCE_S, until
from tests.support.tls.authority import Authority
from tests.support.tls.secure_broker import TlsWorld

REFUSALS = 'kafka_server_socket_server_refused_total{kind="tls-handshake-refused"}'


def properties(world: TlsWorld, store: Path | None = None) -> Mapping[str, str]:
    """Properties with which all listeners use TLS, and each side shows a certificate of the authority."""
    return {
        "listener.security.protocol.map": "PLAINTEXT:SSL,CONTROLLER:SSL",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store or world.broker.store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(world.trusted),
        "ssl.client.auth": "required",
        "default.replication.factor": "3",
    }


@pytest.fixture(scope="module")
def group(world: TlsWorld) -> Iterator[BrokerGroup]:
    with BrokerGroup(brokers=3, properties=properties(world)) as made:
        yield made


@pytest.mark.full
def test_records_are_replicated_and_survive_the_loss_of_a_leader(group: BrokerGroup, world: TlsWorld) -> None:
    settings = {"bootstrap.servers": group.bootstrap, **world.confluent(world.client("CN=app", "app"))}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("replicated", 1, 3)])["replicated"].result(PATIENCE_S)
    failed: list[object] = []
    producer = Producer({**settings, "acks": "all"})
    for number in range(500):
        producer.produce("replicated", b"%d" % number * 1_000, on_delivery=lambda error, _: failed.append(error))
    assert producer.flush(PATIENCE_S) == 0
    assert failed == [None] * 500

    def leader() -> int:
        return int(admin.list_topics("replicated", timeout=PATIENCE_S).topics["replicated"].partitions[0].leader)

    first = leader()
    lost = next(broker for broker in group.brokers if broker.node_id == first)
    lost.kill()
    until(lambda: leader() not in (first, -1), "another broker leads")
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["replicated"])
    found: list[bytes] = []
    while len(found) < 500:
        message = consumer.poll(PATIENCE_S)
        assert message is not None
        if message.error() is None:
            found.append(message.value())
    consumer.close()
    assert found == [b"%d" % number * 1_000 for number in range(500)]
    lost.start()
    lost.wait_ready()


def test_no_handshake_between_nodes_is_refused(group: BrokerGroup) -> None:
    assert [node.metrics().get(REFUSALS, 0) for node in group.nodes] == [0] * 4


def test_a_broker_whose_own_certificate_it_does_not_trust_does_not_start(world: TlsWorld, tmp_path: Path) -> None:
    foreign = Authority("Other CA").issue("CN=broker", "127.0.0.1").write(tmp_path, "foreign")
    broker = BrokerProcess(properties={**properties(world, foreign.store), "default.replication.factor": "1"})
    with pytest.raises(RuntimeError, match="the trust store must have the authority of the key store"), broker:
        pass
