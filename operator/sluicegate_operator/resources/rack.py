"""What of a broker's pod has to do with racks: where it may run, and the file in which its broker reads the rack.

The file is the annotation RACK as the kubelet shows it to the pod, and empty until the operator has written it. The
broker needs no right to read nodes for it: docs/decisions/0011.
"""

from collections.abc import Mapping
from typing import Any

from sluicegate_operator.resources.labels import RACK

_VOLUME = "pod"
_MOUNT_PATH = "/etc/sluicegate-pod"
_FILE_NAME = "rack"
RACK_FILE = f"{_MOUNT_PATH}/{_FILE_NAME}"


def spread(topology_key: str, selector: Mapping[str, str]) -> dict[str, Any]:
    """Only nodes that have the label, as evenly as can be: a zone that is lost must not keep the others' pods waiting,
    and pods whose volumes are of one zone have no choice."""
    has_label = {"matchExpressions": [{"key": topology_key, "operator": "Exists"}]}
    return {
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [has_label]}}
        },
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": topology_key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": dict(selector)},
            }
        ],
    }


def rack_volume() -> dict[str, Any]:
    item = {"path": _FILE_NAME, "fieldRef": {"fieldPath": f"metadata.annotations['{RACK}']"}}
    return {"name": _VOLUME, "downwardAPI": {"items": [item]}}


def rack_mount() -> dict[str, Any]:
    return {"name": _VOLUME, "mountPath": _MOUNT_PATH, "readOnly": True}
