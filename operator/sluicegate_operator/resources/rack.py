"""Racks in a broker's pod: on which nodes it may run, and the file from which its broker reads the rack.

The file is the annotation RACK, which the kubelet projects into the pod; it is empty until the operator has written the
annotation. So the broker needs no right to read nodes: docs/decisions/0011.
"""

from typing import Any

from sluicegate_operator.resources.labels import RACK

_VOLUME = "pod"
_MOUNT_PATH = "/etc/sluicegate-pod"
_FILE_NAME = "rack"
RACK_FILE = f"{_MOUNT_PATH}/{_FILE_NAME}"


def only_nodes_with(topology_key: str) -> dict[str, Any]:
    """Return the affinity of a broker's pod to nodes with the label: a node without the label has no rack."""
    has_label = {"matchExpressions": [{"key": topology_key, "operator": "Exists"}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [has_label]}}}


def rack_volume() -> dict[str, Any]:
    item = {"path": _FILE_NAME, "fieldRef": {"fieldPath": f"metadata.annotations['{RACK}']"}}
    return {"name": _VOLUME, "downwardAPI": {"items": [item]}}


def rack_mount() -> dict[str, Any]:
    return {"name": _VOLUME, "mountPath": _MOUNT_PATH, "readOnly": True}
