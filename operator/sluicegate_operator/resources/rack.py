"""What of a broker's pod has to do with racks: where it may run, and the file in which its broker reads the rack.

The file is the annotation RACK as the kubelet shows it to the pod, and empty until the operator has written it. The
broker needs no right to read nodes for it: docs/decisions/0011.
"""

from typing import Any

from sluicegate_operator.resources.labels import RACK

_VOLUME = "pod"
_MOUNT_PATH = "/etc/sluicegate-pod"
_FILE_NAME = "rack"
RACK_FILE = f"{_MOUNT_PATH}/{_FILE_NAME}"


def only_nodes_with(topology_key: str) -> dict[str, Any]:
    """Affinity of a broker's pod: a node without the label has no rack to tell."""
    has_label = {"matchExpressions": [{"key": topology_key, "operator": "Exists"}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [has_label]}}}


def rack_volume() -> dict[str, Any]:
    item = {"path": _FILE_NAME, "fieldRef": {"fieldPath": f"metadata.annotations['{RACK}']"}}
    return {"name": _VOLUME, "downwardAPI": {"items": [item]}}


def rack_mount() -> dict[str, Any]:
    return {"name": _VOLUME, "mountPath": _MOUNT_PATH, "readOnly": True}
