"""Which kinds of ours an API server serves: their CRDs may come after the operator, and go."""

from collections.abc import Collection

from sluicegate_operator.api.metadata import API_VERSION, GROUP
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.kinds import Kind


async def served_kinds(kube: KubeClient, kinds: Collection[Kind]) -> frozenset[Kind]:
    """Those of `kinds`, all of our group, that can be listed and watched now. Raises KubeError.

    The list of groups is asked as well: kopf finds kinds by it, and a new group comes into it last.
    """
    groups = await kube.read("/apis") or {}
    if GROUP not in [group["name"] for group in groups.get("groups", ())]:
        return frozenset()
    found = await kube.read(f"/apis/{API_VERSION}") or {}
    names = {resource["name"] for resource in found.get("resources", ())}
    return frozenset(kind for kind in kinds if kind.plural in names)
