"""Manage the volume claims of nodes.

The module creates missing claims, annotates a cluster's claims with its id, and grows them with spec.storage. It sets
their owner if they are to be deleted with the cluster. Claims of other owners are left alone. The operator never
deletes a claim: the garbage collector does, when the claim's owner is gone. The owner may already be gone when it is
written.
"""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import (
    ClaimsTakenError,
    KubeConflictError,
    KubeError,
    NamespaceGoingError,
    refusal,
)
from sluicegate_operator.kube.http.kinds import PERSISTENT_VOLUME_CLAIM, STATEFUL_SET
from sluicegate_operator.planning.clusters.claims import ClaimsPlan, VolumeClaim, misowned, plan_claims
from sluicegate_operator.planning.layout.cluster_layout import Role, cluster_id
from sluicegate_operator.planning.layout.volumes import (
    SENTENCE_MAX,
    NewVolume,
    Volume,
    VolumesPlan,
    VolumesSeen,
    plan_volumes,
    volumes_seen,
)
from sluicegate_operator.resources.labels import CLUSTER_ID, CLUSTER_LABEL, node_set_name, selector
from sluicegate_operator.resources.nodes.claim import claim_ordinal, claim_owner, volume_claim
from sluicegate_operator.resources.nodes.statefulset import CLAIM, CLAIMS_STAY
from sluicegate_operator.resources.owner import other_controller

log = logging.getLogger(__name__)

_NONE: Mapping[Role, Mapping[str, Any] | None] = {}
_REFUSED = (403, 422)
"""Status codes with which an API server refuses to create a claim or to let it grow."""
_RESIZING = (
    "Resizing",
    "FileSystemResizePending",
    "ControllerResizeError",
    "NodeResizeError",
)
"""Conditions of a claim, as Kubernetes names them."""


@dataclass(frozen=True, slots=True)
class ClaimsSeen:
    """The volume claims of a cluster after a reconcile.

    `make`: claims that nodes need and that do not exist; see `make_claims`. `retried`: a refusal to change a claim that
    may pass. Nodes can use such a claim, so they do not wait for the change.
    """

    volumes: VolumesSeen
    make: tuple[NewVolume, ...] = ()
    retried: KubeError | None = None


async def reconcile_claims(
    kube: KubeClient,
    cluster: BrokerCluster,
    broker_count: int,
    *,
    started: bool,
    node_sets: Mapping[Role, Mapping[str, Any] | None] = _NONE,
) -> ClaimsSeen:
    """Annotate and grow the claims that the cluster's nodes need, and return their state.

    `node_sets` has the StatefulSets that exist. Raises ClaimsTakenError if nodes would mount claims of other owners or
    another cluster's data. Raises KubeError, but not for a refusal to change one claim.
    """
    counts = {Role.BROKER: broker_count, Role.CONTROLLER: cluster.spec.controller_count}
    found, going = await _needed_claims(kube, cluster, counts)
    plan = plan_claims(cluster, [claim for claim, _ in found], broker_count, started=started)
    if plan.taken:
        await _keep_with_others(kube, cluster, node_sets)
        raise ClaimsTakenError(plan.taken)
    refusals = Refusals()
    refused = await _mark(kube, cluster, plan, refusals)
    if plan.misowned:
        with refusals.kept():
            # Read again, because some have just been annotated.
            refused.append(await refusal(own_claims(kube, cluster)))
    refused = [why for why in refused if why]
    volumes = plan_volumes(cluster, [_volume(*one) for one in found], counts, going)
    seen = await _grow(kube, cluster, volumes, refusals)
    if refused and not seen.refused:
        # Nodes can use such a claim, so they do not wait for it.
        sentence = f"the API server refuses to change volume claims; allow the operator to: {'; '.join(refused)}"
        seen = replace(seen, refused=sentence[:SENTENCE_MAX])
    return ClaimsSeen(seen, volumes.make, refusals.first)


async def make_claims(kube: KubeClient, cluster: BrokerCluster, new: Iterable[NewVolume]) -> None:
    """Create claims that have the annotation `cluster-id`, which claims of the StatefulSet lack.

    If a create fails, the other claims are created first, and then the KubeError is raised: KubeConflictError if a
    claim of the name exists by now. A refusal for good, such as that of a quota, is only logged: the StatefulSet meets
    the same refusal, and its Events report it. But an API server asks its quotas before it looks for the name: the
    claim that exhausts the quota may be another client's with this name, which the StatefulSet would mount.
    """
    refusals = Refusals()
    for one in new:
        claim = volume_claim(cluster, one.role.value, one.ordinal, one.storage, cluster_id(cluster))
        try:
            await kube.create(PERSISTENT_VOLUME_CLAIM, cluster.namespace, claim)
        except KubeError as error:
            if isinstance(error, NamespaceGoingError) or error.status not in _REFUSED:
                refusals.keep(error)
                continue
            # A quota, for example. The StatefulSet is refused alike, and its Events reach the status.
            log.info("a volume claim of cluster %s was not created: %s", cluster.name, error)
            with refusals.kept():
                await _check_free(kube, cluster, claim["metadata"]["name"])
    refusals.raise_first()


