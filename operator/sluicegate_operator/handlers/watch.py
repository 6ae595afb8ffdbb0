"""Marks the queues that each change in the cache concerns, with the cluster's key.

A change of a custom resource that users write marks the queues that `api/kinds.py` names. The methods below name the
queues for all other kinds. PersistentVolumeClaims mark no queue: reconcilers read them from the cache.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.engine.context.first_seen import FirstSeen
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import WorkQueue
from sluicegate_operator.fleet.pods.pods import node_pod
from sluicegate_operator.handlers.context import Departed
from sluicegate_operator.handlers.reconcilers.pipeline_places import PipelinePlaces
from sluicegate_operator.kube.cache.cached_object import CachedObject, UnreadableObject
from sluicegate_operator.kube.http.kinds import (
    AUDIT_PIPELINE,
    BROKER_CLUSTER,
    BROKER_REGISTRATION,
    CHILDREN,
    CONFIG_MAP,
    POD,
    SERVICE,
    STATEFUL_SET,
    USER_KINDS,
    Kind,
)
from sluicegate_operator.planning.registrations.fencing import ContainerEnd
from sluicegate_operator.resources.audit.audit_files import COMPONENT
from sluicegate_operator.resources.audit.audit_run import PIPELINE_LABEL
from sluicegate_operator.resources.labels import RACK, ROLE_LABEL, selector

_OF_CHANGED_PODS = (Queue.REGISTRATIONS, Queue.RACKS, Queue.ROLLS, Queue.CLUSTERS, Queue.LISTENERS)
"""Queues to mark when the place or health of a node changes."""
_OF_MOVED_BROKERS = (
    Queue.QUOTAS,
    Queue.TOPICS,
    Queue.CONFIGS,
    Queue.DESCRIPTIONS,
    Queue.OBSERVERS,
    Queue.USERS,
)
"""Queues that ask brokers. A pod that begins or ceases to answer marks them."""
ORPHAN_FINALIZER = "orphan"
"""The finalizer that the API server sets for `kubectl delete --cascade=orphan`.

The garbage collector removes it after it has removed the object from its children's owners.
"""


class Watch:
    """A subscriber of the cache that marks the queues that a change concerns."""

    def __init__(
        self,
        first_seen: FirstSeen,
        queues: Mapping[Queue, WorkQueue[ClusterKey]],
        departed: Departed,
    ) -> None:
        self._first_seen = first_seen
        self._departed = departed
        self._queues = queues
        self._places = PipelinePlaces()
        self._orphaning: set[str] = set()
        """Uids of deleted BrokerClusters whose children Kubernetes keeps: `kubectl delete --cascade=orphan`."""

    def on_change(self, kind: Kind, before: CachedObject | None, after: CachedObject | None) -> None:
        """Mark the queues that a change of an object concerns.

        `before` is None for a new object, and for each cached object when the term begins.
        """
        if kind in USER_KINDS:
            self._on_object(kind, before, after)
        elif kind == POD:
            self._on_pod(before, after)
        elif kind == STATEFUL_SET:
            self._on_node_set(before, after)
        elif kind == BROKER_REGISTRATION:
            self._on_registration(before, after)
        elif kind in (*CHILDREN, SERVICE):
            self._on_child(kind, before, after)

    def _on_object(self, kind: Kind, before: CachedObject | None, after: CachedObject | None) -> None:
        """Mark the queues of the object's kind, unless only the status has changed: the operator itself wrote it."""
        if before is not None and after is not None and _written(before) == _written(after):
            return
        if after is not None:
            self._first_seen.note({"metadata": {"uid": after.uid, "generation": _generation(after)}})
        if kind == BROKER_CLUSTER:
            self._orphaning.update(one.uid for one in (before, after) if one is not None and _is_orphaning(one))
        if before is not None and (after is None or after.uid != before.uid):
            self._first_seen.forget(before.uid)
            if kind == BROKER_CLUSTER:
                self._on_departed(before)
        for key in _clusters(before, after):
            for queue in KINDS[kind.kind].queues:
                self._queues[queue].mark(key)
        if kind in (AUDIT_PIPELINE, BROKER_CLUSTER):
            for key in self._places.concerned(before, after) - _clusters(before, after):
                self._queues[Queue.PIPELINES].mark(key)

    def _on_departed(self, before: CachedObject) -> None:
        """Note a deleted BrokerCluster, so that its claims are deleted with it.

        A cluster that is deleted with `--cascade=orphan` is not noted: its claims stay, and an owner that is gone would
        make the garbage collector delete them.
        """
        if before.uid in self._orphaning:
            self._orphaning.discard(before.uid)
        elif isinstance(before.value, BrokerCluster | UnreadableObject):
            self._departed.setdefault((before.namespace, before.cluster), {})[before.uid] = before.value

    def _on_pod(self, before: CachedObject | None, after: CachedObject | None) -> None:
        """Mark queues only for changes of a node's place or health: pods change their status often."""
        if before is not None and after is not None and before.cluster != after.cluster:
            # Another client has changed the label: one cluster lost the pod, and the other did not create it.
            self._on_pod(before, None)
            self._on_pod(None, after)
            return
        was, now = _pod_facts(before), _pod_facts(after)
        for key in _clusters(before, after):
            if now.phase != was.phase:
                self._queues[Queue.PIPELINES].mark(key)
            elif now != was:
                for queue in _OF_CHANGED_PODS:
                    self._queues[queue].mark(key)
            if now.reachable != was.reachable:
                for queue in _OF_MOVED_BROKERS:
                    self._queues[queue].mark(key)

    def _on_node_set(self, before: CachedObject | None, after: CachedObject | None) -> None:
        """Mark queues when another client scales or deletes the StatefulSet, or restarts it.

        Its status marks nothing.
        """
        if before is not None and (after is None or _generation(before) != _generation(after)):
            for queue in (Queue.CLUSTERS, Queue.ROLLS):
                self._queues[queue].mark((before.namespace, before.cluster))

    def _on_child(self, kind: Kind, before: CachedObject | None, after: CachedObject | None) -> None:
        """Mark queues when another client deletes or changes an applied child.

        A write of the operator itself causes one more reconcile, which changes nothing.
        """
        if before is not None and (after is None or _applied(before) != _applied(after)):
            for key in _clusters(before, after):
                for queue in _queues_of_child(kind, before):
                    self._queues[queue].mark(key)

    def _on_registration(self, before: CachedObject | None, after: CachedObject | None) -> None:
        """Mark a queue when another client deletes or changes a BrokerRegistration.

        The operator creates it again from the controller's view of the broker. Only the operator writes its status, so
        a status marks nothing.
        """
        if before is not None and (after is None or _written(before) != _written(after)):
            for key in _clusters(before, after):
                self._queues[Queue.REGISTRATIONS].mark(key)


