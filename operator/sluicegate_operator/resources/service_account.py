"""The ServiceAccount of the pods: it has no rights, and no token is mounted."""

from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import labels, service_account_name
from sluicegate_operator.resources.owner import child_metadata


def service_account(cluster: BrokerCluster) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": child_metadata(cluster, service_account_name(cluster.name), labels(cluster.name)),
        "automountServiceAccountToken": False,
    }
