"""Where a BrokerListener is open, by what brokers say of themselves."""

import pytest

from sluicegate_operator.api import BrokerListener, parse_resource
from sluicegate_operator.planning.listeners import ListenerSeen, ServingBroker, listener_ports, listener_seen
from tests.support.bad_manifests import listener


@pytest.mark.parametrize(
    ("value", "ports"),
    [
        ("INTERNAL://10.0.0.1:9091,EXTERNAL://10.0.0.1:9094", {"INTERNAL": 9091, "EXTERNAL": 9094}),
        ("PLAINTEXT://:9092", {"PLAINTEXT": 9092}),
        ("external://[::1]:9094, B://h:1", {"EXTERNAL": 9094, "B": 1}),
        ("", {}),
        (None, {}),
        ("nonsense", {}),
    ],
)
def test_a_brokers_listeners_are_read_as_kafka_writes_them(value: str | None, ports: dict[str, int]) -> None:
    assert listener_ports(value) == ports


def test_it_is_open_where_the_broker_says_so_on_this_port() -> None:
    external = parse_resource(listener())
    assert isinstance(external, BrokerListener)
    brokers = [
        ServingBroker(0, "10.0.0.1", {"EXTERNAL": 9094, "INTERNAL": 9091}),
        ServingBroker(1, "10.0.0.2", {"INTERNAL": 9091}),
        ServingBroker(2, "10.0.0.3", {"EXTERNAL": 9999}),
        ServingBroker(3, "10.0.0.4"),
    ]
    assert listener_seen(external, brokers) == ListenerSeen(("10.0.0.1:9094",), lacking=(1, 2), unknown=(3,))
