"""The external addresses of brokers, the waits for them, and hidden ones."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import BrokerListener, parse_resource
from sluicegate_operator.planning.listeners.exposure import (
    HIDDEN,
    Address,
    BrokerPlace,
    NodeSeen,
    ServiceSeen,
    advertised,
    bootstrap,
    hiding,
    hiding_of_all,
    node_address,
    service_seen,
)
from tests.support.manifests.bad_manifests import listener

NODE = NodeSeen("worker-7", "203.0.113.7")
PLACE = BrokerPlace(2, "10.0.0.2", NODE)
SERVICE = ServiceSeen("shop-external-2", node_port=30096)
BALANCED = ServiceSeen("shop-external-2", node_port=30096, ingress="198.51.100.2", proxied=False)


def a_listener(**spec: Any) -> BrokerListener:
    found = parse_resource(listener(**spec))
    assert isinstance(found, BrokerListener)
    return found


def nodes(*addresses: tuple[str, str]) -> dict[str, Any]:
    return {"status": {"addresses": [{"type": kind, "address": address} for kind, address in addresses]}}


def test_the_address_of_a_node_is_one_that_can_be_reached_from_farthest() -> None:
    name, internal = ("Hostname", "worker-7"), ("InternalIP", "10.1.0.7")
    assert node_address(nodes(name, internal, ("ExternalIP", "203.0.113.7"))) == "203.0.113.7"
    assert node_address(nodes(name, internal, ("InternalIP", "fd00::7"))) == "10.1.0.7"
    assert node_address(nodes(name)) == ""
    assert node_address({}) == ""


@pytest.mark.parametrize(
    ("ingress", "seen"),
    [
        ([], ("", None)),
        ([{"ip": "198.51.100.2"}], ("198.51.100.2", False)),
        ([{"ip": "198.51.100.2", "ipMode": "VIP"}], ("198.51.100.2", False)),
        ([{"ip": "198.51.100.2", "ipMode": "Proxy"}], ("198.51.100.2", True)),
        ([{"hostname": "lb.example.org"}], ("lb.example.org", None)),
    ],
)
def test_a_service_is_read_as_the_api_server_has_it(ingress: list[Any], seen: tuple[str, bool | None]) -> None:
    service = {
        "metadata": {"name": "shop-external-2"},
        "spec": {"ports": [{"port": 9094, "nodePort": 30096}]},
        "status": {"loadBalancer": {"ingress": ingress} if ingress else {}},
    }
    assert service_seen(service, 9094) == ServiceSeen("shop-external-2", 30096, *seen)


def test_ports_that_others_have_added_to_a_service_are_left_to_them() -> None:
    theirs = [{"port": 8080, "nodePort": 31000}, {"port": 9094, "protocol": "UDP", "nodePort": 31001}]
    ports = [*theirs, {"port": 9094, "protocol": "TCP", "nodePort": 30096}]
    service = {"metadata": {"name": "shop-external-2"}, "spec": {"ports": ports}}
    assert service_seen(service, 9094) == SERVICE
    assert service_seen(service, 9095) == ServiceSeen("shop-external-2")


@pytest.mark.parametrize(
    ("spec", "place", "service", "told"),
    [
        ({}, PLACE, None, "10.0.0.2:9094"),
        ({"advertisedHost": "b{broker}.example.org"}, PLACE, None, "b2.example.org:9094"),
        ({"exposure": "NodePort"}, PLACE, SERVICE, "203.0.113.7:30096"),
        ({"exposure": "NodePort", "advertisedHost": "kafka.example.org"}, PLACE, SERVICE, "kafka.example.org:30096"),
        ({"exposure": "NodePort"}, BrokerPlace(2, "10.0.0.2", NodeSeen("n", "fd00::7")), SERVICE, "[fd00::7]:30096"),
        ({"exposure": "LoadBalancer"}, PLACE, BALANCED, "198.51.100.2:9094"),
        ({"exposure": "LoadBalancer", "advertisedHost": "b{broker}.org"}, PLACE, SERVICE, "b2.org:9094"),
    ],
)
def test_clients_are_told_where_this_broker_is_reached(
    spec: dict[str, Any], place: BrokerPlace, service: ServiceSeen | None, told: str
) -> None:
    found = advertised(a_listener(**spec), place, service)
    assert isinstance(found, Address)
    assert str(found) == told


@pytest.mark.parametrize(
    ("exposure", "place", "service", "waits"),
    [
        ("NodePort", PLACE, None, "its Service shop-external-2"),
        ("NodePort", PLACE, ServiceSeen("s"), "the nodePort of Service s"),
        ("NodePort", BrokerPlace(2, "10.0.0.2"), SERVICE, "a node"),
        (
            "NodePort",
            BrokerPlace(2, "10.0.0.2", NodeSeen("worker-7")),
            SERVICE,
            "the address of node worker-7: the node has neither ExternalIP nor InternalIP",
        ),
        (
            "NodePort",
            BrokerPlace(2, "10.0.0.2", NodeSeen("worker-7", unseen="it may not be read")),
            SERVICE,
            "the address of node worker-7: it may not be read",
        ),
        ("LoadBalancer", PLACE, SERVICE, "the address of the load balancer of Service shop-external-2"),
    ],
)
def test_a_missing_address_is_awaited_with_a_message(
    exposure: str, place: BrokerPlace, service: ServiceSeen | None, waits: str
) -> None:
    assert advertised(a_listener(exposure=exposure), place, service) == f"broker 2 waits for {waits}"


def test_clients_begin_at_the_service_of_all_brokers() -> None:
    told = {1: Address("203.0.113.8", 30095), 0: Address("203.0.113.7", 30094)}
    every = ServiceSeen("shop-external", node_port=30090)
    assert bootstrap(a_listener(), every, told) == "shop-external.default.svc:9094"
    assert bootstrap(a_listener(exposure="NodePort"), every, told) == "203.0.113.7:30090"
    assert bootstrap(a_listener(), None, told) == "", "the name may be that of another object"
    balanced = a_listener(exposure="LoadBalancer")
    assert bootstrap(balanced, every, told) == ""
    assert bootstrap(balanced, ServiceSeen("s", ingress="lb.example.org"), told) == "lb.example.org:9094"


@pytest.mark.parametrize(
    ("spec", "seen", "hidden", "says"),
    [
        ({}, {}, False, ""),
        ({"exposure": "NodePort"}, {"proxied": None}, False, ""),
        ({"exposure": "NodePort", "externalTrafficPolicy": "Cluster"}, {}, True, "externalTrafficPolicy Cluster"),
        ({"exposure": "LoadBalancer"}, {"proxied": None}, False, ""),
        ({"exposure": "LoadBalancer"}, {"ingress": "198.51.100.2", "proxied": False}, False, ""),
        ({"exposure": "LoadBalancer"}, {"ingress": "198.51.100.2", "proxied": True}, True, "ipMode Proxy"),
        ({"exposure": "LoadBalancer"}, {"ingress": "lb.example.org"}, None, "has a host name"),
        (
            {"exposure": "LoadBalancer", "externalTrafficPolicy": "Cluster", "proxyProtocol": {"trusted": ["::/0"]}},
            {"ingress": "198.51.100.2", "proxied": True},
            False,
            "",
        ),
    ],
)
def test_where_clients_addresses_are_hidden(
    spec: dict[str, Any], seen: dict[str, Any], hidden: bool | None, says: str
) -> None:
    found = hiding(a_listener(**spec), {"shop-external": ServiceSeen("shop-external", **seen)})
    assert found.hidden is hidden
    assert says in found.message
    assert bool(found.message) is (hidden is not False)
    assert not found.message or "proxyProtocol" in found.message


def said(status: str) -> BrokerListener:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    one = {"type": HIDDEN, "status": status, "reason": "R", "message": f"m{status}", "lastTransitionTime": moment}
    found = parse_resource(listener() | {"status": {"conditions": [one]}})
    assert isinstance(found, BrokerListener)
    return found


def test_limits_of_addresses_are_for_all_listeners_of_a_cluster() -> None:
    assert hiding_of_all([]).hidden is False
    assert hiding_of_all([a_listener(), said("False")]).hidden is False
    assert hiding_of_all([said("False"), said("Unknown")]).message == "mUnknown"
    every = hiding_of_all([said("True"), said("Unknown"), said("True")])
    assert (every.hidden, every.message) == (True, "mTrue; mTrue")
