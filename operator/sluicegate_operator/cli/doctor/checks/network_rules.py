"""What NetworkPolicies allow: whether a pod accepts or opens a connection, as Kubernetes defines it. Pure.

A policy that selects a pod isolates it in the policy's directions. An isolated pod has the connections that a rule of
any of these policies allows. An ipBlock is compared with no address, because a network may translate addresses: its
answer is UNKNOWN, except for a block of all addresses.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Json = Mapping[str, Any]

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every namespace has with its name."""
ALL_ADDRESSES = ("0.0.0.0/0", "::/0")


class Direction(StrEnum):
    """The direction of a connection, from the point of view of the selected pod."""

    INGRESS = "Ingress"
    EGRESS = "Egress"


class Allowed(StrEnum):
    """The answer to whether a rule allows a connection."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Port:
    """A port of the pod that accepts the connection.

    `names` are the ports that this pod names; None for an unknown pod.
    """

    number: int
    protocol: str = "TCP"
    names: Mapping[str, int] | None = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod for the selectors of policies.

    `namespace_labels` is None if the labels of its namespace cannot be read: only the name is known then.
    """

    name: str
    namespace: str
    labels: Mapping[str, str]
    namespace_labels: Mapping[str, str] | None = None
    ports: Mapping[str, int] = field(default_factory=dict)


def isolating(policies: Sequence[Json], pod: PodSeen, direction: Direction) -> list[Json]:
    """Return the policies that select the pod in this direction."""
    return [
        policy
        for policy in policies
        if policy["metadata"]["namespace"] == pod.namespace
        and direction in _directions(policy["spec"])
        and selects(policy["spec"].get("podSelector") or {}, pod.labels) is Allowed.YES
    ]


def _directions(spec: Json) -> Sequence[str]:
    given: Sequence[str] = spec.get("policyTypes") or ()
    return given or [Direction.INGRESS, *([Direction.EGRESS] if spec.get("egress") else [])]


def allows(policies: Sequence[Json], pod: PodSeen, direction: Direction, peer: PodSeen | None, port: Port) -> Allowed:
    """Return whether the pod has connections from or to `peer` at this port.

    Without a peer, the answer is whether there is any peer for which a rule allows the port.
    """
    selecting = isolating(policies, pod, direction)
    if not selecting:
        return Allowed.YES
    rules = "ingress" if direction is Direction.INGRESS else "egress"
    return _any(
        _rule(policy, rule, direction, peer, port) for policy in selecting for rule in policy["spec"].get(rules) or ()
    )


def _rule(policy: Json, rule: Json, direction: Direction, peer: PodSeen | None, port: Port) -> Allowed:
    ports = rule.get("ports") or ()
    has_port = _any(_has_port(one, port) for one in ports) if ports else Allowed.YES
    peers = rule.get("from" if direction is Direction.INGRESS else "to") or ()
    if not peers or peer is None:
        return has_port
    return _all((has_port, _any(_is_peer(policy, one, peer) for one in peers)))


def _has_port(given: Json, port: Port) -> Allowed:
    wanted = given.get("port")
    if (given.get("protocol") or "TCP") != port.protocol:
        holds = False
    elif wanted is None:
        holds = True
    elif not isinstance(wanted, str):
        holds = wanted <= port.number <= (given.get("endPort") or wanted)
    elif port.names is None:
        return Allowed.UNKNOWN
    else:
        holds = port.names.get(wanted) == port.number
    return Allowed.YES if holds else Allowed.NO


def _is_peer(policy: Json, given: Json, peer: PodSeen) -> Allowed:
    if (block := given.get("ipBlock")) is not None:
        is_all = block.get("cidr") in ALL_ADDRESSES and not block.get("except")
        return Allowed.YES if is_all else Allowed.UNKNOWN
    if given.get("namespaceSelector") is None:
        in_namespace = Allowed.YES if policy["metadata"]["namespace"] == peer.namespace else Allowed.NO
    else:
        in_namespace = _selects_namespace(given["namespaceSelector"], peer)
    return _all((in_namespace, selects(given.get("podSelector") or {}, peer.labels)))


def _selects_namespace(selector: Json, peer: PodSeen) -> Allowed:
    if peer.namespace_labels is not None:
        return selects(selector, {**peer.namespace_labels, NAME_LABEL: peer.namespace})
    return selects(selector, {NAME_LABEL: peer.namespace}, known=frozenset({NAME_LABEL}))


def selects(selector: Json, labels: Mapping[str, str], known: frozenset[str] | None = None) -> Allowed:
    """Return whether a label selector matches. `known`: the only keys whose labels are known; None for all."""
    wanted = [
        {"key": key, "operator": "In", "values": [value]} for key, value in (selector.get("matchLabels") or {}).items()
    ]
    return _all(
        Allowed.UNKNOWN if known is not None and one["key"] not in known else _holds(one, labels)
        for one in (*wanted, *(selector.get("matchExpressions") or ()))
    )


def _holds(expression: Json, labels: Mapping[str, str]) -> Allowed:
    value, values = labels.get(expression["key"]), expression.get("values") or ()
    match expression["operator"]:
        case "In":
            holds = value is not None and value in values
        case "NotIn":
            holds = value is None or value not in values
        case "Exists":
            holds = value is not None
        case "DoesNotExist":
            holds = value is None
        case _:
            return Allowed.UNKNOWN
    return Allowed.YES if holds else Allowed.NO


def _any(found: Iterable[Allowed]) -> Allowed:
    seen = set(found)
    return next((one for one in (Allowed.YES, Allowed.UNKNOWN) if one in seen), Allowed.NO)


def _all(found: Iterable[Allowed]) -> Allowed:
    seen = set(found)
    return next((one for one in (Allowed.NO, Allowed.UNKNOWN) if one in seen), Allowed.YES)
