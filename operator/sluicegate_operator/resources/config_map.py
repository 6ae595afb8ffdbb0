"""ConfigMaps with the properties that all nodes of a role share.

Each is named by a hash of its content and is immutable. So a pod keeps the file that it was created with, even if its
container restarts before the pod is replaced. fleet.pods.config_maps describes when one is deleted.
"""

import hashlib
import re
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import labels, node_set_name
from sluicegate_operator.resources.owner import child_metadata

FILE_NAME = "server.properties"
_DIGITS = 10


def config_map_name(cluster: str, role: str, properties: str) -> str:
    return f"{node_set_name(cluster, role)}-{hashlib.sha256(properties.encode()).hexdigest()[:_DIGITS]}"


def is_config_map_name(name: str, cluster: str, role: str) -> bool:
    """Return whether `config_map_name` gives such names to the ConfigMaps of the role."""
    return re.fullmatch(rf"{re.escape(node_set_name(cluster, role))}-[0-9a-f]{{{_DIGITS}}}", name) is not None


def config_map(cluster: BrokerCluster, role: str, properties: str) -> dict[str, Any]:
    """Return the ConfigMap of a role's nodes. `properties` is the text of their file."""
    name = config_map_name(cluster.name, role, properties)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(cluster, name, labels(cluster.name, role)),
        "data": {FILE_NAME: properties},
        "immutable": True,
    }
