"""Volume claims that are older than the nodes: which cluster wrote their data, and why a cluster must not use them.

Claims outlive their cluster unless spec.storage.deleteClaims is set, and a new cluster of the same name would get them.
Its nodes would find another cluster's id in their folders and refuse to start.

A claim belongs to a cluster if it has the label sluicegate.dev/cluster with the cluster's name. StatefulSets and the
operator set it, and a user may set it to hand a claim over. A StatefulSet would mount any claim of the right name, so
the operator creates no node whose claim lacks the label.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.planning.layout.cluster_layout import Role, cluster_id
from sluicegate_operator.resources.labels import CLUSTER_LABEL

SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class VolumeClaim:
    """A volume claim of a node.

    - `cluster_id`: the annotation with the id of the cluster whose data the claim contains; None without the
      annotation.
    - `goes_with`: the uids of the BrokerClusters with which it is deleted.
    - `of_cluster`: the value of its label, empty without one.
    - `controller`: another object that controls it, if any.
    """

    name: str
    uid: str
    role: Role
    ordinal: int
    created: datetime
    cluster_id: str | None = None
    goes_with: frozenset[str] = frozenset()
    of_cluster: str = ""
    controller: str = ""


@dataclass(frozen=True, slots=True)
class ClaimsPlan:
    """The changes of a cluster's claims, or why the claims must not be used.

    - `taken`: why no node must be created, and what to do.
    - `unlabelled`: claims with the cluster's id that have lost their label.
    - `unmarked`: claims to be annotated with the cluster's id.
    - `misowned`: claims that should be deleted with the cluster and are not, or the other way round.
    """

    taken: str = ""
    unlabelled: tuple[VolumeClaim, ...] = ()
    unmarked: tuple[VolumeClaim, ...] = ()
    misowned: tuple[VolumeClaim, ...] = ()


def plan_claims(
    cluster: BrokerCluster, claims: Iterable[VolumeClaim], broker_count: int, *, started: bool
) -> ClaimsPlan:
    """Plan the changes of a cluster's claims.

    `started`: StatefulSets of this cluster object exist, so claims without the annotation belong to it.
    """
    claims = tuple(claims)
    counts = {Role.BROKER: broker_count, Role.CONTROLLER: cluster.spec.controller_count}
    needed = [claim for claim in claims if claim.ordinal < counts[claim.role]]
    others = [claim for claim in needed if _why_not_ours(cluster, claim)]
    if others:
        return ClaimsPlan(taken=_of_others(cluster, others))
    strange = [claim for claim in needed if _is_strange(cluster, claim, started)]
    if strange:
        return ClaimsPlan(taken=_sentence(cluster, strange))
    unlabelled = tuple(claim for claim in needed if not _is_labelled(cluster, claim))
    unmarked = tuple(claim for claim in needed if claim.cluster_id is None)
    return ClaimsPlan(unlabelled=unlabelled, unmarked=unmarked, misowned=misowned(cluster, claims, unmarked))


def _why_not_ours(cluster: BrokerCluster, claim: VolumeClaim) -> str:
    if claim.controller:
        return f"{claim.controller} controls {claim.name}"
    if _is_labelled(cluster, claim) or claim.cluster_id == cluster_id(cluster):
        return ""
    return f"{claim.name} lacks the label {CLUSTER_LABEL}={cluster.name}"


def _is_labelled(cluster: BrokerCluster, claim: VolumeClaim) -> bool:
    return claim.of_cluster == cluster.name


def misowned(
    cluster: BrokerCluster, claims: Iterable[VolumeClaim], marked: Collection[VolumeClaim] = ()
) -> tuple[VolumeClaim, ...]:
    """Return the cluster's claims whose owners do not match spec.storage.deleteClaims.

    A claim is the cluster's if it is annotated with the cluster's id. Claims in `marked` are about to be annotated. The
    cluster does not become an owner of a claim that another object controls, but ends being one. The StatefulSet
    controller could set owners, too, but it acts late: the cluster may be deleted before.
    """
    own = (claim for claim in claims if claim.cluster_id == cluster_id(cluster) or claim in marked)
    wrong = (claim for claim in own if (cluster.metadata.uid in claim.goes_with) is not cluster.spec.deletes_claims)
    return tuple(claim for claim in wrong if not (claim.controller and cluster.spec.deletes_claims))


def _is_strange(cluster: BrokerCluster, claim: VolumeClaim, started: bool) -> bool:
    if claim.cluster_id is not None:
        return claim.cluster_id != cluster_id(cluster)
    made = cluster.metadata.creation_timestamp
    # A user who sets an id wants the existing data.
    return not started and cluster.spec.cluster_id is None and made is not None and claim.created < made


def _of_others(cluster: BrokerCluster, others: Sequence[VolumeClaim]) -> str:
    label = f"{CLUSTER_LABEL}={cluster.name}"
    return (
        f"the volume claims {_shown(others)} exist and do not belong to the operator"
        f" ({_why_not_ours(cluster, others[0])}); the operator does not change them, and creates no nodes:"
        " delete them, or create the BrokerCluster with another name; to use the data on claims without a"
        f" controller, label them (kubectl label pvc {others[0].name} {label}) and set spec.clusterId to the"
        " cluster.id in their meta.properties"
    )


def _shown(claims: Sequence[VolumeClaim]) -> str:
    names = [claim.name for claim in claims]
    return ", ".join(names[:SHOWN_MAX]) + (f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else "")


def _sentence(cluster: BrokerCluster, strange: Sequence[VolumeClaim]) -> str:
    shown = _shown(strange)
    ids = {claim.cluster_id for claim in strange}
    known = ids.pop() if len(ids) == 1 else None
    whose = f" (cluster.id {known})" if known else ""
    delete = f"delete them (kubectl delete pvc -l {CLUSTER_LABEL}={cluster.name})"
    if cluster.spec.shares_journal:
        # The journal belonged to the deleted BrokerCluster.
        keep = (
            "the metadata of a cluster with standby controllers was deleted with the cluster, so its topics cannot"
            " be restored"
        )
        return f"the volume claims {shown} have data of an earlier cluster{whose}: {delete}; {keep}"
    told = (
        f"set spec.clusterId to {known}"
        if known
        else "set spec.clusterId to its cluster.id (see meta.properties on the volumes)"
    )
    return (
        f"the volume claims {shown} have data of another cluster{whose}: {told} to continue with that data, or {delete}"
    )
