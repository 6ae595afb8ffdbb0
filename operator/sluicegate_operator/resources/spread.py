"""Pods of one role on different nodes, and on different racks where brokers have them.

As evenly as can be, and no more: a node or zone that is lost must not keep the others' pods waiting, pods whose volumes
are of one zone have no choice, and a cluster may have one node.
"""

from collections.abc import Mapping
from typing import Any

NODE = "kubernetes.io/hostname"


def spread_over(topology_key: str, selector: Mapping[str, str]) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": topology_key,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": dict(selector)},
    }
