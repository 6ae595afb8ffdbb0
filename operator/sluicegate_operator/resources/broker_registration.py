"""The BrokerRegistration of one broker, without its status."""

import re
from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.schema.metadata import API_VERSION
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.resources.owner import child_metadata, is_controlled_by, why_not_ours


def registration_name(cluster: str, broker_id: int) -> str:
    return f"{cluster}-{broker_id}"


def broker_registration(cluster: BrokerCluster, broker_id: int) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "BrokerRegistration",
        "metadata": child_metadata(cluster, registration_name(cluster.name, broker_id), labels(cluster.name)),
        "spec": {"clusterRef": {"name": cluster.name}, "brokerId": broker_id},
    }


def is_registration_of(cluster: BrokerCluster, found: Mapping[str, Any]) -> bool:
    """Return whether a BrokerRegistration belongs to the cluster.

    The cluster controls it, or an earlier cluster of the name has left it. The latter is recognized by its labels and
    its name, because other clients may copy labels.
    """
    if is_controlled_by(found, cluster.metadata.uid):
        return True
    is_named = re.fullmatch(rf"{re.escape(cluster.name)}-[0-9]+", found["metadata"]["name"])
    return is_named is not None and not why_not_ours(found, broker_registration(cluster, 0))
