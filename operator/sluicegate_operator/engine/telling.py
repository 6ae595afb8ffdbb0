"""Write statuses and record Events, for several kinds."""

import logging
from collections.abc import Collection, Iterable

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.schema.metadata import Resource, Status
from sluicegate_operator.engine.context.context import Found, ReconcileContext
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.planning.certificates.cluster_ca_status import CertificatesSeen, certificates_finding
from sluicegate_operator.planning.status.conditions import STALLED
from sluicegate_operator.planning.status.unreadable import UNREADABLE

log = logging.getLogger(__name__)


async def write_one_of_many(
    context: ReconcileContext, resource: Found, status: Status, refusals: Refusals, *, without: Collection[str] = ()
) -> Found | None:
    """Write the status of one of several objects of a cluster, like `ReconcileContext.write_status`.

    If the API server refuses the write, returns None, and the other objects do not wait. The log reports a refusal for
    good once; `refusals` keeps one that may pass. Raises KubeError for an error that concerns all objects.
    """
    try:
        return await context.write_status(resource, status, without=without)
    except KubeError as error:
        if error.retriable:
            refusals.keep(error)
        elif error.status != 404 and context.is_news(str(error), "status", resource.metadata.uid):
            log.warning("the API server refused the status of %s %s: %s", type(resource).__name__, resource.name, error)
        return None


def pass_over(context: ReconcileContext, name: str, uid: str, error: KubeError, what: str, refusals: Refusals) -> None:
    """Log that `what` failed for this pod, so that the caller continues with the next pod.

    `refusals` gets an error that may pass, and raises it later if it concerns all pods. A final error, such as that of
    a policy or a webhook, is logged once for each pod. A pod that was deleted or has changed is logged each time.
    """
    if error.status in (404, 409):
        log.info("pod %s was deleted or has changed: %s: %s", name, what, error)
    elif error.retriable:
        refusals.keep(error)
    elif context.is_news(str(error), what, uid):
        log.warning("pod %s: %s: %s", name, what, error)


async def report_stalled(context: ReconcileContext, resource: Resource, status: Status) -> None:
    """Record a Warning when the new `status` is Stalled and the old status was not.

    Objects that cannot be read are reported by `report_unreadable` instead.
    """
    old: Status = resource.status
    before, after = old.condition(STALLED), status.condition(STALLED)
    if after is None or after.status != "True" or after.reason == UNREADABLE:
        return
    if before is None or (before.status, before.reason) != (after.status, after.reason):
        await context.post(resource, "Warning", after.reason, after.message)


async def report_certificates(context: ReconcileContext, cluster: BrokerCluster, seen: CertificatesSeen | None) -> None:
    """Record a Warning about what prevents the renewal of a cluster's own certificates.

    The Warning comes once while the cause lasts.
    """
    found = certificates_finding(seen) if seen is not None and (seen.problem or seen.ending) else None
    said = "" if found is None else found.message
    if context.is_news(said, "certificates", cluster.metadata.uid) and found is not None:
        log.warning("cluster %s: %s", cluster.name, said)
        await context.post(cluster, "Warning", found.reason, said)


async def report_foreign_scale(context: ReconcileContext, cluster: BrokerCluster, sentences: Iterable[str]) -> None:
    """Record a Warning for each set of nodes that another client has scaled; `sentences` describe them."""
    for sentence in sentences:
        await context.post(cluster, "Warning", "ScaledByOthers", sentence)
