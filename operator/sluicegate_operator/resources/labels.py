"""Names, labels and annotations of children.

`app.kubernetes.io/instance` is left out on purpose: Argo CD tracks by it and would prune children that carry it.
"""

from sluicegate_operator.api.metadata import GROUP

CLUSTER_LABEL = f"{GROUP}/cluster"
ROLE_LABEL = "app.kubernetes.io/component"
LISTENER_LABEL = f"{GROUP}/listener"
CONFIG_HASH = f"{GROUP}/config-hash"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
MANAGER = "sluicegate-operator"


def node_set_name(cluster: str, role: str) -> str:
    """Of the StatefulSet, its headless Service and its ConfigMap: shop-brokers, shop-controllers."""
    return f"{cluster}-{role}s"


def service_account_name(cluster: str) -> str:
    """Not the cluster's bare name: a cluster may be called default, as every namespace's own account is."""
    return f"{cluster}-nodes"


def selector(cluster: str, role: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "sluicegate", ROLE_LABEL: role, CLUSTER_LABEL: cluster}


def labels(cluster: str, role: str | None = None) -> dict[str, str]:
    common = {"app.kubernetes.io/name": "sluicegate", "app.kubernetes.io/managed-by": MANAGER, CLUSTER_LABEL: cluster}
    return common | {ROLE_LABEL: role} if role else common
