"""PodDisruptionBudget of the brokers: a drain takes one at a time.

Controllers have none: with a single one a budget could only forbid every drain.
"""

from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import labels, node_set_name, selector
from sluicegate_operator.resources.owner import child_metadata


def pod_disruption_budget(cluster: BrokerCluster) -> dict[str, Any]:
    role = "broker"
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": child_metadata(cluster, node_set_name(cluster.name, role), labels(cluster.name, role)),
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": selector(cluster.name, role)}},
    }
