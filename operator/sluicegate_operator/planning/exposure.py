"""What clients outside of the Kubernetes cluster are told of a listener: one address and port for each broker. Pure.

A NodePort's address is that of the node which the broker is on, for its Service passes on nothing that comes in
elsewhere; a load balancer's is in the status of its Service. Neither is known before the pod, or the load balancer, is
there: until then somebody is waited for, and the sentence says who.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.api.listener_exposure import BROKER

Json = Mapping[str, Any]

ADDRESS_TYPES = ("ExternalIP", "InternalIP")
"""Of a node; the first that it has counts."""

HIDDEN = "ClientAddressHidden"
"""Type of a condition of BrokerListeners and of ConnectionQuotas."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where clients connect to; an IPv6 address stands without brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A Kubernetes node; `address` is empty where it has none, or cannot be read, as `unseen` then says."""

    name: str
    address: str = ""
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """Where a broker is: `host` is its pod's address, `node` None before it is on one."""

    id: int
    host: str
    node: NodeSeen | None = None


@dataclass(frozen=True, slots=True)
class ServiceSeen:
    """What the API server and a load balancer have made of a Service."""

    name: str
    node_port: int | None = None
    ingress: str = ""
    """Host name or address of its load balancer; empty before there is one."""
    proxied: bool | None = None
    """Whether the load balancer opens connections of its own; None where it does not say."""


def node_address(node: Json) -> str:
    addresses = (node.get("status") or {}).get("addresses") or ()
    by_type = {address["type"]: address["address"] for address in reversed(addresses)}
    return next((by_type[kind] for kind in ADDRESS_TYPES if kind in by_type), "")


def service_seen(service: Json, port: int) -> ServiceSeen:
    """`port` is the listener's: others may have added ports of their own, which are left to them."""
    ports: list[Json] = service["spec"]["ports"]
    own = [one for one in ports if (one["port"], one.get("protocol", "TCP")) == (port, "TCP")]
    ingresses = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or ()
    first: Json = ingresses[0] if ingresses else {}
    return ServiceSeen(
        service["metadata"]["name"],
        own[0].get("nodePort") if own else None,
        first.get("ip") or first.get("hostname") or "",
        _proxied(first),
    )


def _proxied(ingress: Json) -> bool | None:
    """`ipMode` is given with addresses only, and is VIP where nothing is said; who has a name may be anything."""
    if ingress.get("ip"):
        return bool(ingress.get("ipMode") == "Proxy")
    return None


def advertised(listener: BrokerListener, broker: BrokerPlace, service: ServiceSeen | None) -> Address | str:
    """What clients are told of the broker, or a sentence on what is waited for. `service` is the broker's own; a
    listener that is not exposed has none."""
    spec = listener.spec
    own_name = spec.advertised_host and spec.advertised_host.replace(BROKER, str(broker.id))
    if not spec.is_exposed:
        return Address(own_name or broker.host, spec.port)
    if service is None:
        return f"broker {broker.id} waits for its Service {listener.name}-{broker.id}"
    if spec.exposure == "LoadBalancer":
        host = own_name or service.ingress
        waits = f"broker {broker.id} waits for the address of the load balancer of Service {service.name}"
        return Address(host, spec.port) if host else waits
    if service.node_port is None:
        return f"broker {broker.id} waits for the nodePort of Service {service.name}"
    if own_name:
        return Address(own_name, service.node_port)
    if broker.node is None:
        return f"broker {broker.id} waits for a node"
    if not broker.node.address:
        why = broker.node.unseen or "it has neither ExternalIP nor InternalIP"
        return f"broker {broker.id} waits for the address of node {broker.node.name}: {why}"
    return Address(broker.node.address, service.node_port)


def bootstrap(listener: BrokerListener, service: ServiceSeen | None, brokers: Mapping[int, Address]) -> str:
    """Where clients begin: empty while that is not known. `service` is the listener's own Service for all brokers.
    It is None if there is none, also if another object has its name. `brokers` is what clients are told of each."""
    spec = listener.spec
    if service is None:
        return ""
    if spec.exposure == "ClusterIP":
        return f"{listener.name}.{listener.namespace}.svc:{spec.port}"
    if spec.exposure == "LoadBalancer":
        return str(Address(service.ingress, spec.port)) if service.ingress else ""
    if not brokers or service.node_port is None:
        return ""
    # Any node with a broker passes it on; the others do with externalTrafficPolicy Cluster only.
    return str(Address(brokers[min(brokers)].host, service.node_port))


def bootstrap_waits(listener: BrokerListener, service: ServiceSeen | None) -> str:
    """A sentence on what is waited for before clients outside can begin; empty where nothing is. `service` is the one
    of all brokers; whoever gives names of his own sees to that of the first address, too."""
    spec = listener.spec
    if service is None:
        return (
            f"clients wait for Service {listener.name}: the operator makes it when the cluster is not paused and all"
            " BrokerListeners of the cluster can be read"
        )
    if spec.exposure != "LoadBalancer" or spec.advertised_host or service.ingress:
        return ""
    return f"clients wait for the address of the load balancer of Service {service.name}"


@dataclass(frozen=True, slots=True)
class Hiding:
    """Whether brokers see something else than the client's address: None where that cannot be known."""

    hidden: bool | None
    reason: str
    message: str = ""


NOT_HIDDEN = Hiding(hidden=False, reason="AddressesSeen")


def hiding_of_all(listeners: Sequence[BrokerListener]) -> Hiding:
    """From what their own conditions say: limits of addresses count on all listeners of a cluster."""
    found = [condition for one in listeners if (condition := one.status.condition(HIDDEN)) is not None]
    for status, hidden in (("True", True), ("Unknown", None)):
        those = [condition for condition in found if condition.status == status]
        if those:
            return Hiding(hidden, those[0].reason, "; ".join(condition.message for condition in those))
    return NOT_HIDDEN


def hiding(listener: BrokerListener, services: Mapping[str, ServiceSeen]) -> Hiding:
    """`services` are those of the listener, by name."""
    spec = listener.spec
    if spec.proxy_protocol is not None:
        return Hiding(hidden=False, reason="ProxyProtocol")
    if not spec.is_exposed:
        return Hiding(hidden=False, reason="PodAddresses")
    if spec.external_traffic_policy == "Cluster":
        return Hiding(
            hidden=True,
            reason="TrafficPolicyCluster",
            message=f"listener {spec.name} has externalTrafficPolicy Cluster, so brokers see the address of a node"
            " instead of the client's: leave it out, or have a load balancer speak the PROXY protocol and say"
            " proxyProtocol",
        )
    what_to_do = "have it speak the PROXY protocol, version 2, and say proxyProtocol"
    balanced = [seen for seen in services.values() if spec.exposure == "LoadBalancer" and seen.ingress]
    if any(seen.proxied for seen in balanced):
        return Hiding(
            hidden=True,
            reason="BalancerIsProxy",
            message=f"the load balancer of listener {spec.name} opens connections of its own (ipMode Proxy), so brokers"
            f" see its address instead of the client's: {what_to_do}",
        )
    if any(seen.proxied is None for seen in balanced):
        return Hiding(
            hidden=None,
            reason="BalancerMayBeProxy",
            message=f"the load balancer of listener {spec.name} has a name and does not say whether it passes on"
            f" clients' addresses: where it does not, {what_to_do}",
        )
    return Hiding(hidden=False, reason="TrafficPolicyLocal")
