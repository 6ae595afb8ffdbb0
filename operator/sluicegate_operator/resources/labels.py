"""Names, labels and annotations of children.

`app.kubernetes.io/instance` is left out on purpose: Argo CD tracks by it and would prune children that carry it.
"""

from sluicegate_operator.api.metadata import GROUP

CLUSTER_LABEL = f"{GROUP}/cluster"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
ROLE_LABEL = "app.kubernetes.io/component"
LISTENER_LABEL = f"{GROUP}/listener"
REVISION = f"{GROUP}/revision"
"""Annotation of a pod: what it was started with, see planning.restart_reasons."""
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""Annotation that `kubectl rollout restart` puts into a StatefulSet's template, and so into the pods that follow."""
RACK = f"{GROUP}/rack"
"""Annotation of a broker's pod, written once it is on a node: the rack that the broker is told."""
CLUSTER_ID = f"{GROUP}/cluster-id"
"""Annotation of a volume claim: Kafka's id of the cluster whose data it holds."""
READINESS_GATE = f"{GROUP}/unfenced"
"""Condition of a broker's pod that the operator sets from the controller's view."""
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
MANAGER = "sluicegate-operator"


def node_set_name(cluster: str, role: str) -> str:
    """Of the StatefulSet and its headless Service: shop-brokers, shop-controllers; ConfigMaps' names begin with it."""
    return f"{cluster}-{role}s"


def service_account_name(cluster: str) -> str:
    """Not the cluster's bare name: a cluster may be called default, as every namespace's own account is."""
    return f"{cluster}-nodes"


def journal_account_name(cluster: str) -> str:
    """Of controllers that keep their journal in the Kubernetes API; no other pod has a token."""
    return f"{cluster}-journal"


def selector(cluster: str, role: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "sluicegate", ROLE_LABEL: role, CLUSTER_LABEL: cluster}


def labels(cluster: str, role: str | None = None) -> dict[str, str]:
    common = {"app.kubernetes.io/name": "sluicegate", MANAGED_BY_LABEL: MANAGER, CLUSTER_LABEL: cluster}
    return common | {ROLE_LABEL: role} if role else common
