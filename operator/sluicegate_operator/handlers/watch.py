"""kopf glue: every event of an object of ours, or of a broker's pod, marks a cluster's key in the queues. Nothing else.

on.event handlers leave no finalizer and no annotation on anybody's object.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

import kopf

from sluicegate_operator.api.manifests import InvalidManifest, parse_resource
from sluicegate_operator.api.metadata import GROUP, VERSION
from sluicegate_operator.api.topic import Topic
from sluicegate_operator.fleet.kubernetes import node_pod
from sluicegate_operator.handlers.context import FirstSeen
from sluicegate_operator.handlers.snapshot import ClusterKey, cluster_keys
from sluicegate_operator.handlers.topics import TopicReconciler
from sluicegate_operator.handlers.work_queue import WorkQueue
from sluicegate_operator.kube.kinds import BROKER_CLUSTER, BROKER_LISTENER, CONNECTION_QUOTA, CUSTOM, TOPIC, Kind
from sluicegate_operator.resources.labels import CLUSTER_LABEL

log = logging.getLogger(__name__)


class Watch:
    def __init__(
        self,
        first_seen: FirstSeen,
        queues: Mapping[str, WorkQueue[ClusterKey]],
        topics: TopicReconciler,
    ) -> None:
        self._first_seen = first_seen
        self._quotas, self._clusters, self._topics = queues["quotas"], queues["clusters"], queues["topics"]
        self._topic_reconciler = topics
        self._pods: dict[str, tuple[str, bool]] = {}

    def register(self, registry: kopf.OperatorRegistry) -> None:
        for kind in CUSTOM:
            kopf.on.event(GROUP, VERSION, kind.plural, registry=registry, id=kind.plural)(self._handler(kind))
        kopf.on.event("v1", "pods", labels={CLUSTER_LABEL: kopf.PRESENT}, registry=registry, id="pods")(self.on_pod)

    def _handler(self, kind: Kind) -> Any:
        async def on_object(event: Mapping[str, Any], **_: Any) -> None:
            self.on_object(kind, event["type"], event["object"])

        return on_object

    def on_object(self, kind: Kind, type_: str | None, body: Mapping[str, Any]) -> None:
        self._first_seen.note(body, asyncio.get_running_loop().time())
        if type_ == "DELETED":
            self._first_seen.forget(body["metadata"]["uid"])
        for key in cluster_keys(kind, body):
            if kind in (CONNECTION_QUOTA, BROKER_LISTENER, BROKER_CLUSTER):
                self._quotas.mark(key)
            if kind in (BROKER_LISTENER, BROKER_CLUSTER):
                self._clusters.mark(key)
            if kind in (TOPIC, BROKER_CLUSTER):
                self._topics.mark(key)
            if kind is TOPIC and type_ == "DELETED":
                self._note_deleted(key, body)

    def _note_deleted(self, key: ClusterKey, body: Mapping[str, Any]) -> None:
        try:
            topic = parse_resource({**body, "apiVersion": TOPIC.api_version, "kind": TOPIC.kind})
        except InvalidManifest as error:
            log.error("the deleted Topic %s cannot be read: %s", body["metadata"]["name"], error)
            return
        if isinstance(topic, Topic):
            self._topic_reconciler.note_deleted(key, topic)

    async def on_pod(self, event: Mapping[str, Any], **_: Any) -> None:
        """Only what changes where a broker is, or whether it is ready, is news: pods change their status often."""
        body = event["object"]
        meta = body["metadata"]
        node = None if event["type"] == "DELETED" else node_pod(body)
        now = ("", False) if node is None else (node.host, node.ready)
        if self._pods.get(meta["uid"], ("", False)) == now:
            return
        if event["type"] == "DELETED":
            self._pods.pop(meta["uid"], None)
        else:
            self._pods[meta["uid"]] = now
        key = (meta["namespace"], meta["labels"][CLUSTER_LABEL])
        for queue in (self._quotas, self._clusters, self._topics):
            queue.mark(key)
