"""One term of leadership: queues, reconcilers and the watch, from the moment the Lease is held until it is lost."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.configs import ConfigReconciler
from sluicegate_operator.engine.context.snapshot import ClusterKey, UnreadableClusterError
from sluicegate_operator.engine.listeners import ListenerReconciler
from sluicegate_operator.engine.observers import ObserverReconciler
from sluicegate_operator.engine.racks import RackReconciler
from sluicegate_operator.engine.rolls import RollReconciler
from sluicegate_operator.engine.topics import TopicReconciler
from sluicegate_operator.engine.users.users import UserReconciler
from sluicegate_operator.engine.work_queue import Again, Retry, WorkQueue
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.process.telemetry import QUEUE_DEPTH, QUEUE_OLDEST, RECONCILES, REGISTRY
from sluicegate_operator.handlers.reconcilers.clusters import ClusterReconciler
from sluicegate_operator.handlers.reconcilers.descriptions import DescriptionReconciler
from sluicegate_operator.handlers.reconcilers.ending_namespaces import until_namespace_ends
from sluicegate_operator.handlers.reconcilers.http_places import http_places
from sluicegate_operator.handlers.reconcilers.observer_code import CodeInConfigMaps
from sluicegate_operator.handlers.reconcilers.own_tags import own_tags
from sluicegate_operator.handlers.reconcilers.pipelines import PipelineReconciler
from sluicegate_operator.handlers.reconcilers.pods_of_quotas import MakeFeeding, PodsOfQuotas
from sluicegate_operator.handlers.reconcilers.registrations import RegistrationReconciler
from sluicegate_operator.handlers.watch import Watch
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.quotas.observing.observed import ObservedReconciler
from sluicegate_operator.quotas.reconcile import QuotaReconciler
from sluicegate_operator.quotas.statuses import QuotaStatuses
from sluicegate_operator.settings import Settings

log = logging.getLogger(__name__)

Reconcile = Callable[[ClusterKey], Awaitable[Again]]


async def lead(
    kube: KubeClient,
    settings: Settings,
    stop: asyncio.Event,
    may_write: Callable[[], bool],
    feed: MakeFeeding,
) -> None:
    """Run the reconcilers of this term of leadership until `stop`.

    Raises the error that ends a queue, although no queue should end.

    kopf feeds the cache of `kube` also before and after the term; `feed` makes kopf feed another cache.
    """
    context = Context(kube, settings, may_write)
    pods = PodsOfQuotas(feed, settings.namespace, lambda key: queues[Queue.QUOTAS].mark(key))
    work = reconcilers(context, settings, pods)
    work = {name: until_namespace_ends(context, name, reconcile) for name, reconcile in work.items()}
    queues = {name: WorkQueue(name, counted(name, reconcile)) for name, reconcile in work.items()}
    context.mark = lambda name, key: queues[name].mark(key)
    context.is_due = lambda name, key: queues[name].is_due(key)
    _show(queues)
    watch = Watch(context.first_seen, queues, context.departed)
    REGISTRY.register(context.figures)
    try:
        async with asyncio.TaskGroup() as group:
            running = [group.create_task(queue.run()) for queue in queues.values()]
            running.append(group.create_task(kube.cache.subscribe(watch.on_change)))
            await stop.wait()
            for task in running:
                task.cancel()
    finally:
        _hide(queues)
        kube.cache.unsubscribe(watch.on_change)
        REGISTRY.unregister(context.figures)
        pods.close()
        await context.aclose()


def reconcilers(context: Context, settings: Settings, pods: PodsOfQuotas | None = None) -> dict[Queue, Reconcile]:
    """Return the reconciler for each work queue."""
    topics = TopicReconciler(context, patience_s=settings.topic_patience_s, deletion_s=settings.topic_deletion_s)
    quotas = QuotaReconciler(context, pods)
    return {
        Queue.QUOTAS: quotas.reconcile,
        Queue.STATUSES: QuotaStatuses(context, quotas.governed).reconcile,
        Queue.OBSERVED: ObservedReconciler(context, quotas.governed, partial(http_places, context)).reconcile,
        Queue.CLUSTERS: ClusterReconciler(context).reconcile,
        Queue.LISTENERS: ListenerReconciler(context).reconcile,
        Queue.TOPICS: topics.reconcile,
        Queue.REGISTRATIONS: RegistrationReconciler(context).reconcile,
        Queue.RACKS: RackReconciler(context).reconcile,
        Queue.ROLLS: RollReconciler(context).reconcile,
        Queue.CONFIGS: ConfigReconciler(context, partial(own_tags, context)).reconcile,
        Queue.DESCRIPTIONS: DescriptionReconciler(context).reconcile,
        Queue.OBSERVERS: ObserverReconciler(context, CodeInConfigMaps(context)).reconcile,
        Queue.PIPELINES: PipelineReconciler(context).reconcile,
        Queue.USERS: UserReconciler(context, deletion_s=settings.topic_deletion_s).reconcile,
    }


def _show(queues: Mapping[Queue, WorkQueue[ClusterKey]]) -> None:
    now_s = asyncio.get_running_loop().time
    for name, queue in queues.items():
        QUEUE_DEPTH.labels(name).set_function(lambda queue=queue: queue.depth)  # type: ignore[misc]
        QUEUE_OLDEST.labels(name).set_function(lambda queue=queue: queue.oldest_s(now_s()))  # type: ignore[misc]


def _hide(queues: Iterable[Queue]) -> None:
    """Remove the gauges of `queues`: the age of keys in an ended term would grow for ever."""
    for name in queues:
        QUEUE_DEPTH.remove(name)
        QUEUE_OLDEST.remove(name)


def counted(name: str, reconcile: Reconcile) -> Reconcile:
    """Return the reconciler of a queue that also counts its reconciles by their results.

    A cluster that cannot be read ends the reconcile without an error: its change is an event.
    """

    async def run(key: ClusterKey) -> Again:
        result = "error"
        try:
            again = await reconcile(key)
            result = "unsettled" if isinstance(again, Retry) else "success"
            return again
        except UnreadableClusterError as error:
            # The clusters' queue reports it. Nothing changes until the object changes, which is an event.
            log.info("%s %s: %s", name, key, error)
            result = "unreadable"
            return None
        finally:
            RECONCILES.labels(name, result).inc()

    return run
