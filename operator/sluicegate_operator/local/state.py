"""state.json: what runs, and what is said of each resource, for `sluicegate status`. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from sluicegate_operator.api import ConnectionQuota, Resource
from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.engine.progress import ClusterProgress
from sluicegate_operator.local.nodes import LocalNodes, Progress
from sluicegate_operator.planning.cluster_layout import Role

Nodes = Sequence[Mapping[str, Any]]
"""As the fleet describes them."""


def resource_row(resource: Resource) -> dict[str, Any]:
    """Its Ready condition, which is the operator's; of what nobody does here, why."""
    row = {"kind": resource.kind, "name": resource.name}
    if said := KINDS[resource.kind].not_on_laptop:
        return {**row, "ready": True, "message": said}
    ready = resource.status.condition("Ready")
    if ready is None:
        return {**row, "ready": False, "message": "not looked at yet"}
    return {**row, "ready": ready.status == "True", "message": ready.message + _observed(resource)}


def _observed(resource: Resource) -> str:
    """What mode Observe has counted."""
    found = resource.status.observed if isinstance(resource, ConnectionQuota) else None
    return "" if found is None else f"; {found.would_hold} connections would have been held ({found.brokers} brokers)"


def cluster_row(name: str, nodes: Nodes, going_on: Mapping[str, Progress]) -> dict[str, Any]:
    up = sum(node["pid"] is not None for node in nodes)
    brokers = sum(node["role"] == Role.BROKER for node in nodes)
    messages = [progress.message for progress in going_on.values() if progress.message]
    sentence = f"{brokers} brokers, {up} of {len(nodes)} processes run"
    ready = bool(nodes) and up == len(nodes) and not messages
    return {"kind": "BrokerCluster", "name": name, "ready": ready, "message": "; ".join([sentence, *messages])}


def progress_of(nodes: LocalNodes, progress: ClusterProgress) -> dict[str, Progress]:
    """What is under way, by what `sluicegate status` calls it."""
    behind = [f"broker {broker_id}: {why}" for broker_id, why in progress.config_lagging.items()]
    sentence = "; ".join([*behind, *([progress.config_refused] if progress.config_refused else [])])
    config = Progress("Lagging", sentence) if sentence else Progress()
    return {"roll": nodes.roll, "scale": nodes.scale, "config": config}
