"""kopf glue: every event of an object of ours, a node's pod or its StatefulSet marks a cluster's key in the queues.

on.event handlers leave no finalizer and no annotation on anybody's object.
"""

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import kopf

from sluicegate_operator.api.kinds import KINDS
from sluicegate_operator.api.metadata import GROUP, VERSION
from sluicegate_operator.engine.first_seen import FirstSeen
from sluicegate_operator.engine.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import WorkQueue
from sluicegate_operator.fleet.pods import node_pod
from sluicegate_operator.handlers.snapshot import cluster_keys
from sluicegate_operator.kube.kinds import (
    BROKER_CLUSTER,
    Kind,
)
from sluicegate_operator.planning.fencing import ContainerEnd
from sluicegate_operator.resources.audit_run import PIPELINE_LABEL
from sluicegate_operator.resources.labels import CLUSTER_LABEL, RACK

log = logging.getLogger(__name__)


class Watch:
    """What kopf tells of objects and pods, given to the queues that it concerns."""

    def __init__(
        self,
        first_seen: FirstSeen,
        queues: Mapping[str, WorkQueue[ClusterKey]],
        departed: dict[ClusterKey, Mapping[str, Any]],
    ) -> None:
        """`departed`: see Context."""
        self._first_seen = first_seen
        self._departed = departed
        self._queues = queues
        self._pods: dict[str, _PodNews] = {}
        self._node_sets: dict[str, int] = {}
        """By uid, their generations."""
        self._objects: dict[str, int] = {}
        """By uid, what people have written of each object, as a hash."""

    def register(self, registry: kopf.OperatorRegistry, kinds: Collection[Kind]) -> None:
        """The handlers only carry the events to the caller's loop: kopf runs on one of its own."""
        loop = asyncio.get_running_loop()

        def handler(take: Callable[[str | None, Mapping[str, Any]], None]) -> Any:
            async def carry(event: Mapping[str, Any], **_: Any) -> None:
                loop.call_soon_threadsafe(take, event["type"], event["object"])

            return carry

        for kind in kinds:
            take = partial(self.on_object, kind)
            kopf.on.event(GROUP, VERSION, kind.plural, registry=registry, id=kind.plural)(handler(take))
        labels = {CLUSTER_LABEL: kopf.PRESENT}
        kopf.on.event("v1", "pods", labels=labels, registry=registry, id="pods")(handler(self.on_pod))
        node_sets = kopf.on.event("apps", "v1", "statefulsets", labels=labels, registry=registry, id="statefulsets")
        node_sets(handler(self.on_node_set))

    def on_object(self, kind: Kind, type_: str | None, body: Mapping[str, Any]) -> None:
        """A change of nothing but its status is our own hand, and no news."""
        uid, written = body["metadata"]["uid"], _written(body)
        before = self._objects.pop(uid, None)
        if type_ != "DELETED":
            self._objects[uid] = written
        if type_ == "MODIFIED" and written == before:
            return
        self._first_seen.note(body)
        if type_ == "DELETED":
            self._first_seen.forget(body["metadata"]["uid"])
        for key in cluster_keys(kind, body):
            if type_ == "DELETED" and kind is BROKER_CLUSTER:
                self._departed[key] = body
            for queue in KINDS[kind.kind].queues:
                self._queues[queue].mark(key)

    def on_pod(self, type_: str | None, body: Mapping[str, Any]) -> None:
        """Only what changes where a node is and how it does is news: pods change their status often."""
        meta = body["metadata"]
        before = self._pods.pop(meta["uid"], _PodNews())
        now = _pod_news(None if type_ == "DELETED" else body)
        if type_ != "DELETED":
            self._pods[meta["uid"]] = now
        key = (meta["namespace"], meta["labels"][CLUSTER_LABEL])
        if now.phase != before.phase:
            self._queues["pipelines"].mark(key)
        elif now != before:
            for queue in ("registrations", "racks", "rolls", "clusters", "listeners"):
                self._queues[queue].mark(key)
        if now.reachable != before.reachable:
            for queue in ("quotas", "topics", "configs", "descriptions", "observers"):
                self._queues[queue].mark(key)

    def on_node_set(self, type_: str | None, body: Mapping[str, Any]) -> None:
        """Somebody scales it, asks for a restart or deletes it; its status is no news."""
        meta = body["metadata"]
        before = self._node_sets.pop(meta["uid"], None)
        if type_ != "DELETED":
            self._node_sets[meta["uid"]] = meta["generation"]
        if before is not None and (type_ == "DELETED" or before != meta["generation"]):
            for queue in ("clusters", "rolls"):
                self._queues[queue].mark((meta["namespace"], meta["labels"][CLUSTER_LABEL]))


def _written(body: Mapping[str, Any]) -> int:
    meta = body["metadata"]
    pairs = [tuple(sorted((meta.get(field) or {}).items())) for field in ("labels", "annotations")]
    return hash((meta.get("generation"), meta.get("deletionTimestamp"), *pairs))


@dataclass(frozen=True, slots=True)
class _PodNews:
    reachable: tuple[str, bool] = ("", False)
    """Where brokers are asked, and whether clients may: what limits and topics wait for."""
    containers_ready: bool = False
    deleting: bool = False
    node_lost: bool = False
    failing: str = ""
    ended: ContainerEnd | None = None
    node: str = ""
    rack: str = ""
    phase: str = ""
    """Of a run of an AuditPipeline."""


def _pod_news(body: Mapping[str, Any] | None) -> _PodNews:
    if body is None:
        return _PodNews()
    if PIPELINE_LABEL in body["metadata"]["labels"]:
        return _PodNews(phase=(body.get("status") or {}).get("phase") or "")
    pod = node_pod(body)
    if pod is None:
        return _PodNews()
    reachable = ("", False) if pod.deleting else (pod.host, pod.ready)
    return _PodNews(
        reachable,
        pod.containers_ready,
        pod.deleting,
        pod.node_lost,
        pod.failing,
        pod.ended,
        pod.node,
        pod.annotations.get(RACK, ""),
    )
