"""Watches pods and namespaces of any owner, only while a ConnectionQuota selects some."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.pods.workload_pods import trimmed, workload_pod
from sluicegate_operator.handlers.reconcilers.workloads import Workloads
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.cached_object import CachedObject, Json
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.http.kinds import NAMESPACE, POD, Kind
from sluicegate_operator.planning.limits.workloads import Members

log = logging.getLogger(__name__)

PODS_S, NAMESPACES_S = 30, 60
"""Periods of the watches of pods and namespaces, see kube.cache.watched.

They determine how soon a watch that was cut off silently is noticed.
"""
LOOK_S = 5.0
"""Seconds between two checks of the watches: no event reports that a watch has been broken for too long."""


class Feeding(Protocol):
    """Feeds one cache with objects of the API server until `stop`, see handlers.kopf_operator.KopfOperator."""

    def start(self) -> None: ...

    def stop(self) -> None: ...


MakeFeeding = Callable[[Cache], Feeding]


class PodsOfQuotas:
    """The members of quotas that select pods. Belongs to the event loop.

    `changed(cluster)` is called when members of the cluster's quotas were added or removed.
    """

    def __init__(self, feed: MakeFeeding, namespace: str | None, changed: Callable[[ClusterKey], None]) -> None:
        """`namespace` is the only one that may be watched; None means all."""
        self._feed = feed
        self._workloads = Workloads(changed)
        self._cache: Cache | None = None
        self._feeding: Feeding | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self.in_all_namespaces = namespace is None
        self.unseen = ""
        """Why changes of pods have not been seen for longer than a watch may fail; empty while they are seen.

        The first reason stays until changes are seen again.
        """

    def keep(self, cluster: ClusterKey, quotas: Iterable[ConnectionQuota]) -> None:
        """Record all current ConnectionQuotas of a cluster."""
        self._workloads.keep(cluster, quotas)
        if self._workloads.wanted and self._cache is None:
            self._watch()
        elif not self._workloads.wanted and self._cache is not None:
            self.close()

    def take_news(self, cluster: ClusterKey) -> Mapping[str, Members]:
        """Return the members of quotas by name, if they changed since the last call."""
        return self._workloads.take_news(cluster)

    def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._feeding is not None:
            self._feeding.stop()
        self._cache, self._feeding, self._tasks, self.unseen = None, None, [], ""
        self._workloads.forget()

    def _watch(self) -> None:
        watched = [Watched(POD, PODS_S, trim=trimmed)]
        if self.in_all_namespaces:
            watched.append(Watched(NAMESPACE, NAMESPACES_S, metadata_only=True))
        cache = self._cache = Cache(watched)
        cache.on_error = lambda: self._on_error(cache)
        self._feeding = self._feed(cache)
        self._feeding.start()
        self._tasks = [
            asyncio.create_task(self._fill(cache), name="pods of quotas"),
            asyncio.create_task(self._follow(cache), name="watches of pods of quotas"),
        ]

    async def _fill(self, cache: Cache) -> None:
        await cache.subscribe(self._on_change)
        for one in cache.informers().values():
            await one.has_synced.wait()
        log.info("watching pods, because a ConnectionQuota selects pods")
        self._workloads.note_all_known()

    def _on_change(self, kind: Kind, before: CachedObject | None, after: CachedObject | None) -> None:
        cached = after or before
        assert cached is not None, "one of them is there"
        body = None if after is None else _document(after)
        if kind == POD:
            self._workloads.on_pod(cached.uid, None if body is None else workload_pod(body))
        else:
            labels = None if body is None else body["metadata"].get("labels") or {}
            self._workloads.on_namespace(cached.name, labels)

    async def _follow(self, cache: Cache) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            self._judge(cache)

    def _on_error(self, cache: Cache) -> None:
        for kind, error in cache.errors().items():
            log.warning("cannot watch %s for ConnectionQuotas on workloads: %s", kind.plural, error)
        self._judge(cache)

    def _judge(self, cache: Cache) -> None:
        """Mark the keys of all quotas on workloads when the watches of pods begin to fail, and when they recover."""
        if cache is not self._cache:
            return
        now_s = time.monotonic()
        # A kind that is being listed for the first time has no error.
        watches = [one for one in cache.informers().values() if one.has_synced.is_set() or one.error is not None]
        reasons = [why for one in watches if (why := one.why_unknown(now_s)) is not None]
        if bool(reasons) != bool(self.unseen):
            self.unseen = str(reasons[0]) if reasons else ""
            self._workloads.mark_all()


def _document(cached: CachedObject) -> Json:
    assert isinstance(cached.value, Mapping), "pods and namespaces are cached as documents"
    return cached.value
