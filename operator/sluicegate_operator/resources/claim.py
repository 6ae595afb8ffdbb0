"""The volume claim of one node, as its StatefulSet would make it, with the size and the mark of the operator."""

from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster, Storage
from sluicegate_operator.resources.labels import CLUSTER_ID, node_set_name, selector
from sluicegate_operator.resources.owner import owner_reference
from sluicegate_operator.resources.statefulset import CLAIM, claim_template


def volume_claim(cluster: BrokerCluster, role: str, ordinal: int, storage: Storage, cluster_id: str) -> dict[str, Any]:
    """Marked with the cluster's id; owned by the BrokerCluster if the claim is to be deleted with it."""
    metadata = {
        "name": f"{CLAIM}-{node_set_name(cluster.name, role)}-{ordinal}",
        "namespace": cluster.namespace,
        "labels": selector(cluster.name, role),
        "annotations": {CLUSTER_ID: cluster_id},
        "ownerReferences": [claim_owner(cluster)] if cluster.spec.deletes_claims else [],
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim_template(storage), "metadata": metadata}


def claim_owner(cluster: BrokerCluster) -> dict[str, Any]:
    """The owner that the garbage collector deletes the claim with. It does not control the claim or wait for it."""
    own = owner_reference(cluster)
    return {key: own[key] for key in ("apiVersion", "kind", "name", "uid")}