def _queues_of_child(kind: Kind, child: CachedObject) -> tuple[Queue, ...]:
    """Return the queues whose reconcilers apply the child."""
    if kind != CONFIG_MAP:
        return (Queue.CLUSTERS, Queue.LISTENERS)
    assert isinstance(child.value, Mapping)
    labels = child.value["metadata"].get("labels") or {}
    # `clusters` creates the ConfigMap of a cluster's observers, and `observers` writes their code into it.
    return (Queue.PIPELINES,) if labels.get(ROLE_LABEL) == COMPONENT else (Queue.CLUSTERS, Queue.OBSERVERS)


def _clusters(before: CachedObject | None, after: CachedObject | None) -> set[ClusterKey]:
    """Return the clusters that an object belonged to and belongs to: another client may have changed its label."""
    return {(cached.namespace, cached.cluster) for cached in (before, after) if cached is not None and cached.cluster}


def _generation(cached: CachedObject) -> int:
    if isinstance(cached.value, Resource):
        return cached.value.metadata.generation
    body = cached.value.body if isinstance(cached.value, UnreadableObject) else cached.value
    return int(body["metadata"].get("generation") or 0)


def _is_orphaning(cached: CachedObject) -> bool:
    """Return whether the object is being deleted, and Kubernetes removes it as the owner of its children."""
    if isinstance(cached.value, Resource):
        meta = cached.value.metadata
        return meta.deletion_timestamp is not None and ORPHAN_FINALIZER in meta.finalizers
    found = (cached.value.body if isinstance(cached.value, UnreadableObject) else cached.value)["metadata"]
    return bool(found.get("deletionTimestamp")) and ORPHAN_FINALIZER in (found.get("finalizers") or ())


def _written(cached: CachedObject) -> Hashable:
    """Return the parts of an object that users write."""
    if isinstance(cached.value, Resource):
        meta = cached.value.metadata
        labels, annotations, deleted = meta.labels, meta.annotations, meta.deletion_timestamp is not None
    else:
        body = cached.value.body if isinstance(cached.value, UnreadableObject) else cached.value
        found = body["metadata"]
        labels, annotations = found.get("labels") or {}, found.get("annotations") or {}
        deleted = bool(found.get("deletionTimestamp"))
    pairs = [tuple(sorted(one.items())) for one in (labels, annotations)]
    return cached.uid, _generation(cached), deleted, *pairs


def _applied(cached: CachedObject) -> Hashable:
    """Return the object's applied state.

    Kinds without a generation, such as ConfigMaps and Services, use resourceVersion.
    """
    return _written(cached) if _generation(cached) else cached.version


@dataclass(frozen=True, slots=True)
class _PodFacts:
    reachable: tuple[str, bool] = ("", False)
    """The pod's address and whether it is ready: limits and topics wait for these."""
    containers_ready: bool = False
    deleting: bool = False
    node_lost: bool = False
    failing: str = ""
    ended: ContainerEnd | None = None
    node: str = ""
    rack: str = ""
    lost_labels: tuple[str, ...] = ()
    """Labels that the pod has lost, and by which its StatefulSet and Services select it.

    The RegistrationReconciler restores them.
    """
    phase: str = ""
    """Phase of a run of an AuditPipeline."""


def _pod_facts(cached: CachedObject | None) -> _PodFacts:
    if cached is None or isinstance(cached.value, Resource | UnreadableObject):
        return _PodFacts()
    body = cached.value
    if PIPELINE_LABEL in body["metadata"]["labels"]:
        return _PodFacts(phase=(body.get("status") or {}).get("phase") or "")
    pod = node_pod(body)
    if pod is None:
        return _PodFacts()
    wanted, has = selector(cached.cluster, pod.role), body["metadata"]["labels"]
    reachable = ("", False) if pod.deleting else (pod.host, pod.ready)
    return _PodFacts(
        reachable,
        pod.containers_ready,
        pod.deleting,
        pod.node_lost,
        pod.failing,
        pod.ended,
        pod.node,
        pod.annotations.get(RACK, ""),
        tuple(label for label, value in wanted.items() if has.get(label) != value),
    )
