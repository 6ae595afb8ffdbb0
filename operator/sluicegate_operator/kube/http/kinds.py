"""The kinds that the operator reads or writes, and their paths."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.broker_registration import BrokerRegistration
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.models.kafka_user import KafkaUser
from sluicegate_operator.api.models.observer_plugin import ObserverPlugin
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.api.schema.metadata import API_VERSION, Resource


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects in the Kubernetes API, with the names by which requests address it."""

    api_version: str
    kind: str
    plural: str

    @property
    def crd(self) -> str:
        """Return the name of the kind's CustomResourceDefinition; only for custom kinds."""
        return f"{self.plural}.{self.api_version.partition('/')[0]}"

    def path(self, namespace: str | None, name: str = "") -> str:
        root = f"/api/{self.api_version}" if "/" not in self.api_version else f"/apis/{self.api_version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{name}" if name else "")


@cache
def of_model(model: type[Resource]) -> Kind:
    """Return the Kind of a custom resource.

    The result is the same object for each call, because callers compare by `is`.
    """
    return Kind(API_VERSION, model.__name__, model.plural)


BROKER_CLUSTER = of_model(BrokerCluster)
BROKER_LISTENER = of_model(BrokerListener)
BROKER_REGISTRATION = of_model(BrokerRegistration)
CONNECTION_QUOTA = of_model(ConnectionQuota)
KAFKA_USER = of_model(KafkaUser)
OBSERVER_PLUGIN = of_model(ObserverPlugin)
TOPIC = of_model(Topic)
AUDIT_PIPELINE = of_model(AuditPipeline)
USER_KINDS = tuple(of_model(kind.model) for kind in KINDS.values() if kind.by_users)
"""The kinds that users write. The operator reacts to each change of their objects."""

POD = Kind("v1", "Pod", "pods")
NAMESPACE = Kind("v1", "Namespace", "namespaces")
"""The kind of namespaces, which are cluster-scoped."""
NODE = Kind("v1", "Node", "nodes")
"""The kind of nodes, which are cluster-scoped."""
PERSISTENT_VOLUME_CLAIM = Kind("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
SECRET = Kind("v1", "Secret", "secrets")
EVENT = Kind("v1", "Event", "events")
LEASE = Kind("coordination.k8s.io/v1", "Lease", "leases")
NETWORK_POLICY = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
STATEFUL_SET = Kind("apps/v1", "StatefulSet", "statefulsets")
SERVICE = Kind("v1", "Service", "services")
CONFIG_MAP = Kind("v1", "ConfigMap", "configmaps")
POD_DISRUPTION_BUDGET = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
CRON_JOB = Kind("batch/v1", "CronJob", "cronjobs")
JOB = Kind("batch/v1", "Job", "jobs")
WEBHOOK_CONFIGURATION = Kind(
    "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"
)
"""The kind of ValidatingWebhookConfigurations, which are cluster-scoped."""
SPARK_APPLICATION = Kind("spark.apache.org/v1", "SparkApplication", "sparkapplications")
"""The kind of Apache's Spark operator; the next two belong to kubeflow's."""
SCHEDULED_SPARK_APPLICATION = Kind(
    "sparkoperator.k8s.io/v1beta2", "ScheduledSparkApplication", "scheduledsparkapplications"
)
KUBEFLOW_SPARK_APPLICATION = Kind("sparkoperator.k8s.io/v1beta2", "SparkApplication", "sparkapplications")

CHILDREN = (
    NETWORK_POLICY,
    CONFIG_MAP,
    Kind("v1", "ServiceAccount", "serviceaccounts"),
    POD_DISRUPTION_BUDGET,
    Kind("rbac.authorization.k8s.io/v1", "Role", "roles"),
    Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings"),
)
"""Kinds of children that the operator reads only to check whether they still have the applied form."""
_APPLIED = (*CHILDREN, STATEFUL_SET, SERVICE, CRON_JOB, SCHEDULED_SPARK_APPLICATION)
_BY_NAME = {
    (kind.api_version, kind.kind): kind
    for kind in (*_APPLIED, *USER_KINDS, BROKER_REGISTRATION, POD, EVENT, LEASE, SECRET)
}


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """Return the Kind of a manifest. Raises KeyError for a kind that the operator does not use."""
    return _BY_NAME[manifest["apiVersion"], manifest["kind"]]
