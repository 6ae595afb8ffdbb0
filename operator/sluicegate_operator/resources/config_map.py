"""ConfigMap with the properties that all nodes of a role share."""

from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import labels, node_set_name
from sluicegate_operator.resources.owner import child_metadata

FILE_NAME = "server.properties"


def config_map(cluster: BrokerCluster, role: str, properties: str) -> dict[str, Any]:
    """`properties` is the text of the file."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(cluster, node_set_name(cluster.name, role), labels(cluster.name, role)),
        "data": {FILE_NAME: properties},
    }
