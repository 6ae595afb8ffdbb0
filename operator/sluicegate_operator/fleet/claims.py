"""Looks at the volume claims that nodes will get, and marks those of a cluster with its id."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.kube.errors import ClaimsTakenError
from sluicegate_operator.kube.kinds import PERSISTENT_VOLUME_CLAIM
from sluicegate_operator.planning.claims import Claim, plan_claims
from sluicegate_operator.planning.cluster_layout import Role, cluster_id
from sluicegate_operator.resources.labels import CLUSTER_ID, CLUSTER_LABEL, node_set_name
from sluicegate_operator.resources.statefulset import CLAIM


async def look_after_claims(kube: KubeClient, cluster: BrokerCluster, broker_count: int, *, started: bool) -> None:
    """Raises ClaimsTakenError when nodes would get another cluster's data, and KubeError."""
    selector = f"{CLUSTER_LABEL}={cluster.name}"
    found = await kube.list(PERSISTENT_VOLUME_CLAIM, cluster.namespace, selector)
    claims = [claim for item in found if (claim := _claim(cluster.name, item)) is not None]
    plan = plan_claims(cluster, claims, broker_count, started=started)
    if plan.taken:
        raise ClaimsTakenError(plan.taken)
    for claim in plan.unmarked:
        mark = {CLUSTER_ID: cluster_id(cluster)}
        await kube.mark(PERSISTENT_VOLUME_CLAIM, cluster.namespace, claim.name, claim.uid, annotations=mark)


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
            return Claim(meta["name"], meta["uid"], role, int(match[1]), created, noted)
    return None
