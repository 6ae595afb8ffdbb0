"""Looks at the volume claims that nodes will get: marks those of a cluster with its id, has them grow with
spec.storage, and lets them go with the cluster.

Nobody here deletes a claim: the garbage collector does, when the owner that was written into it is gone. That may be so
already when it is written.
"""

import logging
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.errors import ClaimsTakenError, KubeConflictError, KubeError, NamespaceGoingError
from sluicegate_operator.kube.kinds import PERSISTENT_VOLUME_CLAIM
from sluicegate_operator.planning.claims import Claim, misowned, plan_claims
from sluicegate_operator.planning.cluster_layout import Role, cluster_id
from sluicegate_operator.planning.volumes import Volume, VolumesPlan, VolumesSeen, plan_volumes, volumes_seen
from sluicegate_operator.resources.claim import volume_claim
from sluicegate_operator.resources.labels import CLUSTER_ID, node_set_name
from sluicegate_operator.resources.owner import owner_reference
from sluicegate_operator.resources.statefulset import CLAIM

log = logging.getLogger(__name__)

_NONE: Mapping[Role, Mapping[str, Any] | None] = {}
_REFUSED = (403, 422)
"""Of an API server that will not let a claim grow."""
_RESIZING = (
    "Resizing",
    "FileSystemResizePending",
    "ControllerResizeError",
    "NodeResizeError",
)
"""Conditions of a claim, as Kubernetes names them."""


async def look_after_claims(
    kube: KubeClient,
    cluster: BrokerCluster,
    broker_count: int,
    *,
    started: bool,
    node_sets: Mapping[Role, Mapping[str, Any] | None] = _NONE,
) -> VolumesSeen:
    """`node_sets`: the StatefulSets that are there. Raises ClaimsTakenError when nodes would get another cluster's
    data, and KubeError."""
    found = await _claims(kube, cluster)
    plan = plan_claims(cluster, [claim for claim, _ in found], broker_count, started=started)
    if plan.taken:
        raise ClaimsTakenError(plan.taken)
    for claim in plan.unmarked:
        mark, as_seen = {"annotations": {CLUSTER_ID: cluster_id(cluster)}}, {"uid": claim.uid}
        await kube.patch_metadata(PERSISTENT_VOLUME_CLAIM, cluster.namespace, claim.name, mark, as_seen)
    if plan.misowned:
        # Read anew, as some have just been marked.
        await own_claims(kube, cluster)
    counts = {Role.BROKER: broker_count, Role.CONTROLLER: cluster.spec.controller_count}
    sizes = {role: template_size(node_set) for role, node_set in node_sets.items() if node_set is not None}
    return await _grow(kube, cluster, plan_volumes(cluster, [_volume(*one) for one in found], counts, sizes))


def template_size(node_set: Mapping[str, Any]) -> str:
    """What the claims are asked to hold that a StatefulSet makes."""
    size: str = node_set["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"]
    return size


def keep_template_size(child: Mapping[str, Any], node_set: Mapping[str, Any]) -> dict[str, Any]:
    """`child` as it can be applied to the StatefulSet that is there, whose claims nobody can change."""
    [template] = child["spec"]["volumeClaimTemplates"]
    resources = {"requests": {"storage": template_size(node_set)}}
    kept = {**template, "spec": {**template["spec"], "resources": resources}}
    return {**child, "spec": {**child["spec"], "volumeClaimTemplates": [kept]}}


