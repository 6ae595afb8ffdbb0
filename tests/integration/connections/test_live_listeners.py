"""Listeners are added and removed while a broker runs: real processes and clients, and the state after a kill."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from confluent_kafka.admin import AdminClient

from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess, is_listening
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, create_topic
from tests.support.processes.clients.broker_admin import ask, effective_config, set_default_config, until
from tests.support.processes.ports import free_port
from tests.support.processes.proxies.slow_proxy import SlowProxy
from tests.support.requests.proxy_headers import header

RATE = "max.connection.creation.rate"


class Node:
    """One broker with PLAINTEXT only, and a free port for EXTERNAL."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.plain = f"PLAINTEXT://127.0.0.1:{broker.port()}"
        self.port = free_port()

    @property
    def external(self) -> str:
        return f"127.0.0.1:{self.port}"

    def change(self, **keys: str | None) -> None:
        change = ConfigChange(
            set={name.replace("_", "."): value for name, value in keys.items() if value is not None},
            delete=[name.replace("_", ".") for name, value in keys.items() if value is None],
        )
        ask(self.broker, lambda handle: handle.incremental_alter_configs(self.broker.node_id, change))

    def add(self, **more: str) -> None:
        self.change(
            listeners=f"{self.plain},EXTERNAL://{self.external}",
            listener_security_protocol_map="PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT",
            **more,
        )

    def told(self, bootstrap: str) -> list[str]:
        """Return the brokers' addresses that a client receives at this bootstrap address."""
        found = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2}).list_topics(timeout=10).brokers
        return [f"{broker.host}:{broker.port}" for broker in found.values()]


@pytest.fixture
def node() -> Iterator[Node]:
    with BrokerProcess() as broker:
        yield Node(broker)


def test_a_listener_opens_and_closes_while_a_producer_on_another_listener_continues(node: Node) -> None:
    create_topic(node.broker.bootstrap, "live", 2, 1)
    with AcknowledgedWorkload(node.broker.bootstrap, "live", 2) as workload, ExitStack() as clients:
        until(lambda: workload.count > 100, "the first listener has a busy client")
        node.add(**{f"listener.name.external.{RATE}": "100"})
        assert is_listening("127.0.0.1", node.port), "the listener is open once the change is answered"
        until(lambda: node.told(node.external) == [node.external], "its clients are told its address")
        assert node.told(node.broker.bootstrap) == [node.broker.bootstrap]
        create_topic(node.broker.bootstrap, "external", 1, 1)
        with AcknowledgedWorkload(node.external, "external", 1) as other:
            until(lambda: other.count > 100, "a client produces over the new listener")
        other.check()
        idle = clients.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=30))
        until(lambda: any('listener="EXTERNAL"' in name for name in node.broker.metrics()), "it has metrics")
        node.change(listeners=node.plain)
        assert idle.recv(1) == b"", "its connections are closed"
        until(lambda: not is_listening("127.0.0.1", node.port), "the port is free again")
        until(lambda: not any('listener="EXTERNAL"' in name for name in node.broker.metrics()), "metrics go with it")
        seen = workload.count
        until(lambda: workload.count > seen + 100, "the first listener's client goes on")
    workload.check()
    assert workload.longest_gap_s < 2


def test_clients_behind_a_balancer_are_known_by_their_own_addresses(node: Node) -> None:
    """The listener and its balancer are configured in one request.

    Only the client that exceeds the limit of its address is refused.
    """
    create_topic(node.broker.bootstrap, "live", 1, 1)
    bob = SlowProxy(None, header(("203.0.113.8", 40_001)))
    with SlowProxy(None, header(("203.0.113.7", 40_000))) as alice, bob, ExitStack() as clients:
        alice.target = bob.target = node.port
        node.add(
            advertised_listeners=f"{node.plain},EXTERNAL://127.0.0.1:{bob.port}",
            **{"listener.name.external.proxy.protocol.trusted": "127.0.0.1/32, 10.0.0.0/8"},
        )
        set_default_config(node.broker, "max.connections.per.ip.overrides", "203.0.113.7:0")
        until(lambda: node.told(f"127.0.0.1:{bob.port}") == [f"127.0.0.1:{bob.port}"], "its clients are told of it")
        with AcknowledgedWorkload(f"127.0.0.1:{bob.port}", "live", 1) as workload:
            until(lambda: workload.count > 100, "a client produces through the balancer")
            refused = clients.enter_context(socket.create_connection(("127.0.0.1", alice.port), timeout=30))
            assert refused.recv(1) == b"", "no connection is allowed to this address"
        workload.check()
        outcomes = {name: count for name, count in node.broker.metrics().items() if "proxy_headers_total" in name}
        assert outcomes['sluicegate_proxy_headers_total{listener="EXTERNAL",outcome="client"}'] >= 3
        node.change(**{"listener.name.external.proxy.protocol.trusted": "10.0.0.0/8"})
        untrusted = clients.enter_context(socket.create_connection(("127.0.0.1", bob.port), timeout=30))
        assert untrusted.recv(1) == b"", "who is not trusted (any more) cannot say who it is"


