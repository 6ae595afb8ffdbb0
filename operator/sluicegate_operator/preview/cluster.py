"""The effects of other manifests on one cluster: what changes while it runs, and which nodes restart."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from sluicegate_operator.api.configs.config_keys import HIDDEN, is_secret
from sluicegate_operator.api.manifests import Manifests
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.api.models.observer_plugin import ObserverPlugin
from sluicegate_operator.api.models.topic import Topic
from sluicegate_operator.api.schema.quantities import amount
from sluicegate_operator.planning.layout.broker_config import plan_broker_config
from sluicegate_operator.planning.layout.cluster_layout import Role, dynamic_config, plan_cluster
from sluicegate_operator.planning.layout.preview_nodes import NodeKind, NodeRestart, RunningNodes, preview_restarts
from sluicegate_operator.planning.layout.volumes import wanted_storage
from sluicegate_operator.planning.limits.limits import ObservedLimits
from sluicegate_operator.planning.observers.observers import ObserverPlan, plan_observers, same_observer_value
from sluicegate_operator.planning.topics.topics import (
    AddPartitions,
    AlterTopicConfigs,
    CreateTopic,
    ObservedTopic,
    TopicAction,
    TopicOutcome,
    diff_topic,
    judge_topics,
    why_kept,
)
from sluicegate_operator.quotas.limit_changes import changed_limits
from sluicegate_operator.quotas.plan import QuotaPlan, plan_quotas


@dataclass(frozen=True, slots=True)
class ClusterPreview:
    """The effects of new manifests on a cluster.

    `live`: a phrase for each change while nodes run. `notes`: further facts for the user.
    """

    namespace: str
    name: str
    live: tuple[str, ...] = ()
    restarts: tuple[NodeRestart, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Versions:
    """All manifests in their present and new versions, at the time `now`. `kind` is the kind of the nodes."""

    before: Manifests
    after: Manifests
    kind: NodeKind
    now: datetime


def preview_cluster(cluster: BrokerCluster, versions: Versions, running: RunningNodes | None) -> ClusterPreview:
    """Return the effects on `cluster`, given in its new version.

    A cluster whose brokers run elsewhere has no nodes here.
    """
    key, before, after = (cluster.namespace, cluster.name), versions.before, versions.after
    old = next((one for one in before.clusters if (one.namespace, one.name) == key), None)
    live = [*_nodes(old, cluster), *_listeners(old, cluster, before, after), *_volumes(old, cluster)]
    live += _settings(old, cluster)
    live += changed_limits(
        _quotas(old, before, versions.now) if old is not None else None, _quotas(cluster, after, versions.now)
    )
    live += _observers(old, cluster, before, after)
    live += _topics(cluster, before, after)
    if old is None or old.spec.brokers is None or cluster.spec.brokers is None:
        return ClusterPreview(*key, tuple(live))
    seen = preview_restarts(
        (old, before.of_kind(BrokerListener)), (cluster, after.of_kind(BrokerListener)), running, versions.kind
    )
    return ClusterPreview(
        *key, tuple(live), seen.restarts, tuple(_notes(cluster, bool(seen.restarts), seen.by_manifests))
    )


def _quotas(cluster: BrokerCluster, manifests: Manifests, now: datetime) -> QuotaPlan:
    return plan_quotas(cluster, manifests.of_kind(BrokerListener), manifests.of_kind(ConnectionQuota), now)


def _notes(cluster: BrokerCluster, restarts: bool, by_manifests: bool) -> Iterator[str]:
    if cluster.spec.paused:
        yield "spec.paused is true: these changes wait until it is false"
    elif restarts and cluster.spec.rollout is not None and cluster.spec.rollout.paused:
        yield "rollout.paused is true: nodes are not restarted until it is false"
    if by_manifests:
        yield (
            "the operator has another version than this command, so the reasons are only the differences"
            " between the manifests"
        )


def _nodes(old: BrokerCluster | None, new: BrokerCluster) -> Iterator[str]:
    if new.spec.brokers is None:
        return
    wanted = new.spec.brokers.replicas
    if old is None or old.spec.brokers is None:
        yield f"brokers 0 to {wanted - 1} and {new.spec.controller_count} controllers are created"
        return
    there = old.spec.brokers.replicas
    if wanted > there:
        yield f"{_range('broker', there, wanted)} added"
    elif wanted < there:
        how = (
            "their replicas are moved to other brokers"
            if new.spec.brokers.drain
            else "you have moved their replicas to other brokers"
        )
        yield f"{_range('broker', wanted, there)} removed when {how}"
    if (count := new.spec.controller_count) != old.spec.controller_count:
        yield f"controllers {old.spec.controller_count} -> {count}"


def _range(what: str, start: int, stop: int) -> str:
    return f"{what} {start} is" if stop - start == 1 else f"{what}s {start} to {stop - 1} are"


def _volumes(old: BrokerCluster | None, new: BrokerCluster) -> Iterator[str]:
    if old is None or old.spec.brokers is None or new.spec.brokers is None:
        return
    for role in Role:
        was, size = wanted_storage(old, role).size, wanted_storage(new, role).size
        if amount(was) != amount(size):
            yield f"volumes of {role}s {was} -> {size}, if their StorageClass allows it"


def _listeners(old: BrokerCluster | None, new: BrokerCluster, before: Manifests, after: Manifests) -> Iterator[str]:
    if new.spec.brokers is None:
        return
    was: dict[str, int] = {}
    if old is not None and old.spec.brokers is not None:
        was = {p.name: p.port for p in plan_cluster(old, before.of_kind(BrokerListener)).listeners}
    planned = plan_cluster(new, after.of_kind(BrokerListener)).listeners
    now = {p.name: p.port for p in planned if p.resource is not None}
    for name, port in sorted(now.items()):
        if name not in was:
            yield f"listener {name} opens at port {port}"
        elif was[name] != port:
            yield f"listener {name} moves from port {was[name]} to {port}"
    for name in sorted(was.keys() - {p.name for p in planned}):
        yield f"listener {name} closes"


def _settings(old: BrokerCluster | None, new: BrokerCluster) -> Iterator[str]:
    """Yield the changes of the dynamic configuration, which includes tags."""
    was = dynamic_config(old) if old is not None else {}
    seen = {0: ObservedLimits(default=was)}
    plan = plan_broker_config(dynamic_config(new), seen, tuple(was), bundled=not new.spec.is_external)
    for action in plan.actions:
        for key, value in sorted(action.set.items()):
            yield f"{key}: {_shown(key, was.get(key))} -> {_shown(key, value)}"
        for key in action.delete:
            yield f"{key}: {_shown(key, was[key])} -> default"


def _shown(key: str, value: str | None) -> str:
    if value is None:
        return "default"
    return HIDDEN if is_secret(key) else value


def _observers(old: BrokerCluster | None, new: BrokerCluster, before: Manifests, after: Manifests) -> Iterator[str]:
    was = plan_observers(old, before.of_kind(ObserverPlugin)) if old is not None else ObserverPlan()
    now = plan_observers(new, after.of_kind(ObserverPlugin))
    for name in sorted({*was.keys, *now.keys}):
        if name not in now.keys:
            yield f"observer {name} ends"
        elif name not in was.keys:
            yield f"observer {name} begins"
        elif not all(
            same_observer_value(key, was.configs.get(key), now.configs.get(key))
            for key in {*was.keys[name], *now.keys[name]}
        ):
            yield f"observer {name} is reconfigured"


def _topics(cluster: BrokerCluster, before: Manifests, after: Manifests) -> Iterator[str]:
    known = {(topic.namespace, topic.name): topic for topic in before.of_kind(Topic)}
    verdicts = judge_topics(cluster, after.of_kind(Topic))
    for topic in after.of_kind(Topic):
        if (topic.namespace, topic.spec.cluster_ref.name) != (cluster.namespace, cluster.name):
            continue
        if verdicts[topic.name].outcome is TopicOutcome.ACCEPTED:
            old = known.get((topic.namespace, topic.name))
            if old is not None and topic.spec.replicas not in (None, old.spec.replicas):
                was = "the brokers' default" if old.spec.replicas is None else old.spec.replicas
                yield f"topic {topic.topic_name}: replicas {was} -> {topic.spec.replicas}, by reassignment"
            yield from (_topic_phrase(action) for action in diff_topic(topic, _as_was(old), _keys(old)))
    kept = {(topic.namespace, topic.name) for topic in after.of_kind(Topic)}
    for key, topic in known.items():
        if key not in kept and key[0] == cluster.namespace and topic.spec.cluster_ref.name == cluster.name:
            kept_because = why_kept(topic, after.of_kind(Topic))
            yield kept_because or f"topic {topic.topic_name} is deleted with its records"


def _as_was(topic: Topic | None) -> ObservedTopic | None:
    """Return the topic as its Topic described it: brokers are not asked."""
    if topic is None:
        return None
    return ObservedTopic("", topic.spec.partitions, topic.spec.replicas or 0, dict(topic.spec.config or {}))


def _keys(topic: Topic | None) -> tuple[str, ...]:
    return tuple(topic.spec.config or ()) if topic is not None else ()


def _topic_phrase(action: TopicAction) -> str:
    match action:
        case CreateTopic():
            return f"topic {action.name} is created with {action.partitions} partitions if it does not exist"
        case AddPartitions():
            return f"topic {action.name} gets {action.total} partitions"
        case AlterTopicConfigs():
            parts = [f"{key}={value}" for key, value in sorted(action.set.items())]
            parts += [f"{key} is reset to its default" for key in action.delete]
            return f"topic {action.name}: {', '.join(parts)}"
    raise ValueError(f"no manifest deletes a topic: {action}")
