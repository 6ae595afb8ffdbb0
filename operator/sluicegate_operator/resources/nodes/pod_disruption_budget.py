"""PodDisruptionBudgets of brokers and of controllers: a drain evicts one of each at a time.

A broker counts as available only when its readiness gate is true. So a drain depends on the controller's view, like
rolls.
"""

from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import labels, node_set_name, selector
from sluicegate_operator.resources.owner import child_metadata


def pod_disruption_budget(cluster: BrokerCluster, role: str) -> dict[str, Any]:
    """Return the PodDisruptionBudget for the nodes of one role.

    A single controller may be evicted as well: otherwise every drain would block.
    """
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": child_metadata(cluster, node_set_name(cluster.name, role), labels(cluster.name, role)),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(cluster.name, role)}},
    }
