"""Complaints about objects that the API server accepts and that have no effect, by the verdicts of planners."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sluicegate_operator.api.manifests import Manifests
from sluicegate_operator.api.models.audit_pipeline import AuditPipeline
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.models.kafka_user import KafkaUser
from sluicegate_operator.api.models.observer_plugin import ObserverPlugin
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.planning.layout.cluster_layout import cluster_listeners, plan_cluster
from sluicegate_operator.planning.observers.observers import PluginOutcome, plan_observers
from sluicegate_operator.planning.status.missing_cluster import cluster_missing_words
from sluicegate_operator.planning.topics.reassignment import too_few_brokers
from sluicegate_operator.planning.topics.topics import TopicOutcome, judge_topics
from sluicegate_operator.planning.users.users import judge_users
from sluicegate_operator.quotas.plan import plan_quotas

_FINE = (PluginOutcome.ACCEPTED, PluginOutcome.DISABLED, PluginOutcome.CODE_MISSING)
"""Outcomes without a complaint. Manifests do not show whether a ConfigMap has the code of a plugin."""


@dataclass(frozen=True, slots=True, order=True)
class Complaint:
    """A reason why an accepted object would not work.

    `stalls`: the object has no effect at all; otherwise a part of it has none.
    """

    kind: str
    namespace: str
    name: str
    message: str
    stalls: bool = True


def complaints(manifests: Manifests, now: datetime) -> list[Complaint]:
    found: list[Complaint] = []
    for cluster in manifests.clusters:
        found += _of_cluster(cluster, manifests, now)
    known = {(cluster.namespace, cluster.name) for cluster in manifests.clusters}
    for one in manifests.resources:
        if isinstance(one, BrokerCluster | AuditPipeline):
            continue
        if (one.namespace, one.cluster_name) not in known:
            found.append(Complaint(*one.identity, cluster_missing_words(one)))
    return sorted(found)


def _of_cluster(cluster: BrokerCluster, manifests: Manifests, now: datetime) -> Iterator[Complaint]:
    where = cluster.namespace
    if cluster.spec.brokers is not None:
        for clash in plan_cluster(cluster, manifests.of_kind(BrokerListener)).clashes:
            yield Complaint("BrokerListener", where, clash.resource, clash.message)
    else:
        for listener in cluster_listeners(cluster, manifests.of_kind(BrokerListener)):
            message = (
                f"cluster {cluster.name} has runtime External: configure listeners in the properties of its brokers"
            )
            yield Complaint("BrokerListener", where, listener.name, message)
    quotas = plan_quotas(cluster, manifests.of_kind(BrokerListener), manifests.of_kind(ConnectionQuota), now)
    for verdict in quotas.verdicts.values():
        if verdict.needs_a_person or verdict.conflicts:
            yield Complaint("ConnectionQuota", where, verdict.quota, verdict.message, verdict.needs_a_person)
    for name, plugin in plan_observers(cluster, manifests.of_kind(ObserverPlugin)).verdicts.items():
        if plugin.outcome not in _FINE:
            yield Complaint("ObserverPlugin", where, name, plugin.message)
    yield from _of_topics(cluster, manifests)
    users = [
        user for user in manifests.of_kind(KafkaUser) if (user.namespace, user.cluster_name) == (where, cluster.name)
    ]
    for name, (_, message) in judge_users(cluster, users).items():
        yield Complaint("KafkaUser", where, name, message)


def _of_topics(cluster: BrokerCluster, manifests: Manifests) -> Iterator[Complaint]:
    where = cluster.namespace
    for name, verdict in judge_topics(cluster, manifests.of_kind(Topic)).items():
        if verdict.outcome is not TopicOutcome.ACCEPTED:
            yield Complaint("Topic", where, name, verdict.message)
    if cluster.spec.brokers is None:
        return
    for topic in manifests.of_kind(Topic):
        if (topic.namespace, topic.cluster_name) != (where, cluster.name) or topic.spec.replicas is None:
            continue
        if few := too_few_brokers(topic.spec.replicas, cluster.spec.brokers.replicas):
            yield Complaint("Topic", where, topic.name, few.message)
