"""The ConfigMap with the code of observers, and how broker pods have it. See planning.observer_code."""

from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.resources.owner import child_metadata

OBSERVERS_PATH = "/opt/sluicegate/observers"
_VOLUME = "observers"


def observer_code_name(cluster: str) -> str:
    return f"{cluster}-observers"


def observer_code(cluster: BrokerCluster, files: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(cluster, observer_code_name(cluster.name), labels(cluster.name, "broker")),
        "data": dict(sorted(files.items())),
    }


def observer_volume(cluster: str) -> dict[str, Any]:
    """Brokers start without it, too."""
    return {"name": _VOLUME, "configMap": {"name": observer_code_name(cluster), "optional": True}}


def observer_mount() -> dict[str, Any]:
    return {"name": _VOLUME, "mountPath": OBSERVERS_PATH, "readOnly": True}
