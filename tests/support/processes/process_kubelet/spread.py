"""The choice of a node for a pod: the scheduler's part. Pure.

Nodes with fewest pods come first. A pod with topologySpreadConstraints goes to the label values with the fewest pods of
its selector. It goes back to the node of its claims, as with local volumes. Supported are a nodeSelector and required
anti-affinity by the node's name; no other affinity.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]

HOST = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that is not lost, and the manifests of the pods on it."""

    name: str
    labels: Mapping[str, str]
    pods: Sequence[Json]


def choose_node(pod: Json, nodes: Sequence[Candidate], volumes_on: str | None = None) -> str | None:
    """The name of the chosen node; None if no node fits the pod."""
    candidates = [node for node in nodes if _may_be_on(node, pod)]
    if not candidates:
        return None
    constraints = pod["spec"].get("topologySpreadConstraints", [])
    if constraints and volumes_on in {candidate.name for candidate in candidates}:
        return str(volumes_on)
    crowds = [_crowds(constraint, pod["metadata"]["namespace"], candidates) for constraint in constraints]
    return min(
        candidates,
        key=lambda candidate: (*(crowd[candidate.name] for crowd in crowds), len(candidate.pods), candidate.name),
    ).name


def _may_be_on(node: Candidate, pod: Json) -> bool:
    if not pod["spec"].get("nodeSelector", {}).items() <= node.labels.items():
        return False
    anti_affinity = pod["spec"].get("affinity", {}).get("podAntiAffinity", {})
    for term in anti_affinity.get("requiredDuringSchedulingIgnoredDuringExecution", []):
        assert term["topologyKey"] == HOST, "no other is played"
        if _matching(term, pod["metadata"]["namespace"], node):
            return False
    return True


def _matching(term: Json, namespace: str, node: Candidate) -> int:
    """Number of pods of the term's selector, in this namespace, on the node."""
    wanted = term["labelSelector"]["matchLabels"].items()
    here = (pod["metadata"] for pod in node.pods if pod["metadata"]["namespace"] == namespace)
    return sum(1 for metadata in here if wanted <= metadata.get("labels", {}).items())


def _crowds(constraint: Json, namespace: str, candidates: Sequence[Candidate]) -> dict[str, int]:
    """By node, the number of pods of the selector, in this namespace, with the node's value of the label."""
    by_value: dict[str, int] = {}
    for candidate in candidates:
        value = candidate.labels.get(constraint["topologyKey"], "")
        by_value[value] = by_value.get(value, 0) + _matching(constraint, namespace, candidate)
    return {c.name: by_value[c.labels.get(constraint["topologyKey"], "")] for c in candidates}
