"""Judge the NetworkPolicies of a namespace by the connections that nodes, the operator and clients need. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.cli.doctor.checks.catalogue import NETWORK_POLICIES
from sluicegate_operator.cli.doctor.checks.network_rules import (
    Allowed,
    Direction,
    PodSeen,
    Port,
    allows,
    isolating,
)
from sluicegate_operator.cli.doctor.checks.results import CheckResult, listed
from sluicegate_operator.planning.layout.cluster_layout import CONTROLLER_PORT, HTTP_PORT, INTERNAL_PORT

Json = Mapping[str, Any]
DNS_PORTS = (53, 5353)
"""The port of DNS, and the one to which OpenShift translates it before policies apply."""


@dataclass(frozen=True, slots=True)
class ClusterPods:
    """The pods of a cluster's nodes and the ports of its client listeners, by Kafka's name.

    `operator` is None if the operator's pods are unknown.
    """

    name: str
    brokers: Sequence[PodSeen]
    controllers: Sequence[PodSeen]
    listeners: Mapping[str, int]
    operator: PodSeen | None


@dataclass(frozen=True, slots=True)
class Flow:
    """Connections that a cluster needs at one port, from each source to each target. No `sources`: from clients.

    `words` name the source, and `what` the target.
    """

    words: str
    sources: Sequence[PodSeen]
    what: str
    targets: Sequence[PodSeen]
    port: int


def flows(cluster: ClusterPods) -> list[Flow]:
    brokers, controllers = cluster.brokers, cluster.controllers
    found = [
        Flow("brokers", brokers, "controllers", controllers, CONTROLLER_PORT),
        Flow("controllers", controllers, "controllers", controllers, CONTROLLER_PORT),
        Flow("brokers", brokers, "brokers", brokers, INTERNAL_PORT),
    ]
    if cluster.operator is not None:
        source = [cluster.operator]
        found += [
            Flow("the operator", source, "controllers", controllers, CONTROLLER_PORT),
            Flow("the operator", source, "controllers", controllers, HTTP_PORT),
            Flow("the operator", source, "brokers", brokers, INTERNAL_PORT),
            Flow("the operator", source, "brokers", brokers, HTTP_PORT),
        ]
    return found + [
        Flow("clients", (), f"brokers (listener {name})", brokers, port)
        for name, port in sorted(cluster.listeners.items())
    ]


def network_results(policies: Sequence[Json], cluster: ClusterPods) -> Iterator[CheckResult]:
    """Yield a result for each needed connection that is blocked or unknown, and one for the others."""
    pods = (*cluster.brokers, *cluster.controllers)
    selecting = {
        policy["metadata"]["name"] for way in Direction for pod in pods for policy in isolating(policies, pod, way)
    }
    if not pods:
        return
    if not selecting:
        yield NETWORK_POLICIES.ok(f"no NetworkPolicy selects the pods of {cluster.name}")
        return
    bad = [result for flow in flows(cluster) for result in _judged(policies, flow)]
    bad += _names(policies, pods)
    yield from bad
    if not bad:
        who = "nodes and clients" if cluster.operator is None else "nodes, the operator and clients"
        unknown = "; the operator's pods are unknown" if cluster.operator is None else ""
        yield NETWORK_POLICIES.ok(f"{listed(sorted(selecting))}: they let {who} of {cluster.name} through{unknown}")


def _judged(policies: Sequence[Json], flow: Flow) -> Iterator[CheckResult]:
    """Judge the ends of the connections: targets that accept them, and sources in this namespace that open them."""
    answers: dict[tuple[Direction, str], list[Allowed]] = {}
    for target in flow.targets:
        port = Port(flow.port, names=target.ports)
        for source in flow.sources or (None,):
            if source is not None and source.name == target.name:
                continue
            into = allows(policies, target, Direction.INGRESS, source, port)
            answers.setdefault((Direction.INGRESS, target.name), []).append(into)
            if source is not None and source.namespace == target.namespace:
                out = allows(policies, source, Direction.EGRESS, target, port)
                answers.setdefault((Direction.EGRESS, source.name), []).append(out)
    for way in Direction:
        for answer in (Allowed.NO, Allowed.UNKNOWN):
            pods = [name for (direction, name), found in answers.items() if direction is way and answer in found]
            if pods:
                yield _result(policies, flow, way, answer, pods)


def _result(policies: Sequence[Json], flow: Flow, way: Direction, answer: Allowed, pods: Sequence[str]) -> CheckResult:
    by_name = {pod.name: pod for pod in (*flow.targets, *flow.sources)}
    names = {policy["metadata"]["name"] for pod in pods for policy in isolating(policies, by_name[pod], way)}
    chosen = f"{'policies' if len(names) > 1 else 'policy'} {listed(sorted(names))} of {listed(pods)}"
    connection = f"{flow.words} to {flow.what}, port {flow.port}"
    if answer is Allowed.UNKNOWN:
        return NETWORK_POLICIES.skipped(
            f"{chosen}: it cannot be told whether {way} lets {connection} through: a rule has an ipBlock, or selects"
            " namespaces by labels that cannot be read"
        )
    return NETWORK_POLICIES.problem(f"{chosen}: no {way} rule lets {connection} through")


def _names(policies: Sequence[Json], pods: Sequence[PodSeen]) -> Iterator[CheckResult]:
    """Judge whether nodes may ask DNS, by which they find each other."""
    ports = [Port(number, "UDP", names=None) for number in DNS_PORTS]
    blocked = [
        pod for pod in pods if all(allows(policies, pod, Direction.EGRESS, None, port) is Allowed.NO for port in ports)
    ]
    if blocked:
        flow = Flow("nodes", blocked, "DNS", (), DNS_PORTS[0])
        yield _result(policies, flow, Direction.EGRESS, Allowed.NO, [pod.name for pod in blocked])
