"""The custom resources: their models, rules and CRDs. Pure, except that `manifests` reads files.

`models` has one module for each resource and for the parts that they share, `schema` their types, and `configs` the
configuration of brokers and topics.
"""

from sluicegate_operator.api.manifests import (
    InvalidManifest,
    ManifestError,
    Manifests,
    load_manifests,
    parse_resource,
    validate,
)
from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.broker_registration import BrokerRegistration
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.models.kafka_user import KafkaUser
from sluicegate_operator.api.models.observer_plugin import ObserverPlugin
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.api.schema.metadata import API_VERSION, GROUP, VERSION, Condition, Resource

__all__ = [
    "API_VERSION",
    "GROUP",
    "VERSION",
    "AuditPipeline",
    "BrokerCluster",
    "BrokerListener",
    "BrokerRegistration",
    "Condition",
    "ConnectionQuota",
    "InvalidManifest",
    "KafkaUser",
    "ManifestError",
    "Manifests",
    "ObserverPlugin",
    "Resource",
    "Topic",
    "load_manifests",
    "parse_resource",
    "validate",
]
