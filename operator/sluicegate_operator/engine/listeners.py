"""Reconcile the BrokerListeners of a cluster: the fleet opens and closes them, and their statuses report it.

All listeners of a cluster are reconciled together, because a broker gets all of them at once. A roll does not delay
them.
"""

from collections.abc import Sequence
from functools import partial

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.context.context import FleetContext, now
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.engine.listener_certificates import ListenerCertificates
from sluicegate_operator.engine.telling import report_stalled, write_one_of_many
from sluicegate_operator.engine.work_queue import REFUSED_RETRY, Again, Retry, unless_refused
from sluicegate_operator.fleet.protocol import ListenersSeen
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER
from sluicegate_operator.planning.layout.cluster_layout import ClusterLayout
from sluicegate_operator.planning.listeners.exposure import HIDDEN
from sluicegate_operator.planning.listeners.listener_status import (
    NO_CERTIFICATE,
    CertificateSeen,
    ServicesSeen,
    listener_status,
)
from sluicegate_operator.planning.listeners.listeners import ListenerSeen, listener_seen

APPLYING_RETRY = Retry(0.5, 10.0)
WAITING_RETRY = Retry(2.0, 10.0)
"""Retry while an address is missing.

Nodes are not watched, and another controller sets a Service's address.
"""


class ListenerReconciler:
    """Opens and closes listeners on the brokers of a cluster, and writes the progress into their status."""

    def __init__(self, context: FleetContext) -> None:
        self._context = context
        self._certificates = ListenerCertificates(context)
        self._refusals = LastingRefusals()

    async def reconcile(self, key: ClusterKey) -> Again:
        """Reconcile the listeners of a cluster. Raises KubeError and UnreadableClusterError.

        A refusal that may pass is raised also after it has been written into a status, so that the listeners are
        reconciled again.
        """
        context, refusals = self._context, Refusals()
        snapshot = await context.gather(key, [BROKER_LISTENER])
        cluster, listeners = snapshot.cluster, snapshot.listeners
        if cluster is None or cluster.spec.brokers is None:
            for listener in listeners:
                await self._write(listener, None, ListenerSeen(), ServicesSeen(), refusals, NO_CERTIFICATE)
            return unless_refused(refusals, None)
        # Planned without those that cannot be read, brokers would close their ports.
        read_only = cluster.spec.paused or bool(snapshot.unreadable_of(BROKER_LISTENER))
        pool_of, lasts = partial(context.pool_of, cluster), partial(self._refusals.lasts, cluster.metadata.uid)
        certificates = await self._certificates.apply(listeners, read_only=read_only)
        admitted = [_with_certificate(listener, certificates[listener.name].secret) for listener in listeners]
        seen = await context.fleet.listeners.reconcile(cluster, admitted, pool_of, lasts, read_only=read_only)
        if seen.not_applied is None:
            self._refusals.ended(cluster.metadata.uid)
        await self._report(cluster, listeners, seen)
        changed: set[Queue] = set()
        for listener in (one for one in listeners if one.name in seen.fronts):
            on_brokers = listener_seen(listener.spec.name, seen.brokers)
            front, certificate = seen.fronts[listener.name], certificates[listener.name]
            changed |= await self._write(listener, seen.layout, on_brokers, front, refusals, certificate)
        for queue in sorted(changed):
            context.mark(queue, key)
        if seen.not_applied is not None:
            refusals.keep(seen.not_applied)
        return unless_refused(refusals, self._again(cluster, seen))

    def _again(self, cluster: BrokerCluster, seen: ListenersSeen) -> Again:
        """Return the shortest retry that a listener needs: a refused one does not delay the others."""
        brokers, fronts = seen.brokers, seen.fronts.values()
        if any(broker.applying for broker in brokers):
            return APPLYING_RETRY
        stuck = [front for front in fronts if front.refusal or front.name_taken or front.left_over]
        waits = any(broker.waits for broker in brokers) or any(front.waits for front in fronts if front not in stuck)
        if waits or len(brokers) < len(seen.layout.broker_ids):
            return WAITING_RETRY
        if stuck or any(broker.refused for broker in brokers):
            return REFUSED_RETRY
        return self._context.resync_s(cluster)

    async def _report(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener], seen: ListenersSeen) -> None:
        told, by_name = seen.told, {listener.spec.name: listener for listener in listeners}
        for name in sorted({name for one in told.values() for name in one.changed}):
            ids = ", ".join(str(broker_id) for broker_id in sorted(told) if name in told[broker_id].changed)
            if name in by_name:
                message = f"listener {name} was set on running brokers: {ids}"
                await self._context.post(by_name[name], "Normal", "ListenerApplied", message)
            else:
                message = f"listener {name} was closed on running brokers: {ids}"
                await self._context.post(cluster, "Normal", "ListenerClosed", message)

    async def _write(
        self,
        listener: BrokerListener,
        layout: ClusterLayout | None,
        seen: ListenerSeen,
        services: ServicesSeen,
        refusals: Refusals,
        certificate: CertificateSeen,
    ) -> set[Queue]:
        """Write the status and return the queues that depend on the changes.

        Quotas depend on hidden addresses and on open listeners; the cluster's status shows where clients connect first.
        """
        status = listener_status(listener, layout, seen, now(), services, certificate)
        if await write_one_of_many(self._context, listener, status, refusals):
            await report_stalled(self._context, listener, status)
        old, new = listener.status.condition(HIDDEN), status.condition(HIDDEN)
        hidden = (old and old.message, new and new.message)
        queues = set()
        if listener.status.brokers != status.brokers or hidden[0] != hidden[1]:
            queues.add(Queue.QUOTAS)
        if listener.status.bootstrap != status.bootstrap:
            queues.add(Queue.CLUSTERS)
        if listener.status.tls_secret != status.tls_secret:
            # Brokers mount another Secret, or the first one.
            queues.update((Queue.CLUSTERS, Queue.LISTENERS, Queue.QUOTAS, Queue.ROLLS))
        return queues


def _with_certificate(listener: BrokerListener, secret: str) -> BrokerListener:
    """Return the listener as it is after its status has been written."""
    if listener.status.tls_secret == secret:
        return listener
    return listener.model_copy(update={"status": listener.status.model_copy(update={"tls_secret": secret})})
