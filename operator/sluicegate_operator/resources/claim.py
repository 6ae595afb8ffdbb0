"""The volume claim of one node, as its StatefulSet would make it but for the size; see planning.volumes."""

from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster, Storage
from sluicegate_operator.resources.labels import CLUSTER_ID, node_set_name, selector
from sluicegate_operator.resources.statefulset import CLAIM, claim_template


def volume_claim(cluster: BrokerCluster, role: str, ordinal: int, storage: Storage, cluster_id: str) -> dict[str, Any]:
    """Without owners: who they are is looked at once it is there."""
    metadata = {
        "name": f"{CLAIM}-{node_set_name(cluster.name, role)}-{ordinal}",
        "namespace": cluster.namespace,
        "labels": selector(cluster.name, role),
        "annotations": {CLUSTER_ID: cluster_id},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim_template(storage), "metadata": metadata}
