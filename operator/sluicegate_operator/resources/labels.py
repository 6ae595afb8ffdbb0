"""Names, labels and annotations of children.

`app.kubernetes.io/instance` is left out on purpose: Argo CD tracks by it and would prune children that carry it.
"""

from sluicegate_operator.api.schema.metadata import GROUP

CLUSTER_LABEL = f"{GROUP}/cluster"
MANAGED_BY_LABEL = "app.kubernetes.io/managed-by"
ROLE_LABEL = "app.kubernetes.io/component"
LISTENER_LABEL = f"{GROUP}/listener"
REVISION = f"{GROUP}/revision"
"""Annotation of a pod: the revision that it was started with, see planning.layout.restart_reasons."""
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""Annotation that `kubectl rollout restart` adds to a StatefulSet's template, and so to later pods."""
RACK = f"{GROUP}/rack"
"""Annotation of a broker's pod with its rack, written after the pod is scheduled."""
CLUSTER_ID = f"{GROUP}/cluster-id"
"""Annotation of a volume claim: Kafka's id of the cluster whose data the claim contains."""
READINESS_GATE = f"{GROUP}/unfenced"
"""Condition of a broker's pod that the operator sets from the controller's view."""
POD_NAME_LABEL = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL = "apps.kubernetes.io/pod-index"
MANAGER = "sluicegate-operator"


def node_set_name(cluster: str, role: str) -> str:
    """Return the name of the StatefulSet and its headless Service: shop-brokers, shop-controllers.

    Names of ConfigMaps begin with it.
    """
    return f"{cluster}-{role}s"


def service_account_name(cluster: str) -> str:
    """Return a name that differs from the cluster's.

    A cluster may be called default, which is the name of each namespace's own account.
    """
    return f"{cluster}-nodes"


def journal_account_name(cluster: str) -> str:
    """Return the name of the account of controllers with their journal in the Kubernetes API.

    No other pod has a token.
    """
    return f"{cluster}-journal"


def selector(cluster: str, role: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "sluicegate", ROLE_LABEL: role, CLUSTER_LABEL: cluster}


def labels(cluster: str, role: str | None = None) -> dict[str, str]:
    common = {"app.kubernetes.io/name": "sluicegate", MANAGED_BY_LABEL: MANAGER, CLUSTER_LABEL: cluster}
    return common | {ROLE_LABEL: role} if role else common
