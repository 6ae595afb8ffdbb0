"""Judge volume claims and their StorageClasses. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sluicegate_operator.cli.doctor.checks.catalogue import VOLUMES
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Unread, listed
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.resources.labels import CLUSTER_LABEL, node_set_name
from sluicegate_operator.resources.nodes.claim import claim_ordinal
from sluicegate_operator.resources.owner import other_controller

Json = Mapping[str, Any]


def is_claim_of_node(claim: Json) -> bool:
    """Return whether a claim with a cluster's label is one of its nodes' claims: a copy has the label as well.

    A node's claim has the name of such a claim. No other object controls it, as the operator requires.
    """
    cluster = claim["metadata"]["labels"][CLUSTER_LABEL]
    role = next((role for role in Role if claim_ordinal(claim, cluster, role) is not None), None)
    return role is not None and not other_controller(claim, node_set_name(cluster, role))


def class_names(claims: Sequence[Json]) -> list[str]:
    return sorted({name for claim in claims if (name := claim["spec"].get("storageClassName"))})


def volume_results(
    claims: Sequence[Json] | Unread, classes: Mapping[str, Json | Unread | None]
) -> Iterator[CheckResult]:
    """Yield the results about claims of nodes. `classes` has the StorageClass of each name; None if there is none."""
    if isinstance(claims, Unread):
        yield VOLUMES.skipped(f"the volume claims cannot be listed: {claims.why}")
        return
    bound = 0
    for claim in claims:
        phase = (claim.get("status") or {}).get("phase") or "Pending"
        if phase == "Bound":
            bound += 1
        else:
            of_class = claim["spec"].get("storageClassName") or "none"
            yield VOLUMES.problem(f"claim {claim['metadata']['name']} (StorageClass {of_class}) is {phase}, not Bound")
    if bound:
        yield VOLUMES.ok(f"{bound} of {len(claims)} claims are bound")
    for name, found in sorted(classes.items()):
        yield _storage_class(name, found)


def _storage_class(name: str, found: Json | Unread | None) -> CheckResult:
    if isinstance(found, Unread):
        return VOLUMES.skipped(f"StorageClass {name} cannot be read: {found.why}")
    if found is None:
        return VOLUMES.warning(f"StorageClass {name} does not exist: no further volume can be created with it")
    if not found.get("allowVolumeExpansion"):
        return VOLUMES.warning(
            f"StorageClass {name} does not allow volumes to grow: storage.size cannot be raised",
            f"kubectl patch storageclass {name} -p '{{\"allowVolumeExpansion\": true}}', if its driver can",
        )
    return VOLUMES.ok(f"StorageClass {name} allows volumes to grow")


def unread_nodes(summaries: Mapping[str, Json | Unread]) -> str:
    """Return why the statistics of Kubernetes nodes are missing; empty if all were read."""
    found = {name: summary.why for name, summary in summaries.items() if isinstance(summary, Unread)}
    return f"{listed(sorted(found))}: {next(iter(found.values()))}" if found else ""
