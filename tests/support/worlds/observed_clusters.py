"""An ObservedCluster from its fields, without the groups that they stand in."""

from dataclasses import fields
from typing import Any

from sluicegate_operator.planning.clusters.observed_cluster import (
    AccessSeen,
    ObservedCluster,
    ObstaclesSeen,
    PodsSeen,
    SettingsSeen,
    StepsSeen,
)

_GROUPS: dict[str, Any] = {
    "nodes": PodsSeen,
    "access": AccessSeen,
    "obstacles": ObstaclesSeen,
    "steps": StepsSeen,
    "settings": SettingsSeen,
}
_GROUP_OF = {each.name: group for group, kind in _GROUPS.items() for each in fields(kind)}


def observed_cluster(**facts: Any) -> ObservedCluster:
    """The cluster with these facts; each has the name of its field."""
    grouped: dict[str, dict[str, Any]] = {group: {} for group in _GROUPS}
    own = {name: fact for name, fact in facts.items() if name not in _GROUP_OF}
    for name in facts.keys() - own.keys():
        grouped[_GROUP_OF[name]][name] = facts[name]
    return ObservedCluster(**{group: kind(**grouped[group]) for group, kind in _GROUPS.items()}, **own)
