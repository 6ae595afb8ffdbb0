"""A BrokerCluster and its BrokerListeners: their children, and what is seen of their pods in their status."""

import logging

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.asking import NoBrokerError
from sluicegate_operator.fleet.pods import NodePod
from sluicegate_operator.handlers.context import Context, now
from sluicegate_operator.handlers.snapshot import ClusterKey, Snapshot, gather_snapshot
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.planning.cluster_layout import ClusterLayout, Role, plan_cluster
from sluicegate_operator.planning.cluster_status import ObservedCluster, cluster_status, listener_status

log = logging.getLogger(__name__)

STARTING_RETRY_S = 2.0


class ClusterReconciler:
    def __init__(self, context: Context) -> None:
        self._context = context

    async def reconcile(self, key: ClusterKey) -> float | None:
        context = self._context
        snapshot = await gather_snapshot(context.kube, key)
        cluster = snapshot.cluster
        if cluster is None or cluster.spec.brokers is None:
            await context.forget_cluster(key)
            await self._write_listeners(snapshot, None, [])
            return None
        layout = plan_cluster(cluster, snapshot.listeners)
        refusal = "" if cluster.spec.paused else await self._apply(snapshot, cluster)
        pods = [pod for pod in await context.fleet.pods(cluster) if not pod.deleting]
        seen = await self._observe(cluster, layout, pods, refusal)
        await context.write_status(cluster, cluster_status(cluster, seen, now()), without=["dynamicConfigKeys"])
        await self._write_listeners(snapshot, layout, pods)
        settled = not refusal and seen.brokers_ready >= seen.brokers_expected
        return context.resync_s(cluster) if settled else STARTING_RETRY_S

    async def _apply(self, snapshot: Snapshot, cluster: BrokerCluster) -> str:
        """Why a child was refused for good; empty when all were applied. Raises KubeError for what may pass."""
        try:
            await self._context.fleet.apply(cluster, snapshot.listeners)
            self._context.mark("rolls", (cluster.namespace, cluster.name))
        except KubeError as error:
            if error.retriable:
                raise
            await self._context.post(cluster, "Warning", "ApplyFailed", str(error))
            return str(error)
        return ""

    async def _observe(
        self, cluster: BrokerCluster, layout: ClusterLayout, pods: list[NodePod], error: str
    ) -> ObservedCluster:
        brokers = [pod for pod in pods if pod.role is Role.BROKER and pod.ordinal in layout.broker_ids]
        controllers = [pod for pod in pods if pod.role is Role.CONTROLLER]
        progress = self._context.progress[cluster.namespace, cluster.name]
        return ObservedCluster(
            brokers_expected=len(layout.broker_ids),
            brokers_ready=sum(pod.ready for pod in brokers),
            controllers_expected=len(layout.controller_ids),
            controllers_ready=sum(pod.ready for pod in controllers),
            cluster_id=layout.cluster_id,
            controller_id=await self._controller_id(cluster, brokers),
            error=error,
            roll=progress.roll,
            scale=progress.scale,
            racks=progress.racks,
            config_lagging=progress.config_lagging,
        )

    async def _controller_id(self, cluster: BrokerCluster, brokers: list[NodePod]) -> int:
        if not any(pod.ready for pod in brokers):
            return -1
        pool = await self._context.pool(cluster)
        if pool is None:
            return -1
        try:
            # Whoever is there now: the client itself knows the addresses that brokers had when it was made.
            return (await pool.ask_any(lambda _, handle: handle.describe_cluster())).controller_id
        except (KafkaAdminError, NoBrokerError) as error:
            log.info("cluster %s cannot be described: %s", cluster.name, error)
            return -1

    async def _write_listeners(self, snapshot: Snapshot, layout: ClusterLayout | None, pods: list[NodePod]) -> None:
        ready = [pod for pod in pods if pod.role is Role.BROKER and pod.ready]
        for listener in snapshot.listeners:
            addresses = [f"{pod.host}:{listener.spec.port}" for pod in ready] if layout else []
            await self._context.write_status(listener, listener_status(listener, layout, addresses, now()))
