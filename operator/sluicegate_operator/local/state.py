"""state.json for `sluicegate status`: the processes, the resources and the progress of rolls and scale. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.api import ConnectionQuota, Resource
from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.rolls.roll import Restart, RollStep, WaitForNodes
from sluicegate_operator.planning.rolls.scale import ScaleReason

Json = dict[str, Any]
Nodes = Sequence[Mapping[str, Any]]
"""The nodes of a cluster, as described by the fleet."""


def resource_row(resource: Resource) -> dict[str, Any]:
    """Return a row with the resource's Ready condition.

    For a kind that only Kubernetes has, the row has the reason why nothing is done.
    """
    row = {"kind": resource.kind, "name": resource.name}
    if said := KINDS[resource.kind].not_on_laptop:
        return {**row, "ready": True, "message": said}
    ready = resource.status.condition("Ready")
    if ready is None:
        return {**row, "ready": False, "message": "not reconciled yet"}
    return {**row, "ready": ready.status == "True", "message": ready.message + _observed(resource)}


def _observed(resource: Resource) -> str:
    """Return the number of connections that mode Observe has counted, in words."""
    found = resource.status.observed if isinstance(resource, ConnectionQuota) else None
    return (
        ""
        if found is None
        else f"; {found.would_hold} connections would have been delayed or rejected ({found.brokers} brokers)"
    )


def cluster_row(name: str, nodes: Nodes, progress: Mapping[str, Json]) -> dict[str, Any]:
    up = sum(node["pid"] is not None for node in nodes)
    brokers = sum(node["role"] == Role.BROKER for node in nodes)
    messages = [one["message"] for one in progress.values() if one["message"]]
    sentence = f"{brokers} brokers, {up} of {len(nodes)} processes run"
    ready = bool(nodes) and up == len(nodes) and not messages
    return {"kind": "BrokerCluster", "name": name, "ready": ready, "message": "; ".join([sentence, *messages])}


def progress_of(progress: ClusterProgress) -> dict[str, Json]:
    """Return the work in progress, by its name in `sluicegate status`. A message is empty without work."""
    behind = [f"broker {broker_id}: {why}" for broker_id, why in progress.config_lagging.items()]
    sentence = "; ".join([*behind, *([progress.config_refused] if progress.config_refused else [])])
    scale = progress.scale
    return {
        "roll": _roll(progress.roll),
        "scale": _shown(str(scale.reason), scale.message) if scale is not None and scale.message else _shown(),
        "config": _shown("Lagging", sentence) if sentence else _shown(),
    }


def _roll(step: RollStep | None) -> Json:
    match step:
        case Restart():
            return _shown("Rolling", f"restarting {', '.join(node.name for node in step.nodes)}", step.waiting)
        case WaitForNodes():
            return _shown("Blocked" if step.blocked else "Rolling", step.message, step.waiting)
    return _shown()


def _shown(phase: str = "", message: str = "", waiting: Sequence[str] = ()) -> Json:
    return {"phase": phase, "message": message, "waiting": list(waiting)}


@dataclass(slots=True)
class ProgressLines:
    """The lines for the terminal about the end of a roll, and about a scale that waits. Each change is one line."""

    _rolling: bool = False
    _scale: str = ""

    def news(self, progress: ClusterProgress) -> list[str]:
        lines = []
        if self._rolling and progress.rolling is False:
            lines.append("the roll is complete: every node runs as its manifest says")
        self._rolling = bool(progress.rolling)
        step = progress.scale
        shown = step is not None and (step.blocked or step.reason is ScaleReason.UNREGISTERING)
        sentence = step.message if step is not None and shown else ""
        if sentence and sentence != self._scale:
            lines.append(sentence)
        self._scale = sentence
        return lines
