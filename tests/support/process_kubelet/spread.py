"""Which node a pod is put on: the scheduler's part. Pure.

Fewest pods first. A pod with topologySpreadConstraints goes to the values of the label that have fewest pods of its
selector, and back to the node that its claims are on, as with local volumes. Affinity is not looked at.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that is not lost, and the manifests of the pods on it."""

    name: str
    labels: Mapping[str, str]
    pods: Sequence[Json]


def choose_node(pod: Json, candidates: Sequence[Candidate], volumes_on: str | None = None) -> str:
    constraints = pod["spec"].get("topologySpreadConstraints", [])
    if constraints and volumes_on in {candidate.name for candidate in candidates}:
        return str(volumes_on)
    crowds = [_crowds(constraint, pod["metadata"]["namespace"], candidates) for constraint in constraints]
    return min(
        candidates,
        key=lambda candidate: (*(crowd[candidate.name] for crowd in crowds), len(candidate.pods), candidate.name),
    ).name


def _crowds(constraint: Json, namespace: str, candidates: Sequence[Candidate]) -> dict[str, int]:
    """How many pods of the selector, in this namespace, each node's value of the label has."""
    wanted = constraint["labelSelector"]["matchLabels"].items()
    by_value: dict[str, int] = {}
    for candidate in candidates:
        value = candidate.labels.get(constraint["topologyKey"], "")
        here = (p["metadata"] for p in candidate.pods if p["metadata"]["namespace"] == namespace)
        matching = sum(1 for metadata in here if wanted <= metadata.get("labels", {}).items())
        by_value[value] = by_value.get(value, 0) + matching
    return {c.name: by_value[c.labels.get(constraint["topologyKey"], "")] for c in candidates}
