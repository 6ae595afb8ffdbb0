"""Placement of the pods of one role: Kubernetes fields for `PodSettings` and the brokers' racks.

By default, pods are spread as evenly as possible, but not by force. A lost node or zone must not keep other pods
waiting, pods with volumes in one zone have no choice, and a cluster may have one node. Required is an anti-affinity,
because a spread constraint lets pods share a node once every node has one.
"""

from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.models.parts.pod_settings import PodSettings
from sluicegate_operator.resources.rack import only_nodes_with

Json = dict[str, Any]

NODE = "kubernetes.io/hostname"


def placement(settings: PodSettings, pods: Mapping[str, str], topology_key: str | None) -> Json:
    """Return the fields of a pod's spec that place it on nodes.

    `pods` is the selector of the role's pods, `topology_key` the label of their racks.
    """
    affinity = only_nodes_with(topology_key) if topology_key is not None else {}
    spread_over = [topology_key] if topology_key is not None else []
    if settings.spread == "Required":
        affinity |= _never_on_one(NODE, pods)
    elif settings.spread == "Preferred":
        spread_over.append(NODE)
    fields: Json = {
        "affinity": affinity,
        "topologySpreadConstraints": [_evenly_over(key, pods) for key in dict.fromkeys(spread_over)],
        "nodeSelector": dict(settings.node_selector or {}),
        "tolerations": [one.model_dump(by_alias=True, exclude_none=True) for one in settings.tolerations or ()],
        "priorityClassName": settings.priority_class_name,
    }
    return {name: field for name, field in fields.items() if field}


def _evenly_over(topology_key: str, pods: Mapping[str, str]) -> Json:
    return {
        "maxSkew": 1,
        "topologyKey": topology_key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(pods)},
    }


def _never_on_one(topology_key: str, pods: Mapping[str, str]) -> Json:
    term = {"topologyKey": topology_key, "labelSelector": {"matchLabels": dict(pods)}}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
