"""PodDisruptionBudgets of brokers and of controllers: a drain takes one of each at a time.

A broker counts as there only when its readiness gate is open, so a drain waits for the controller's word as rolls do.
"""

from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import labels, node_set_name, selector
from sluicegate_operator.resources.owner import child_metadata


def pod_disruption_budget(cluster: BrokerCluster, role: str) -> dict[str, Any]:
    """A single controller may go as well: forbidding it would forbid every drain."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": child_metadata(cluster, node_set_name(cluster.name, role), labels(cluster.name, role)),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(cluster.name, role)}},
    }
