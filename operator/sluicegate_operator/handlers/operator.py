"""One term of leadership: queues, reconcilers and kopf, from the moment the Lease is held until it is lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import kopf

from sluicegate_operator.handlers.clusters import ClusterReconciler
from sluicegate_operator.handlers.configs import ConfigReconciler
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.quotas import QuotaReconciler
from sluicegate_operator.handlers.racks import RackReconciler
from sluicegate_operator.handlers.registrations import RegistrationReconciler
from sluicegate_operator.handlers.rolls import RollReconciler
from sluicegate_operator.handlers.snapshot import ClusterKey, UnreadableClusterError
from sluicegate_operator.handlers.telemetry import QUEUE_DEPTH, RECONCILES
from sluicegate_operator.handlers.topics import TopicReconciler
from sluicegate_operator.handlers.watch import Watch
from sluicegate_operator.handlers.work_queue import Again, Retry, WorkQueue
from sluicegate_operator.kube.client import KubeClient
from sluicegate_operator.settings import Settings

log = logging.getLogger(__name__)

Reconcile = Callable[[ClusterKey], Awaitable[Again]]


async def lead(kube: KubeClient, settings: Settings, stop: asyncio.Event, may_write: Callable[[], bool]) -> None:
    """Runs until `stop`, or until SIGTERM or SIGINT, whose handlers kopf takes over while it runs.

    Raises what ends kopf or a queue, neither of which may end by itself.
    """
    context = Context(kube, settings, may_write)
    topics = TopicReconciler(context)
    reconcilers: dict[str, Reconcile] = {
        "quotas": QuotaReconciler(context).reconcile,
        "clusters": ClusterReconciler(context).reconcile,
        "topics": topics.reconcile,
        "registrations": RegistrationReconciler(context).reconcile,
        "racks": RackReconciler(context).reconcile,
        "rolls": RollReconciler(context).reconcile,
        "configs": ConfigReconciler(context).reconcile,
    }
    queues = {name: WorkQueue(name, counted(name, reconcile)) for name, reconcile in reconcilers.items()}
    context.mark = lambda name, key: queues[name].mark(key)
    context.is_due = lambda name, key: queues[name].is_due(key)
    for name, queue in queues.items():
        QUEUE_DEPTH.labels(name).set_function(lambda queue=queue: queue.depth)  # type: ignore[misc]
    registry = kopf.OperatorRegistry()
    kopf.on.startup(registry=registry)(configure)
    kopf.on.login(registry=registry)(login)
    Watch(context.first_seen, queues, topics).register(registry)
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(queue.run()) for queue in queues.values()]
            watching = group.create_task(watch(registry, settings, stop))
            await watching
            for task in running:
                task.cancel()
    finally:
        await context.close()


async def watch(registry: kopf.OperatorRegistry, settings: Settings, stop: asyncio.Event) -> None:
    await kopf.operator(
        registry=registry,
        standalone=True,
        clusterwide=settings.namespace is None,
        namespaces=[settings.namespace] if settings.namespace else [],
        # Without it kopf asks for the name of the user, and a container's uid need not have one.
        identity=cast(Any, settings.identity),
        stop_flag=stop,
    )


def counted(name: str, reconcile: Reconcile) -> Reconcile:
    async def run(key: ClusterKey) -> Again:
        result = "error"
        try:
            again = await reconcile(key)
            result = "unsettled" if isinstance(again, Retry) else "success"
            return again
        except UnreadableClusterError as error:
            # The clusters' queue says it. Everything stays as it is until the object changes, which is an event.
            log.info("%s %s: %s", name, key, error)
            result = "unreadable"
            return None
        finally:
            RECONCILES.labels(name, result).inc()

    return run


async def configure(settings: kopf.OperatorSettings, **_: object) -> None:
    """Limits on everything that kopf leaves open; the Lease decides who acts, not kopf's peering."""
    settings.peering.standalone = True
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 310
    settings.watching.connect_timeout = 15
    settings.watching.inactivity_timeout = 70
    settings.networking.request_timeout = 30
    settings.networking.connect_timeout = 5
    settings.execution.default_backoff = 5
    settings.queueing.worker_limit = 100
    settings.posting.enabled = False
    settings.scanning.disabled = True


def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_service_account(**kwargs) or kopf.login_with_kubeconfig(**kwargs)
