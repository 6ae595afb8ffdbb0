"""Plan the addresses that external clients use for a listener: one address and port for each broker. Pure.

The address of a NodePort is that of the broker's node, because its Service forwards no connection that arrives at
another node. The address of a load balancer is in the status of its Service. Before the pod or the load balancer
exists, the address is unknown: the listener waits, and a sentence names the object that it waits for.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.parts.listener_exposure import BROKER

Json = Mapping[str, Any]

ADDRESS_TYPES = ("ExternalIP", "InternalIP")
"""The types of a node's addresses, in order of preference. The first type that the node has counts."""

HIDDEN = "ClientAddressHidden"
"""Type of the condition about hidden client addresses, of BrokerListeners and of ConnectionQuotas."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address that clients connect to. An IPv6 address has no brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class NodeSeen:
    """A Kubernetes node with its address.

    `address` is empty if the node has none or cannot be read, and `unseen` then has the cause.
    """

    name: str
    address: str = ""
    unseen: str = ""


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """The place of a broker.

    `host` is its pod's address, `node` None before the pod is scheduled.
    """

    id: int
    host: str
    node: NodeSeen | None = None


@dataclass(frozen=True, slots=True)
class ServiceSeen:
    """A Service, with the fields that the API server and a load balancer have added."""

    name: str
    node_port: int | None = None
    ingress: str = ""
    """Host name or address of the Service's load balancer; empty before it exists."""
    proxied: bool | None = None
    """Whether the load balancer opens connections of its own; None without a report of that."""


def node_address(node: Json) -> str:
    """Return the address of a Kubernetes node by which clients reach it; empty without one of ADDRESS_TYPES."""
    addresses = (node.get("status") or {}).get("addresses") or ()
    by_type = {address["type"]: address["address"] for address in reversed(addresses)}
    return next((by_type[kind] for kind in ADDRESS_TYPES if kind in by_type), "")


def service_seen(service: Json, port: int) -> ServiceSeen:
    """Return the state of a listener's Service, as observed.

    `port` is the listener's; ports that other clients added to the Service are ignored.
    """
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
    """Return whether the load balancer is a proxy.

    `ipMode` exists for addresses only, and defaults to VIP. A load balancer with a host name may be either.
    """
    if ingress.get("ip"):
        return bool(ingress.get("ipMode") == "Proxy")
    return None


def advertised(listener: BrokerListener, broker: BrokerPlace, service: ServiceSeen | None) -> Address | str:
    """Return the address that clients get for the broker, or a sentence about what is missing.

    `service` is the broker's own Service; a listener that is not exposed has none.
    """
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
        why = broker.node.unseen or "the node has neither ExternalIP nor InternalIP"
        return f"broker {broker.id} waits for the address of node {broker.node.name}: {why}"
    return Address(broker.node.address, service.node_port)


def bootstrap(listener: BrokerListener, service: ServiceSeen | None, brokers: Mapping[int, Address]) -> str:
    """Return the address that clients connect to first; empty while it is unknown.

    `service` is the listener's own Service for all brokers. It is None without this Service, also if another object has
    its name. `brokers` has the advertised address of each.
    """
    spec = listener.spec
    if service is None:
        return ""
    if spec.exposure == "ClusterIP":
        return f"{listener.name}.{listener.namespace}.svc:{spec.port}"
    if spec.exposure == "LoadBalancer":
        return str(Address(service.ingress, spec.port)) if service.ingress else ""
    if not brokers or service.node_port is None:
        return ""
    # Any node with a broker forwards it; other nodes do only with externalTrafficPolicy Cluster.
    return str(Address(brokers[min(brokers)].host, service.node_port))


def bootstrap_waits(listener: BrokerListener, service: ServiceSeen | None) -> str:
    """Return a sentence about what keeps external clients from connecting; empty if they can connect.

    `service` is the listener's Service for all brokers. A user who sets advertised host names is also responsible for
    the bootstrap address.
    """
    spec = listener.spec
    if service is None:
        return (
            f"clients wait for Service {listener.name}: the operator creates it when the cluster is not paused"
            " and all BrokerListeners of the cluster can be read"
        )
    if spec.exposure != "LoadBalancer" or spec.advertised_host or service.ingress:
        return ""
    return f"clients wait for the address of the load balancer of Service {service.name}"


@dataclass(frozen=True, slots=True)
class Hiding:
    """The finding whether brokers see other addresses than those of clients, for example a proxy's; None if unknown."""

    hidden: bool | None
    reason: str
    message: str = ""


NOT_HIDDEN = Hiding(hidden=False, reason="AddressesSeen")


def hiding_of_all(listeners: Sequence[BrokerListener]) -> Hiding:
    """Combine the listeners' own conditions, because limits of addresses count on all listeners of a cluster."""
    found = [condition for one in listeners if (condition := one.status.condition(HIDDEN)) is not None]
    for status, hidden in (("True", True), ("Unknown", None)):
        those = [condition for condition in found if condition.status == status]
        if those:
            return Hiding(hidden, those[0].reason, "; ".join(condition.message for condition in those))
    return NOT_HIDDEN


def hiding(listener: BrokerListener, services: Mapping[str, ServiceSeen]) -> Hiding:
    """Return whether the listener hides client addresses. `services` are the listener's Services, by name."""
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
            " instead of the client's: remove externalTrafficPolicy, or use a load balancer with the PROXY"
            " protocol and set proxyProtocol",
        )
    what_to_do = "enable the PROXY protocol, version 2, on the load balancer and set proxyProtocol"
    balanced = [seen for seen in services.values() if spec.exposure == "LoadBalancer" and seen.ingress]
    if any(seen.proxied for seen in balanced):
        return Hiding(
            hidden=True,
            reason="BalancerIsProxy",
            message=f"the load balancer of listener {spec.name} opens its own connections (ipMode Proxy), so brokers"
            f" see its address instead of the client's: {what_to_do}",
        )
    if any(seen.proxied is None for seen in balanced):
        return Hiding(
            hidden=None,
            reason="BalancerMayBeProxy",
            message=f"the load balancer of listener {spec.name} has a host name and does not report whether it"
            f" forwards clients' addresses: if it does not, {what_to_do}",
        )
    return Hiding(hidden=False, reason="TrafficPolicyLocal")
