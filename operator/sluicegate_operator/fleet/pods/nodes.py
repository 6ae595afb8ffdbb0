"""Read the Kubernetes nodes of pods. The operator may lack this right, which is separate from the others."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.fleet.pods.pods import NodePod
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.client.one_by_one import concerns_all
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import NODE
from sluicegate_operator.planning.rolls.lost_nodes import LostNode, why_not_ready

FORBIDDEN = "the operator is not allowed to get nodes; deploy/README.md describes how to allow it"


@dataclass(frozen=True, slots=True)
class NodeRead:
    """The result of reading a Kubernetes node.

    `found` is None if the node could not be read; `unseen` says why. `may_pass`: the next attempt may be accepted.
    """

    found: Mapping[str, Any] | None
    unseen: str = ""
    is_gone: bool = False
    may_pass: bool = False


async def read_node(kube: KubeClient, name: str) -> NodeRead:
    """Read one Kubernetes node.

    Raises KubeError only for an error that concerns all nodes, so that a refused node does not block others.
    """
    try:
        found = await kube.get(NODE, None, name)
    except KubeError as error:
        if concerns_all(error):
            raise
        forbidden = error.status == 403 and not error.retriable
        return NodeRead(None, FORBIDDEN if forbidden else str(error), may_pass=error.retriable)
    if found is None:
        return NodeRead(None, "the node does not exist any more", is_gone=True)
    return NodeRead(found)


async def lost_nodes(kube: KubeClient, pods: Sequence[NodePod]) -> tuple[LostNode, ...]:
    """Return the Kubernetes nodes of these pods that are NotReady or gone, by name.

    A pod's state only hints at that, and for a moment so does a pod that has just become ready: the Node is read.
    Nothing is returned for a Node that cannot be read. Raises KubeError for an error that concerns all Nodes.
    """
    on: dict[str, list[str]] = {}
    for pod in sorted(pods, key=lambda pod: pod.node_id):
        if pod.node_lost and pod.node:
            on.setdefault(pod.node, []).append(f"{pod.role} {pod.node_id}")
    read = await asyncio.gather(*(read_node(kube, name) for name in sorted(on)))
    lost = []
    for name, node in zip(sorted(on), read, strict=True):
        why = why_not_ready(node.found) if node.found is not None else ""
        if why or node.is_gone:
            lost.append(LostNode(name, why, tuple(on[name])))
    return tuple(lost)