async def _check_free(kube: KubeClient, cluster: BrokerCluster, name: str) -> None:
    """Raise KubeConflictError if a claim with that name exists: the next reconcile finds out whose it is."""
    if await kube.get(PERSISTENT_VOLUME_CLAIM, cluster.namespace, name) is not None:
        raise KubeConflictError(f"volume claim {name} exists by now")


async def _needed_claims(
    kube: KubeClient, cluster: BrokerCluster, counts: Mapping[Role, int]
) -> tuple[list[tuple[VolumeClaim, Mapping[str, Any]]], set[tuple[Role, int]]]:
    """Return the needed claims, and the nodes whose claim is being deleted, by role and ordinal.

    The needed claims are those with the cluster's label, and those without it whose names nodes need. Only the latter
    are read by name, because the cache does not contain them.
    """
    found = await _claims(kube, cluster)
    there = {(claim.role, claim.ordinal) for claim, _ in found}
    missing = [(role, ordinal) for role in Role for ordinal in range(counts[role]) if (role, ordinal) not in there]
    names = (f"{CLAIM}-{node_set_name(cluster.name, role)}-{ordinal}" for role, ordinal in missing)
    bodies = await asyncio.gather(*(kube.get(PERSISTENT_VOLUME_CLAIM, cluster.namespace, name) for name in names))
    going = set()
    for node, body in zip(missing, bodies, strict=True):
        if body is None:
            continue
        claim = _claim(cluster.name, body)
        if claim is None:
            going.add(node)
        else:
            found.append((claim, body))
    return found, going


