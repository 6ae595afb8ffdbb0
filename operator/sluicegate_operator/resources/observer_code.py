"""Volumes of broker pods for observers: the ConfigMap with code, wheels on a claim, and Secrets.

See planning.observers.observer_code.
"""

from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.resources.owner import child_metadata

OBSERVERS_PATH = "/opt/sluicegate/observers"
WHEELS_PATH = "/opt/sluicegate/wheels"
SECRETS_PATH = "/etc/sluicegate-observers"
_VOLUME, _WHEELS_VOLUME = "observers", "observer-wheels"


def observer_code_name(cluster: str) -> str:
    return f"{cluster}-observers"


def observer_code(cluster: BrokerCluster, files: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": child_metadata(cluster, observer_code_name(cluster.name), labels(cluster.name, "broker")),
        "data": dict(sorted(files.items())),
    }


def observer_volumes(cluster: BrokerCluster) -> list[dict[str, Any]]:
    """Return the volumes with observers' code.

    The ConfigMap and the Secrets are optional, so brokers start without them.
    """
    volumes: list[dict[str, Any]] = []
    if cluster.spec.allows_config_map_code:
        config_map = {"name": observer_code_name(cluster.name), "optional": True}
        volumes.append({"name": _VOLUME, "configMap": config_map})
    if cluster.spec.observers is not None and cluster.spec.observers.wheels is not None:
        claim = {"claimName": cluster.spec.observers.wheels.claim_name, "readOnly": True}
        volumes.append({"name": _WHEELS_VOLUME, "persistentVolumeClaim": claim})
    for volume, name in _secrets(cluster):
        volumes.append({"name": volume, "secret": {"secretName": name, "optional": True}})
    return volumes


def observer_mounts(cluster: BrokerCluster) -> list[dict[str, Any]]:
    paths = {_VOLUME: OBSERVERS_PATH, _WHEELS_VOLUME: WHEELS_PATH}
    paths |= {volume: f"{SECRETS_PATH}/{name}" for volume, name in _secrets(cluster)}
    names = [volume["name"] for volume in observer_volumes(cluster)]
    return [{"name": name, "mountPath": paths[name], "readOnly": True} for name in names]


def _secrets(cluster: BrokerCluster) -> list[tuple[str, str]]:
    """Return volume name and Secret name of each; a Secret's name may be too long for a volume."""
    return [(f"observer-secret-{number}", name) for number, name in enumerate(cluster.spec.observer_secrets)]


def observer_python_path(cluster: BrokerCluster) -> str:
    """Return the import path of observers beside the image; empty without such observers."""
    modules = [OBSERVERS_PATH] if cluster.spec.allows_config_map_code else []
    return ":".join([*modules, *(f"{WHEELS_PATH}/{file}" for file in cluster.spec.observer_wheels)])
