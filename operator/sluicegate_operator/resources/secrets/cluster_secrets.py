"""The Secrets of a cluster's own certificates: its authority, what nodes mount, and what the operator connects with."""

import base64
from collections.abc import Mapping
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.parts.cluster_ca import FORCE_RENEW
from sluicegate_operator.resources.labels import labels
from sluicegate_operator.resources.owner import child_metadata

AUTHORITY_CERTIFICATE, AUTHORITY_KEY, AUTHORITIES = "tls.crt", "tls.key", "ca.crt"
OPERATOR_CERTIFICATE, OPERATOR_KEY = "operator.crt", "operator.key"
_COMPONENT = "certificates"


def authority_secret_name(cluster: str) -> str:
    """Return the name of the Secret with the authority that the operator makes."""
    return f"{cluster}-cluster-ca"


def nodes_secret_name(cluster: str) -> str:
    """Return the name of the Secret with the certificates of nodes and operator, and of the authorities they trust."""
    return f"{cluster}-cluster-tls"


def cluster_secret(cluster: BrokerCluster, name: str, data: Mapping[str, str], renewal: str) -> dict[str, Any]:
    """Return the manifest of a Secret of a cluster. `renewal` is the value of the annotation for which it was made."""
    metadata = child_metadata(cluster, name, labels(cluster.name, _COMPONENT))
    if renewal:
        metadata["annotations"] = {FORCE_RENEW: renewal}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "Opaque",
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in sorted(data.items())},
    }
