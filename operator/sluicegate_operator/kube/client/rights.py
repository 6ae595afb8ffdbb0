"""The rights that the operator needs at API servers, by kind, and no others.

The chart grants exactly these rights, and a test compares the two. Another test compares them with the requests of the
operator that an API server's audit log recorded during the other tests. A change that adds a request adds it here and
to the chart.
"""

from collections.abc import Mapping

from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.models.kafka_user import KafkaUser
from sluicegate_operator.api.schema.metadata import GROUP

Resource = tuple[str, str]
"""An API group and the name of a resource; a subresource follows a '/'."""

_WRITTEN_BY_USERS = tuple(kind.plural for kind in KINDS.values() if kind.by_users)
_APPLIED = frozenset({"get", "list", "watch", "create", "patch"})
"""The rights on children: see KubeClient.apply and kube.cache.watched."""

CALLED: Mapping[Resource, frozenset[str]] = {
    **{(GROUP, kind): frozenset({"list", "watch"}) for kind in _WRITTEN_BY_USERS},
    **{(GROUP, f"{kind}/status"): frozenset({"patch"}) for kind in (*_WRITTEN_BY_USERS, "brokerregistrations")},
    (GROUP, "brokerclusters"): frozenset({"get", "list", "watch"}),
    # Patched for their finalizers.
    (GROUP, KafkaUser.plural): frozenset({"list", "watch", "patch"}),
    (GROUP, "topics"): frozenset({"list", "watch", "patch"}),
    (GROUP, "brokerregistrations"): _APPLIED | {"delete"},
    ("", "services"): _APPLIED | {"delete"},
    ("", "serviceaccounts"): _APPLIED,
    ("", "configmaps"): _APPLIED | {"delete"},
    ("apps", "statefulsets"): _APPLIED,
    ("policy", "poddisruptionbudgets"): _APPLIED,
    ("networking.k8s.io", "networkpolicies"): _APPLIED | {"delete"},
    ("rbac.authorization.k8s.io", "roles"): _APPLIED,
    ("rbac.authorization.k8s.io", "rolebindings"): _APPLIED,
    ("batch", "cronjobs"): frozenset({"get", "create", "patch", "delete"}),
    ("batch", "jobs"): frozenset({"list"}),
    ("", "pods"): frozenset({"get", "list", "watch", "delete"}),
    ("", "pods/status"): frozenset({"patch"}),
    ("", "persistentvolumeclaims"): _APPLIED,
    ("", "events"): frozenset({"list", "create", "update"}),
    # While a ConnectionQuota selects pods of other namespaces.
    ("", "namespaces"): frozenset({"list", "watch"}),
    ("", "nodes"): frozenset({"get"}),
    ("coordination.k8s.io", "leases"): frozenset({"get", "create", "update"}),
}

CALLED_OF_SPARK: Mapping[Resource, frozenset[str]] = {
    ("sparkoperator.k8s.io", "scheduledsparkapplications"): frozenset({"get", "create", "patch", "delete"}),
    ("sparkoperator.k8s.io", "sparkapplications"): frozenset({"list"}),
    ("spark.apache.org", "sparkapplications"): frozenset({"list", "create", "delete"}),
}
"""Rights of an operator whose AuditPipelines are run by a Spark operator."""

CALLED_OF_SECRETS: Mapping[Resource, frozenset[str]] = {("", "secrets"): frozenset({"get", "create", "patch"})}
"""Rights with `rbac.secrets` of the chart: for KafkaUsers, and for external clusters with TLS or authentication."""

CALLED_OF_ADMISSION: Mapping[Resource, frozenset[str]] = {
    ("", "secrets"): frozenset({"get", "update"}),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"): frozenset({"get", "update"}),
}
"""Rights of an operator with admission webhooks, each on one named object.

If cert-manager makes the certificate, the operator needs only `get` of the Secret.
"""

HELD: Mapping[Resource, frozenset[str]] = {
    # RBAC lets no account grant rights that it lacks: the Role of controllers that share a journal has these.
    ("", "configmaps"): frozenset({"update"}),
    # OwnerReferencesPermissionEnforcement, which some clusters enable, requires these from a client that sets
    # blockOwnerDeletion, and from one that lets claims be deleted with their cluster.
    **{(GROUP, f"{kind.plural}/finalizers"): frozenset({"update"}) for kind in KINDS.values() if kind.owns_children},
    ("", "persistentvolumeclaims"): frozenset({"delete"}),
}
"""Rights that the operator itself never uses, but that the API server requires it to have."""
