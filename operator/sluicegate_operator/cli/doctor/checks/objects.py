"""Judge the Ready condition of objects. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluicegate_operator.cli.doctor.checks.catalogue import OBJECTS
from sluicegate_operator.cli.doctor.checks.results import CheckResult
from sluicegate_operator.cli.fleets.fleet_view import ShownCluster

Json = Mapping[str, Any]


def object_results(bodies: Sequence[Json]) -> Iterator[CheckResult]:
    """Yield a result for each object of Kubernetes that is not Ready, and one for the others."""
    ready = 0
    for body in bodies:
        conditions = {one["type"]: one for one in (body.get("status") or {}).get("conditions") or ()}
        found, name = conditions.get("Ready"), f"{body['kind']} {body['metadata']['name']}"
        if found is None:
            yield OBJECTS.warning(f"{name}: the operator has not reconciled it yet")
        elif found["status"] == "True":
            ready += 1
        else:
            words = f"{name} is not Ready: {found.get('reason', '')}: {found.get('message', '')}"
            is_stalled = conditions.get("Stalled", {}).get("status") == "True"
            yield OBJECTS.problem(words) if is_stalled else OBJECTS.warning(words)
    if ready or not bodies:
        yield OBJECTS.ok(f"{ready} of {len(bodies)} objects are Ready")


def row_results(clusters: Sequence[ShownCluster]) -> Iterator[CheckResult]:
    """Yield a result for each object of `sluicegate up` that is not ready, and one for the others."""
    rows = [row for cluster in clusters for row in cluster.resources]
    for row in rows:
        if not row["ready"]:
            yield OBJECTS.warning(f"{row['kind']} {row['name']} is not ready: {row['message']}")
    ready = sum(row["ready"] for row in rows)
    if ready:
        yield OBJECTS.ok(f"{ready} of {len(rows)} objects are ready")
