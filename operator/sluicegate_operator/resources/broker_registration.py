"""The BrokerRegistration of one broker, without its status."""

from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.schema.metadata import API_VERSION
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.resources.owner import child_metadata


def registration_name(cluster: str, broker_id: int) -> str:
    return f"{cluster}-{broker_id}"


def broker_registration(cluster: BrokerCluster, broker_id: int) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "BrokerRegistration",
        "metadata": child_metadata(cluster, registration_name(cluster.name, broker_id), labels(cluster.name)),
        "spec": {"clusterRef": {"name": cluster.name}, "brokerId": broker_id},
    }
