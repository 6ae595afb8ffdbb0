"""The clusters of `sluicegate up`: for each name, one cluster runs here or is observed as an external cluster.

The engine handles rolls, scale and listeners. This module starts the nodes of a cluster, applies changes of its
manifests to them, and stops them when the cluster is gone.
"""

from collections.abc import Callable, Sequence
from functools import partial

from sluicegate_operator.api import BrokerCluster, BrokerListener
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.certificates.cluster_certificates import ClusterCertificates
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.external_clusters import FOLLOWERS, ExternalClusters
from sluicegate_operator.engine.listener_certificates import ListenerCertificates
from sluicegate_operator.engine.telling import report_certificates
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER
from sluicegate_operator.local.context import LocalContext
from sluicegate_operator.local.landers import LocalLanders
from sluicegate_operator.local.limit_changes import LimitChanges
from sluicegate_operator.planning.certificates.cluster_ca_status import CertificatesSeen

OF_BROKERS = (*FOLLOWERS, Queue.OBSERVERS)
"""The queues that reconcile again when brokers start or stop."""
EXTERNAL_EVERY_S = 5.0
CERTIFICATES_RETRY = Retry(2.0, 10.0)


class LocalClusters:
    """Reconciles the clusters of `sluicegate up`.

    `chosen` are the clusters that may run here; `external` has the brokers of external clusters.
    """

    def __init__(
        self, context: LocalContext, landers: LocalLanders, limits: LimitChanges, say: Callable[[str], None]
    ) -> None:
        self._context = context
        self._fleet = context.fleet
        self._landers = landers
        self._limits = limits
        self._say = say
        self._certificates = ListenerCertificates(context)
        self._own_certificates = ClusterCertificates(context, context.node_security)
        self._external = ExternalClusters(context)
        self._pids: dict[ClusterKey, tuple[int | None, ...]] = {}
        """Process ids of the brokers when the other queues were last marked for them."""
        self.chosen: set[ClusterKey] = set()
        self.external: dict[ClusterKey, tuple[BrokerAddress, ...]] = {}

    async def reconcile(self, key: ClusterKey) -> Again:
        snapshot = await self._context.gather(key, [BROKER_LISTENER])
        cluster = snapshot.cluster
        if cluster is None or key not in self.chosen:
            await self._remove(key)
            return None
        if cluster.spec.is_external:
            return await self._observe_external(cluster)
        certificates = await self._keep_certificates(cluster)
        if certificates is not None and not certificates.usable:
            return CERTIFICATES_RETRY
        if key not in self._context.running:
            await self._fleet.start(cluster, await self._admitted(snapshot.listeners))
            self._context.running.add(key)
        elif not cluster.spec.paused:
            await self._fleet.apply(cluster, snapshot.listeners)
        for queue in (Queue.ROLLS, Queue.LISTENERS):
            self._context.mark(queue, key)
        pids = tuple(running.child.pid for running in self._fleet.brokers(cluster))
        if pids != self._pids.get(key):
            self._pids[key] = pids
            self._mark_for_brokers(key)
        if certificates is not None and not certificates.settled:
            return CERTIFICATES_RETRY
        return self._context.resync_s(cluster)

    async def _keep_certificates(self, cluster: BrokerCluster) -> CertificatesSeen | None:
        """Make and renew the cluster's own certificates, also before the first start of a paused cluster."""
        if cluster.spec.paused and (cluster.namespace, cluster.name) in self._context.running:
            return None
        seen = await self._own_certificates.keep(cluster, partial(self._fleet.in_force, cluster))
        await report_certificates(self._context, cluster, seen)
        return seen

    async def _admitted(self, listeners: Sequence[BrokerListener]) -> list[BrokerListener]:
        """Return the listeners with their certificates. Brokers would restart for certificates after their start."""
        certificates = await self._certificates.apply(listeners, read_only=False)
        found = []
        for listener in listeners:
            status = listener.status.model_copy(update={"tls_secret": certificates[listener.name].secret})
            found.append(await self._context.write_status(listener, status) or listener)
        return found

    async def _remove(self, key: ClusterKey) -> None:
        if key not in self._context.running:
            return
        self._context.running.discard(key)
        self.external.pop(key, None)
        self._pids.pop(key, None)
        await self._context.forget_cluster(key)
        self._own_certificates.forget(key)
        self._limits.forget(key)
        await self._fleet.remove(*key)
        await self._landers.forget(key[1])

    async def _observe_external(self, cluster: BrokerCluster) -> Again:
        """Observe an external cluster: no broker is started or stopped for it."""
        key = (cluster.namespace, cluster.name)
        before = self.external.setdefault(key, ())
        self._context.running.add(key)
        again = await self._external.reconcile(cluster)
        brokers = await self._context.external.broker_addresses(cluster)
        if brokers != before:
            self.external[key] = brokers
            found = (await self._context.gather(key, ())).cluster
            if found is not None and brokers:
                at = ", ".join(f"{broker.broker_id} at {broker.host}:{broker.port}" for broker in brokers)
                self._say(f"{key[1]}: Kafka cluster {found.status.cluster_id}, brokers {at}")
            self._mark_for_brokers(key)
        return again if isinstance(again, Retry) else EXTERNAL_EVERY_S

    def _mark_for_brokers(self, key: ClusterKey) -> None:
        self._limits.doubt(key)
        for queue in OF_BROKERS:
            self._context.mark(queue, key)
