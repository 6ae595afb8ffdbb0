"""Reads the Kubernetes nodes that pods are on. The right to do so is apart from the others: an operator may lack it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.kube.kinds import NODE

FORBIDDEN = "the operator may not get nodes; deploy/README.md says how to let it"


@dataclass(frozen=True, slots=True)
class NodeRead:
    """`found` is None where it could not be read; `unseen` says why."""

    found: Mapping[str, Any] | None
    unseen: str = ""


async def read_node(kube: KubeClient, name: str) -> NodeRead:
    """Raises KubeError for what may pass."""
    try:
        found = await kube.get(NODE, None, name)
    except KubeError as error:
        if error.retriable:
            raise
        return NodeRead(None, FORBIDDEN if error.status == 403 else str(error))
    return NodeRead(found, "" if found is not None else "there is no such node any more")
