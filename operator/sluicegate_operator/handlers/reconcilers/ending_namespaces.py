"""Stops creating objects for clusters whose namespace is being deleted.

The API server refuses every create in it, and the deletion cannot be undone. A cluster that is created again with the
same name, in a new namespace, has another uid.
"""

import logging
from collections.abc import Awaitable, Callable

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.work_queue import Again
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kube.http.errors import NamespaceGoingError
from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER

log = logging.getLogger(__name__)

CREATING = frozenset(
    {Queue.CLUSTERS, Queue.LISTENERS, Queue.OBSERVERS, Queue.PIPELINES, Queue.RACKS, Queue.REGISTRATIONS, Queue.ROLLS}
)
"""The queues that create objects, or change objects that are being deleted."""

Reconcile = Callable[[ClusterKey], Awaitable[Again]]


def until_namespace_ends(context: Context, name: Queue, reconcile: Reconcile) -> Reconcile:
    """Wrap the `reconcile` of the queue `name`: skip clusters whose namespace is being deleted.

    A cluster is skipped as soon as the API server has refused a create for that reason.
    """
    if name not in CREATING:
        return reconcile

    async def run(key: ClusterKey) -> Again:
        uid = await _uid(context, key)
        if uid and context.ending.get(key) == uid:
            return None
        context.ending.pop(key, None)
        try:
            return await reconcile(key)
        except NamespaceGoingError as error:
            if uid and context.ending.get(key) != uid:
                context.ending[key] = uid
                log.info(
                    "cluster %s of namespace %s: no more objects are created, because the namespace is being"
                    " deleted: %s",
                    key[1],
                    key[0],
                    error,
                )
            return None

    return run


async def _uid(context: Context, key: ClusterKey) -> str:
    """Return the uid of the BrokerCluster; empty if there is none."""
    for found in await context.kube.cache.resources(BROKER_CLUSTER, *key):
        return found.metadata.uid if isinstance(found, Resource) else str(found.body["metadata"].get("uid") or "")
    return ""