async def _keep_with_others(
    kube: KubeClient, cluster: BrokerCluster, node_sets: Mapping[Role, Mapping[str, Any] | None]
) -> None:
    """Keep the claims of others that pods have mounted: an old operator's StatefulSet may delete them."""
    refusals = Refusals()
    for node_set in node_sets.values():
        policy = {} if node_set is None else node_set["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
        if node_set is not None and policy.get("whenDeleted") == "Delete":
            meta, spec = node_set["metadata"], {"persistentVolumeClaimRetentionPolicy": dict(CLAIMS_STAY)}
            seen = {"uid": meta["uid"]}
            with refusals.kept():
                await kube.patch_metadata(STATEFUL_SET, cluster.namespace, meta["name"], {}, seen, spec=spec)
    refusals.raise_first()


async def _mark(kube: KubeClient, cluster: BrokerCluster, plan: ClaimsPlan, refusals: Refusals) -> list[str]:
    """Annotate the claims, and return the API server's refusals, empty for claims that were changed.

    `refusals` keeps refusals that may pass. Raises KubeConflictError if the claims must be read again.
    """
    fields = [(claim, {"labels": selector(cluster.name, claim.role.value)}) for claim in plan.unlabelled]
    fields += [(claim, {"annotations": {CLUSTER_ID: cluster_id(cluster)}}) for claim in plan.unmarked]
    refused = []
    for claim, marks in fields:
        try:
            refused.append(await refusal(_patch(kube, cluster, claim.name, marks, {"uid": claim.uid})))
        except KubeConflictError:
            raise
        except KubeError as error:
            refusals.keep(error)
    return refused


async def _patch(
    kube: KubeClient,
    cluster: BrokerCluster,
    claim: str,
    fields: Mapping[str, object],
    seen: Mapping[str, str],
    *,
    spec: Mapping[str, object] | None = None,
) -> None:
    """Patch a claim like `KubeClient.patch_metadata`.

    Raises KubeConflictError also if the claim has been deleted since it was read: the next reconcile reads the claims
    again.
    """
    try:
        await kube.patch_metadata(PERSISTENT_VOLUME_CLAIM, cluster.namespace, claim, fields, seen, spec=spec)
    except KubeError as error:
        if error.status != 404:
            raise
        raise KubeConflictError(f"volume claim {claim} has been deleted in the meantime: {error}") from error


def template_size(node_set: Mapping[str, Any]) -> str:
    """Return the size of the volume claims that a StatefulSet creates; empty if there are none."""
    templates = node_set["spec"].get("volumeClaimTemplates")
    if not templates:
        return ""
    resources = templates[0]["spec"].get("resources") or {}
    return str((resources.get("requests") or {}).get("storage") or "")


def keep_template_size(child: Mapping[str, Any], node_set: Mapping[str, Any]) -> dict[str, Any]:
    """Return `child` in a form that can be applied to the existing StatefulSet: its volumeClaimTemplates are immutable.

    Raises KubeError if that StatefulSet creates no volume claims.
    """
    size, name = template_size(node_set), child["metadata"]["name"]
    if not size:
        raise KubeError(
            f"StatefulSet {name} has no volumeClaimTemplates that request a size, and Kubernetes does not"
            f" allow them to be added; delete the StatefulSet (kubectl delete statefulset {name}), and the"
            " operator creates a new one"
        )
    [template] = child["spec"]["volumeClaimTemplates"]
    kept = {**template, "spec": {**template["spec"], "resources": {"requests": {"storage": size}}}}
    return {**child, "spec": {**child["spec"], "volumeClaimTemplates": [kept]}}


async def _grow(kube: KubeClient, cluster: BrokerCluster, plan: VolumesPlan, refusals: Refusals) -> VolumesSeen:
    """Request the larger size of each claim, also after another claim was refused.

    Claims differ: one may be of another StorageClass, or bound by hand. `refusals` keeps refusals that may pass. Raises
    KubeConflictError if the claims must be read again.
    """
    grown, refused = [], dict[str, str]()
    for growth in plan.grow:
        volume = growth.volume
        try:
            wanted = {"resources": {"requests": {"storage": growth.size}}}
            await _patch(kube, cluster, volume.claim, {}, {"uid": volume.uid}, spec=wanted)
        except KubeConflictError:
            raise
        except KubeError as error:
            if isinstance(error, NamespaceGoingError) or error.status not in _REFUSED:
                refusals.keep(error)
            else:
                # Reported at once: an admission plugin of the API server refuses what a StorageClass does not allow.
                refused[volume.claim] = str(error)
        else:
            grown.append(growth)
    return volumes_seen(cluster, plan, grown, refused)


async def own_claims(kube: KubeClient, cluster: BrokerCluster) -> None:
    """Make the cluster an owner of the claims with its data, or remove this owner, as in spec.storage.deleteClaims.

    `cluster` may be deleted already. Raises KubeError, when all other claims have been tried; one that may pass comes
    first, such as KubeConflictError for a claim that another client changed or deleted meanwhile. A refusal that
    concerns all claims is raised at once.
    """
    found = await _claims(kube, cluster)
    wrong = misowned(cluster, [claim for claim, _ in found])
    refusals = Refusals()
    for claim, item in found:
        if claim not in wrong:
            continue
        meta = item["metadata"]
        others = [owner for owner in meta.get("ownerReferences") or () if owner["uid"] != cluster.metadata.uid]
        owners = [*others, claim_owner(cluster)] if cluster.spec.deletes_claims else others
        seen = {key: meta[key] for key in ("uid", "resourceVersion")}
        with refusals.kept():
            await _patch(kube, cluster, claim.name, {"ownerReferences": owners}, seen)
    refusals.raise_first()


async def _claims(kube: KubeClient, cluster: BrokerCluster) -> list[tuple[VolumeClaim, Mapping[str, Any]]]:
    found = await kube.cache.list(PERSISTENT_VOLUME_CLAIM, cluster.namespace, cluster.name)
    return [(claim, item) for item in found if (claim := _claim(cluster.name, item)) is not None]


def _volume(claim: VolumeClaim, found: Mapping[str, Any]) -> Volume:
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
        (status.get("capacity") or {}).get("storage", "") if bound else "",
        spec.get("storageClassName") or "",
        shown,
    )


def _claim(cluster: str, found: Mapping[str, Any]) -> VolumeClaim | None:
    """Return the claim; None for a claim that no node gets, and for one that is being deleted.

    The node of the latter waits until it is gone, and gets a new one.
    """
    meta = found["metadata"]
    if meta.get("deletionTimestamp"):
        return None
    for role in Role:
        ordinal = claim_ordinal(found, cluster, role.value)
        if ordinal is not None:
            created = datetime.fromisoformat(meta["creationTimestamp"])
            noted = (meta.get("annotations") or {}).get(CLUSTER_ID)
            owners = frozenset(str(owner["uid"]) for owner in meta.get("ownerReferences") or ())
            label = (meta.get("labels") or {}).get(CLUSTER_LABEL) or ""
            # A StatefulSet may control its claims, and a pod those that are deleted with it.
            controller = other_controller(found, node_set_name(cluster, role))
            return VolumeClaim(meta["name"], meta["uid"], role, ordinal, created, noted, owners, label, controller)
    return None