async def _grow(kube: KubeClient, cluster: BrokerCluster, plan: VolumesPlan) -> VolumesSeen:
    """Each claim is asked, whatever became of the others: one may be of another StorageClass, or bound by hand."""
    grown, refused = [], dict[str, str]()
    for growth in plan.grow:
        volume = growth.volume
        try:
            await kube.patch_metadata(
                PERSISTENT_VOLUME_CLAIM,
                cluster.namespace,
                volume.claim,
                {},
                {"uid": volume.uid},
                spec={"resources": {"requests": {"storage": growth.size}}},
            )
        except KubeError as error:
            if isinstance(error, NamespaceGoingError) or error.status not in _REFUSED:
                raise
            refused[volume.claim] = str(error)
        else:
            grown.append(growth)
    for new in plan.make:
        claim = volume_claim(cluster, new.role.value, new.ordinal, new.storage, cluster_id(cluster))
        try:
            await kube.create(PERSISTENT_VOLUME_CLAIM, cluster.namespace, claim)
        except KubeConflictError as conflict:
            # One that is going has the name still, or the StatefulSet was first.
            log.info("a volume claim of cluster %s is not made: %s", cluster.name, conflict)
    return volumes_seen(cluster, plan, grown, refused)


async def own_claims(kube: KubeClient, cluster: BrokerCluster) -> None:
    """Of the claims with the cluster's data: they go with it, or they do not, as spec.storage says. `cluster` may be
    gone. Raises KubeError; what somebody else writes at the same time is left for the next look."""
    found = await _claims(kube, cluster)
    wrong = misowned(cluster, [claim for claim, _ in found])
    for claim, item in found:
        if claim not in wrong:
            continue
        meta = item["metadata"]
        others = [owner for owner in meta.get("ownerReferences") or () if owner["uid"] != cluster.metadata.uid]
        owners = [*others, _owner(cluster)] if cluster.spec.deletes_claims else others
        seen = {key: meta[key] for key in ("uid", "resourceVersion")}
        try:
            fields = {"ownerReferences": owners}
            await kube.patch_metadata(PERSISTENT_VOLUME_CLAIM, cluster.namespace, claim.name, fields, seen)
        except KubeConflictError as conflict:
            log.info("volume claim %s is not owned yet: %s", claim.name, conflict)


def _owner(cluster: BrokerCluster) -> dict[str, Any]:
    """One of several: the StatefulSet's controller adds its own, and nothing waits for the claim to go."""
    own = owner_reference(cluster)
    return {key: own[key] for key in ("apiVersion", "kind", "name", "uid")}


async def _claims(kube: KubeClient, cluster: BrokerCluster) -> list[tuple[Claim, Mapping[str, Any]]]:
    found = await kube.cache.list(PERSISTENT_VOLUME_CLAIM, cluster.namespace, cluster.name)
    return [(claim, item) for item in found if (claim := _claim(cluster.name, item)) is not None]


def _volume(claim: Claim, found: Mapping[str, Any]) -> Volume:
    spec, status = found["spec"], found.get("status") or {}
    under_way = [one for one in status.get("conditions") or () if one["type"] in _RESIZING and one["status"] == "True"]
    shown = "; ".join(f"{one['type']} {one.get('message') or ''}".strip() for one in under_way)
    bound = status.get("phase") == "Bound"
    return Volume(
        claim.name,
        claim.uid,
        claim.role,
        claim.ordinal,
        spec["resources"]["requests"]["storage"],
        status["capacity"]["storage"] if bound else "",
        spec.get("storageClassName") or "",
        shown,
    )


def _claim(cluster: str, found: Mapping[str, Any]) -> Claim | None:
    """None for what no node gets, and for what is going: its node waits until it is gone, and gets a new one."""
    meta = found["metadata"]
    if meta.get("deletionTimestamp"):
        return None
    for role in Role:
        match = re.fullmatch(rf"{CLAIM}-{re.escape(node_set_name(cluster, role))}-([0-9]+)", meta["name"])
        if match is not None:
            created = datetime.fromisoformat(meta["creationTimestamp"])
            noted = (meta.get("annotations") or {}).get(CLUSTER_ID)
            owners = frozenset(str(owner["uid"]) for owner in meta.get("ownerReferences") or ())
            return Claim(meta["name"], meta["uid"], role, int(match[1]), created, noted, owners)
    return None
