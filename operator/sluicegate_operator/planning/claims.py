"""Volume claims that were there before the nodes: whose data they hold, and why a cluster must not start on them.

Claims outlive their cluster unless spec.storage.deleteClaims says otherwise, and a new one of the same name would get
them; its nodes would find another cluster's id in their folders and refuse to start.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.planning.cluster_layout import Role, cluster_id
from sluicegate_operator.resources.labels import CLUSTER_LABEL

SHOWN_MAX = 3


@dataclass(frozen=True, slots=True)
class Claim:
    """`cluster_id` is None where nobody has noted it yet. `goes_with`: the uids of BrokerClusters that it goes with."""

    name: str
    uid: str
    role: Role
    ordinal: int
    created: datetime
    cluster_id: str | None = None
    goes_with: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class ClaimsPlan:
    """`taken` is why no node must be made, and what to do. `unmarked`: claims to be marked with the cluster's id.
    `misowned`: those that are to go with the cluster and do not, or the other way round."""

    taken: str = ""
    unmarked: tuple[Claim, ...] = ()
    misowned: tuple[Claim, ...] = ()


def plan_claims(cluster: BrokerCluster, claims: Iterable[Claim], broker_count: int, *, started: bool) -> ClaimsPlan:
    """`started`: StatefulSets of this very cluster are there, so claims without a mark are its own."""
    claims = tuple(claims)
    counts = {Role.BROKER: broker_count, Role.CONTROLLER: cluster.spec.controller_count}
    needed = [claim for claim in claims if claim.ordinal < counts[claim.role]]
    strange = [claim for claim in needed if _is_strange(cluster, claim, started)]
    if strange:
        return ClaimsPlan(taken=_sentence(cluster, strange))
    unmarked = tuple(claim for claim in needed if claim.cluster_id is None)
    return ClaimsPlan(unmarked=unmarked, misowned=misowned(cluster, claims, unmarked))


def misowned(cluster: BrokerCluster, claims: Iterable[Claim], marked: Collection[Claim] = ()) -> tuple[Claim, ...]:
    """Of the claims that hold this cluster's data, by their mark or as they are about to be `marked`. Kubernetes' own
    owner of claims, the StatefulSet, takes its time: a cluster may be deleted before."""
    own = (claim for claim in claims if claim.cluster_id == cluster_id(cluster) or claim in marked)
    return tuple(claim for claim in own if (cluster.metadata.uid in claim.goes_with) is not cluster.spec.deletes_claims)


def _is_strange(cluster: BrokerCluster, claim: Claim, started: bool) -> bool:
    if claim.cluster_id is not None:
        return claim.cluster_id != cluster_id(cluster)
    made = cluster.metadata.creation_timestamp
    # Who names an id means the data that is there.
    return not started and cluster.spec.cluster_id is None and made is not None and claim.created < made


def _sentence(cluster: BrokerCluster, strange: Sequence[Claim]) -> str:
    names = [claim.name for claim in strange]
    shown = ", ".join(names[:SHOWN_MAX]) + (f" and {len(names) - SHOWN_MAX} more" if len(names) > SHOWN_MAX else "")
    ids = {claim.cluster_id for claim in strange}
    known = ids.pop() if len(ids) == 1 else None
    whose = f" (cluster.id {known})" if known else ""
    delete = f"delete them (kubectl delete pvc -l {CLUSTER_LABEL}={cluster.name})"
    if cluster.spec.shares_journal:
        # The journal belonged to the BrokerCluster that is gone.
        keep = "the metadata of a cluster with standby controllers went with it, so its topics cannot be had back"
        return f"the volume claims {shown} hold data of an earlier cluster{whose}: {delete}; {keep}"
    told = (
        f"say spec.clusterId: {known}" if known else "say its cluster.id (in their meta.properties) in spec.clusterId"
    )
    return f"the volume claims {shown} hold data of another cluster{whose}: {told} to go on with that data, or {delete}"
