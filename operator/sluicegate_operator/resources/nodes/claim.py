"""The volume claim of one node, like its StatefulSet's, with the operator's size and annotation."""

import re
from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster, Storage
from sluicegate_operator.resources.labels import CLUSTER_ID, node_set_name, selector
from sluicegate_operator.resources.nodes.statefulset import CLAIM, claim_template
from sluicegate_operator.resources.owner import owner_reference


def volume_claim(cluster: BrokerCluster, role: str, ordinal: int, storage: Storage, cluster_id: str) -> dict[str, Any]:
    """Return a node's volume claim, annotated with the cluster's id.

    The BrokerCluster owns the claim if both are deleted together.
    """
    metadata = {
        "name": f"{CLAIM}-{node_set_name(cluster.name, role)}-{ordinal}",
        "namespace": cluster.namespace,
        "labels": selector(cluster.name, role),
        "annotations": {CLUSTER_ID: cluster_id},
        "ownerReferences": [claim_owner(cluster)] if cluster.spec.deletes_claims else [],
    }
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", **claim_template(storage), "metadata": metadata}


def claim_ordinal(found: Mapping[str, Any], cluster: str, role: str) -> int | None:
    """Return the ordinal of the node to which a claim belongs by its name; None for any other claim."""
    match = re.fullmatch(rf"{CLAIM}-{re.escape(node_set_name(cluster, role))}-([0-9]+)", found["metadata"]["name"])
    return None if match is None else int(match[1])


def claim_owner(cluster: BrokerCluster) -> dict[str, Any]:
    """Return the owner reference with which the garbage collector deletes the claim.

    The owner does not control the claim, and its deletion does not wait for the claim.
    """
    own = owner_reference(cluster)
    return {key: own[key] for key in ("apiVersion", "kind", "name", "uid")}
