"""The operator's reconcilers of an external cluster, one step after the other, over objects in memory and real brokers.

async with governing(*objects) as governed:
    await governed.settle()
    governed.kube.condition("ConnectionQuota", "noisy")
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.configs import ConfigReconciler
from sluicegate_operator.engine.topics import TopicReconciler
from sluicegate_operator.engine.users.users import UserReconciler
from sluicegate_operator.engine.work_queue import Again
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.clusters import ClusterReconciler
from sluicegate_operator.handlers.reconcilers.registrations import RegistrationReconciler
from sluicegate_operator.planning.layout.broker_config import NO_OWN_TAGS, OwnTags
from sluicegate_operator.quotas.reconcile import QuotaReconciler
from sluicegate_operator.quotas.statuses import QuotaStatuses
from sluicegate_operator.settings import TOPIC_DELETION_S, TOPIC_PATIENCE_S, read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube

CLUSTER = "outside"
KEY = ("default", CLUSTER)
ROUNDS_MAX = 20


def document(kind: str, name: str, spec: Mapping[str, Any]) -> Json:
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": dict(spec)}


def external_cluster(servers: Sequence[str], **spec: Any) -> Json:
    return document("BrokerCluster", CLUSTER, {"runtime": "External", "bootstrapServers": list(servers), **spec})


def quota_of(name: str, target: Mapping[str, Any], **limits: Any) -> Json:
    return document("ConnectionQuota", name, {"clusterRef": {"name": CLUSTER}, "target": target, **limits})


def topic_of(name: str, **spec: Any) -> Json:
    return document("Topic", name, {"clusterRef": {"name": CLUSTER}, **spec})


class Governed:
    """The state of one operator; its successor is a second instance on the same `kube`."""

    def __init__(self, kube: MemoryKube) -> None:
        self.kube = kube
        self.context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self._due: set[str] = set()
        self.context.mark = lambda queue, _: self._due.add(queue)
        self.context.is_due = lambda queue, _: False
        quotas = QuotaReconciler(self.context)
        self._queues: dict[str, Callable[[tuple[str, str]], Awaitable[Again]]] = {
            Queue.STATUSES: QuotaStatuses(self.context, quotas.governed).reconcile,
            "clusters": ClusterReconciler(self.context).reconcile,
            "registrations": RegistrationReconciler(self.context).reconcile,
            "quotas": quotas.reconcile,
            "configs": ConfigReconciler(self.context, _no_tags).reconcile,
            "topics": TopicReconciler(self.context, patience_s=TOPIC_PATIENCE_S, deletion_s=TOPIC_DELETION_S).reconcile,
            "users": UserReconciler(self.context, deletion_s=TOPIC_DELETION_S).reconcile,
        }

    async def settle(self) -> None:
        """Run every queue once, then each queue that another one has marked meanwhile, until none is marked."""
        self._due = set(self._queues)
        for _ in range(ROUNDS_MAX):
            due, self._due = self._due & self._queues.keys(), set()
            if not due:
                return
            for name in (name for name in self._queues if name in due):
                await self._queues[name](KEY)
        raise AssertionError(f"still not settled: {self._due}")

    async def settle_until(self, is_so: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Settle until the condition holds, as it depends on time that passes elsewhere."""
        async with asyncio.timeout(timeout_s):
            while not is_so():
                await asyncio.sleep(0.1)
                await self.settle()

    def status(self, kind: str = "BrokerCluster", name: str = CLUSTER) -> Json:
        status: Json = self.kube.take(kind, name)["status"]
        return status

    def ready(self, kind: str = "BrokerCluster", name: str = CLUSTER) -> tuple[str, str, str]:
        """Status, reason and message."""
        found = self.kube.condition(kind, name)
        return found["status"], found["reason"], found["message"]


async def _no_tags(*_: object) -> tuple[OwnTags, dict[int, str]]:
    return NO_OWN_TAGS, {}


@asynccontextmanager
async def governing(*objects: Json, kube: MemoryKube | None = None) -> AsyncIterator[Governed]:
    """An operator over these objects; `kube` is what the previous operator has left."""
    governed = Governed(kube or MemoryKube())
    for one in objects:
        governed.kube.put(one)
    try:
        yield governed
    finally:
        await governed.context.aclose()
