"""Describe brokers and controllers on lost Kubernetes nodes, for the status of their cluster. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NODE_NOT_READY = "NodeNotReady"
"""Reason of the cluster's conditions about lost Kubernetes nodes."""
_SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class LostNode:
    """A lost Kubernetes node with its brokers and controllers, for example "broker 1".

    `why`: empty if the Node object is gone.
    """

    name: str
    why: str
    lost: tuple[str, ...]


def why_not_ready(node: Mapping[str, Any]) -> str:
    """Return reason and message of a Node's Ready condition; empty while the condition is True."""
    conditions = (node.get("status") or {}).get("conditions") or ()
    ready = next((condition for condition in conditions if condition["type"] == "Ready"), None)
    if ready is None or ready["status"] == "True":
        return ""
    message = (ready.get("message") or "").rstrip(".")
    return f"{ready.get('reason') or 'NotReady'}: {message}" if message else ready.get("reason") or "NotReady"


def lost_words(nodes: Sequence[LostNode]) -> str:
    """Return one sentence about all lost nodes, with what to do; empty without any."""
    if not nodes:
        return ""
    parts = [_words(node) for node in nodes[:_SHOWN_MAX]]
    more = [f"{len(nodes) - _SHOWN_MAX} more nodes are lost"] if len(nodes) > _SHOWN_MAX else []
    todo = "restore the node; if its machine is permanently lost, delete the Node, and Kubernetes replaces the pods"
    return "; ".join([*parts, *more, todo])


def _words(node: LostNode) -> str:
    shown = ", ".join(node.lost[:_SHOWN_MAX])
    if len(node.lost) > _SHOWN_MAX:
        shown += f" and {len(node.lost) - _SHOWN_MAX} more"
    away = f"{shown} {'is' if len(node.lost) == 1 else 'are'} lost"
    return (
        f"{away}: node {node.name} is NotReady ({node.why})" if node.why else f"{away}: node {node.name} does not exist"
    )
