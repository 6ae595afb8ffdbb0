"""NetworkPolicies: which clients may connect to the nodes of a cluster.

Client listeners are open to all clients, and so are metrics and probes. Connections between nodes are open only to
nodes of this cluster and to the operator. Any other client could fence brokers or bypass the limits of every listener.
The policies work if the cluster's network enforces NetworkPolicies. They do not restrict outgoing connections.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import MANAGER, selector
from sluicegate_operator.resources.nodes.statefulset import BROKER, node_set_metadata


@dataclass(frozen=True, slots=True)
class OpenPorts:
    """Open ports of the nodes of one role.

    `to_all` are open to everyone, `within` to the cluster's brokers and the operator.
    """

    role: str
    to_all: Sequence[int]
    within: Sequence[int]


def network_policy(cluster: BrokerCluster, ports: OpenPorts, operator_namespace: str) -> dict[str, Any]:
    # Controllers connect only to other controllers, from standby to active (decision 15).
    roles = dict.fromkeys((BROKER, ports.role)) if cluster.spec.shares_journal else (BROKER,)
    nodes = [{"podSelector": {"matchLabels": selector(cluster.name, role)}} for role in roles]
    operator = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": operator_namespace}},
        "podSelector": {"matchLabels": {"app.kubernetes.io/name": MANAGER}},
    }
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": node_set_metadata(cluster, ports.role),
        "spec": {
            "podSelector": {"matchLabels": selector(cluster.name, ports.role)},
            "policyTypes": ["Ingress"],
            "ingress": [
                {"from": [*nodes, operator], "ports": _ports(ports.within)},
                {"ports": _ports(ports.to_all)},
            ],
        },
    }


def _ports(ports: Sequence[int]) -> list[dict[str, Any]]:
    return [{"port": port, "protocol": "TCP"} for port in ports]
