"""From manifests to what should be: layouts, limits, topics, and what each resource has to say of it. Pure.

The same planning as the operator's; only what the API server would do between two applies is done here as well: the
rules of transition, which compare a resource with its predecessor.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sluicegate_operator.api import (
    BrokerCluster,
    BrokerListener,
    ConnectionQuota,
    Manifests,
    ObserverPlugin,
    Resource,
    Topic,
)
from sluicegate_operator.api.rules import broken_rules
from sluicegate_operator.fleet.local_life import ClusterTarget
from sluicegate_operator.planning.cluster_layout import cluster_listeners, plan_cluster
from sluicegate_operator.planning.observers import ObserverPlan, PluginOutcome, plan_observers
from sluicegate_operator.planning.quota_planner import plan_quotas
from sluicegate_operator.planning.quotas import QuotaPlan


@dataclass(frozen=True, slots=True)
class DesiredCluster:
    """What the manifests want of one cluster."""

    target: ClusterTarget
    quotas: QuotaPlan
    observers: ObserverPlan
    topics: Mapping[str, Topic]
    """By Kafka's name."""
    resync_s: float


@dataclass(frozen=True, slots=True)
class Complaint:
    """What keeps a resource from being what it says, for as long as the manifests are as they are."""

    kind: str
    name: str
    message: str


@dataclass(frozen=True, slots=True)
class Desired:
    """What all manifests want together, and what of them is not possible."""

    manifests: Manifests
    clusters: Mapping[str, DesiredCluster]
    complaints: tuple[Complaint, ...] = ()


def plan(manifests: Manifests) -> Desired:
    clusters: dict[str, DesiredCluster] = {}
    complaints: list[Complaint] = []
    for cluster in manifests.clusters:
        if cluster.name in clusters:
            complaints.append(_complaint(cluster, "a cluster of another namespace has this name; run it by itself"))
        else:
            clusters[cluster.name], said = _plan_cluster(cluster, manifests)
            complaints += said
    known = {(cluster.name, cluster.namespace) for cluster in manifests.clusters}
    for resource in _dependents(manifests):
        ref = resource.spec.cluster_ref.name
        if (ref, resource.namespace) not in known:
            complaints.append(_complaint(resource, f"there is no BrokerCluster {ref}; create it or correct clusterRef"))
    return Desired(manifests, clusters, tuple(complaints))


def _dependents(manifests: Manifests) -> list[Resource]:
    return [resource for resource in manifests.resources if not isinstance(resource, BrokerCluster)]


def _plan_cluster(cluster: BrokerCluster, manifests: Manifests) -> tuple[DesiredCluster, list[Complaint]]:
    layout = plan_cluster(cluster, manifests.of_kind(BrokerListener))
    quotas = plan_quotas(cluster, manifests.of_kind(BrokerListener), manifests.of_kind(ConnectionQuota))
    complaints = [Complaint("BrokerListener", clash.resource, clash.message) for clash in layout.clashes]
    complaints += [
        Complaint("ConnectionQuota", verdict.quota, verdict.message)
        for verdict in quotas.verdicts.values()
        if not verdict.target_found or verdict.conflicts
    ]
    observers = plan_observers(cluster, manifests.of_kind(ObserverPlugin))
    complaints += [
        Complaint("ObserverPlugin", name, verdict.message)
        for name, verdict in observers.verdicts.items()
        if verdict.outcome not in (PluginOutcome.ACCEPTED, PluginOutcome.DISABLED)
    ]
    topics: dict[str, Topic] = {}
    for topic in manifests.of_kind(Topic):
        if (topic.spec.cluster_ref.name, topic.namespace) != (cluster.name, cluster.namespace):
            continue
        if topic.topic_name in topics:
            other = topics[topic.topic_name].name
            complaints.append(_complaint(topic, f"Topic {other} has the same topicName; choose another"))
        else:
            topics[topic.topic_name] = topic
    target = ClusterTarget(cluster, tuple(cluster_listeners(cluster, manifests.of_kind(BrokerListener))))
    return DesiredCluster(target, quotas, observers, topics, float(cluster.spec.resync_seconds)), complaints


def _complaint(resource: Resource, message: str) -> Complaint:
    return Complaint(resource.kind, resource.name, message)


def not_for_a_laptop(manifests: Manifests) -> list[str]:
    """What is right in Kubernetes and cannot run here."""
    racks = [
        f"BrokerCluster {cluster.name}: spec.brokers.rack is a label of Kubernetes nodes, and `sluicegate up` has one"
        " machine and no nodes; take it out (and rollout.strategy: Rack with it)"
        for cluster in manifests.clusters
        if cluster.spec.topology_key is not None
    ]
    labels = [
        f"BrokerCluster {cluster.name}: spec.brokers.tagsFromNodeLabels are labels of Kubernetes nodes, and `sluicegate"
        " up` has one machine and no nodes; take it out (brokers.tags may stay)"
        for cluster in manifests.clusters
        if cluster.spec.brokers is not None and cluster.spec.brokers.tags_from_node_labels
    ]
    external = [
        f"BrokerCluster {cluster.name}: runtime External is governed by the operator only, and not by `sluicegate up`"
        for cluster in manifests.clusters
        if cluster.spec.is_external
    ]
    code = [
        f"ObserverPlugin {plugin.name}: spec.source is of Kubernetes, and `sluicegate up` has none; take it"
        " out, and have the module where Python finds it (PYTHONPATH)"
        for plugin in manifests.of_kind(ObserverPlugin)
        if plugin.spec.source is not None
    ]
    return (
        racks
        + labels
        + external
        + code
        + [
            f"BrokerCluster {cluster.name}: spec.controllers.replicas is {cluster.spec.controller_count}, and"
            " `sluicegate up` runs one controller: standbys share a journal in the Kubernetes API; set it to 1"
            for cluster in manifests.clusters
            if cluster.spec.shares_journal
        ]
    )


def broken_transitions(before: Manifests, after: Manifests) -> list[str]:
    """What an API server that holds `before` would refuse in `after`."""
    held = {(resource.kind, resource.namespace, resource.name): resource for resource in before.resources}
    sentences = []
    for resource in after.resources:
        old = held.get((resource.kind, resource.namespace, resource.name))
        if old is not None:
            sentences += [f"{resource.kind} {resource.name}: {problem}" for problem in broken_rules(resource, old)]
    return sentences


def removed_topics(before: DesiredCluster | None, after: DesiredCluster) -> Sequence[str]:
    """Topics to delete: their resource is gone and its deletionPolicy says so."""
    gone = {name: topic for name, topic in (before.topics if before else {}).items() if name not in after.topics}
    return [name for name, topic in gone.items() if topic.spec.deletion_policy == "Delete"]
