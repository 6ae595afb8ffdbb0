"""Statuses and Events, as several kinds write them."""

import logging
from collections.abc import Collection, Iterable

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.metadata import Resource, Status
from sluicegate_operator.engine.context import Found, ReconcileContext
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.planning.conditions import STALLED
from sluicegate_operator.planning.unreadable import UNREADABLE

log = logging.getLogger(__name__)


async def write_one_of_many(
    context: ReconcileContext, resource: Found, status: Status, *, without: Collection[str] = ()
) -> Found | None:
    """Write the status of one of several objects of a cluster as `ReconcileContext.write_status` does.

    Returns None also if the API server refuses it for good: the log says that once, and the other objects do not wait.
    Raises KubeError for a refusal that may pass.
    """
    try:
        return await context.write_status(resource, status, without=without)
    except KubeError as error:
        if error.retriable:
            raise
        if error.status != 404 and context.is_news(str(error), "status", resource.metadata.uid):
            log.warning("the status of %s %s is refused: %s", type(resource).__name__, resource.name, error)
        return None


def pass_over(context: ReconcileContext, name: str, uid: str, error: KubeError, what: str) -> None:
    """Log that `what` was not done to this pod, once if it is refused. Raises `error` if all pods may have to wait.

    One pod that has gone, or that a policy protects, keeps no other pod waiting.
    """
    if error.status in (404, 409):
        log.info("pod %s has gone or changed: %s: %s", name, what, error)
    elif error.retriable:
        raise error
    elif context.is_news(str(error), what, uid):
        log.warning("pod %s: %s: %s", name, what, error)


async def say_stalled(context: ReconcileContext, resource: Resource, status: Status) -> None:
    """A Warning when its new `status` says that a person is needed, and its old one did not. For objects that
    cannot be read `say_unreadable` does this."""
    old: Status = resource.status
    before, after = old.condition(STALLED), status.condition(STALLED)
    if after is None or after.status != "True" or after.reason == UNREADABLE:
        return
    if before is None or (before.status, before.reason) != (after.status, after.reason):
        await context.post(resource, "Warning", after.reason, after.message)


async def say_scaled_by_others(context: ReconcileContext, cluster: BrokerCluster, sentences: Iterable[str]) -> None:
    """One Warning for each set of nodes that another hand had scaled."""
    for sentence in sentences:
        await context.post(cluster, "Warning", "ScaledByOthers", sentence)
