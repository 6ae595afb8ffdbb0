"""Access to each port of a node, as a network that enforces NetworkPolicies reads them."""

from collections.abc import Iterator
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, parse_resource
from sluicegate_operator.planning.layout.children import cluster_children, network_policies
from tests.support.manifests.bad_manifests import cluster, listener

Json = dict[str, Any]
SYSTEM = "sluicegate-system"


def parsed(**spec: Any) -> tuple[BrokerCluster, list[BrokerListener]]:
    of, external = parse_resource(cluster(**spec)), parse_resource(listener())
    assert isinstance(of, BrokerCluster)
    assert isinstance(external, BrokerListener)
    return of, [external]


def labels_of(role: str) -> dict[str, str]:
    """Labels of a pod, as its StatefulSet makes it."""
    sets = [child for child in cluster_children(*parsed()) if child["kind"] == "StatefulSet"]
    (found,) = [one for one in sets if one["metadata"]["name"] == f"shop-{role}s"]
    return dict(found["spec"]["template"]["metadata"]["labels"])


def admits(peer: Json, namespace: str, pod: dict[str, str]) -> bool:
    there = peer.get("namespaceSelector", {"matchLabels": {"kubernetes.io/metadata.name": "default"}})
    here = {"kubernetes.io/metadata.name": namespace}
    return bool(
        there["matchLabels"].items() <= here.items() and peer["podSelector"]["matchLabels"].items() <= pod.items()
    )


def open_ports(role: str, namespace: str, pod: dict[str, str]) -> Iterator[int]:
    for policy in network_policies(*parsed(), SYSTEM):
        if not policy["spec"]["podSelector"]["matchLabels"].items() <= labels_of(role).items():
            continue
        for rule in policy["spec"]["ingress"]:
            if "from" not in rule or any(admits(peer, namespace, pod) for peer in rule["from"]):
                yield from (port["port"] for port in rule["ports"])


@pytest.mark.parametrize(
    ("role", "who", "ports"),
    [
        ("broker", ("default", {"app": "a-client"}), {9094, 9404}),
        ("broker", ("elsewhere", {}), {9094, 9404}),
        ("broker", ("default", labels_of("broker")), {9091, 9094, 9404}),
        ("broker", ("default", labels_of("controller")), {9094, 9404}),
        ("broker", ("elsewhere", labels_of("broker")), {9094, 9404}),
        ("broker", (SYSTEM, {"app.kubernetes.io/name": "sluicegate-operator"}), {9091, 9094, 9404}),
        ("broker", ("elsewhere", {"app.kubernetes.io/name": "sluicegate-operator"}), {9094, 9404}),
        ("controller", ("default", {"app": "a-client"}), {9404}),
        ("controller", ("default", labels_of("broker")), {9093, 9404}),
        ("controller", (SYSTEM, {"app.kubernetes.io/name": "sluicegate-operator"}), {9093, 9404}),
    ],
    ids=str,
)
def test_internal_ports_are_open_for_nodes_and_the_operator_only(
    role: str, who: tuple[str, dict[str, str]], ports: set[int]
) -> None:
    assert set(open_ports(role, *who)) == ports


def test_each_node_is_meant_by_one_policy() -> None:
    policies = network_policies(*parsed(controllers={"replicas": 3}), SYSTEM)
    assert [policy["metadata"]["name"] for policy in policies] == ["shop-controllers", "shop-brokers"]
    assert all(policy["spec"]["policyTypes"] == ["Ingress"] for policy in policies)