def test_the_listener_of_brokers_takes_no_header(node: Node) -> None:
    with pytest.raises(KafkaAdminError, match="brokers connect to each other by this listener"):
        node.change(**{"listener.name.plaintext.proxy.protocol.trusted": "127.0.0.1"})
    with pytest.raises(KafkaAdminError, match=r"proxy\.protocol\.trusted without listener"):
        node.change(proxy_protocol_trusted="127.0.0.1")


def test_a_port_that_is_taken_refuses_the_change_and_nothing_is_different(node: Node) -> None:
    before = effective_config(node.broker, "listeners")
    with socket.create_server(("127.0.0.1", node.port)), pytest.raises(KafkaAdminError, match="cannot listen on"):
        node.add()
    assert effective_config(node.broker, "listeners") == before
    assert node.told(node.broker.bootstrap) == [node.broker.bootstrap]
    node.add()
    assert is_listening("127.0.0.1", node.port)


@pytest.mark.parametrize(
    ("listeners", "why"),
    [
        ("PLAINTEXT://127.0.0.1:{plain},EXTERNAL://127.0.0.1:{plain}", "have the same port"),
        ("EXTERNAL://127.0.0.1:{port}", "connect to each other"),
        ("PLAINTEXT://127.0.0.1:{port}", "cannot be removed or changed"),
        ("PLAINTEXT://127.0.0.1:{plain},EXTERNAL://127.0.0.1:{port}", "the security protocol of EXTERNAL is not known"),
    ],
)
def test_a_change_that_breaks_a_rule_is_refused(node: Node, listeners: str, why: str) -> None:
    with pytest.raises(KafkaAdminError, match=why):
        node.change(listeners=listeners.format(plain=node.broker.port(), port=node.port))
    assert not is_listening("127.0.0.1", node.port)
    assert is_listening("127.0.0.1", node.broker.port())


def test_changed_listeners_are_restored_after_a_kill(node: Node) -> None:
    node.add(advertised_listeners=f"{node.plain},EXTERNAL://localhost:{node.port}")
    until(lambda: node.told(node.external) == [f"localhost:{node.port}"], "the address is told")
    node.broker.kill()
    node.broker.start()
    assert node.told(node.external) == [f"localhost:{node.port}"]
    node.change(advertised_listeners=f"{node.plain},EXTERNAL://{node.external}")
    until(lambda: node.told(node.external) == [node.external], "an address that changes alone is told, too")
    node.change(listeners=None, advertised_listeners=None, listener_security_protocol_map=None)
    assert not is_listening("127.0.0.1", node.port)


def test_a_port_that_is_taken_at_the_start_is_told_and_the_files_listeners_are_there(node: Node) -> None:
    node.add()
    node.broker.kill()
    with socket.create_server(("127.0.0.1", node.port)):
        node.broker.start()
        assert node.told(node.broker.bootstrap) == [node.broker.bootstrap]
        assert "cannot listen on" in node.broker.get("/readyz")[1]
        assert "cannot listen on" in node.broker.log()
    until(lambda: is_listening("127.0.0.1", node.port), "it is opened as soon as it can be")
    until(lambda: node.told(node.external) == [node.external], "and clients are told of it")


@pytest.mark.full
def test_each_broker_opens_its_own_listener_and_clients_receive_all_addresses() -> None:
    with BrokerGroup(brokers=2) as group:
        nodes = [Node(broker) for broker in group.brokers]
        changed = ConfigChange(set={"listeners": nodes[1].plain})
        with pytest.raises(KafkaAdminError, match="to that broker, because it has to open them"):
            ask(group.brokers[0], lambda handle: handle.incremental_alter_configs(1, changed))
        nodes[0].add()
        until(lambda: nodes[0].told(nodes[0].external) == [nodes[0].external], "who has the listener is told")
        nodes[1].add()
        both = sorted(node.external for node in nodes)
        until(lambda: sorted(nodes[0].told(nodes[0].external)) == both, "both are told")
        create_topic(nodes[0].external, "outside", 4, 2)
        with AcknowledgedWorkload(nodes[0].external, "outside", 4) as workload:
            until(lambda: workload.count > 200, "clients reach the leaders that they are told")
            group.controller.kill()
            group.controller.start()
            until(lambda: sorted(nodes[1].told(nodes[1].external)) == both, "the controller's journal has them")
            seen = workload.count
            until(lambda: workload.count > seen + 200, "they go on")
        workload.check()
