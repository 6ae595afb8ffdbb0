"""A BrokerCluster and its BrokerListeners: their children, and what is seen of their pods in their status."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.api.manifests import InvalidManifest, read_stored
from sluicegate_operator.api.metadata import Status
from sluicegate_operator.fleet.asking import NoBrokerError
from sluicegate_operator.fleet.claims import own_claims
from sluicegate_operator.fleet.failing import failing_nodes
from sluicegate_operator.fleet.kubernetes import broker_addresses
from sluicegate_operator.fleet.listeners import ask_ports
from sluicegate_operator.fleet.pods import NodePod
from sluicegate_operator.handlers.context import Context, now
from sluicegate_operator.handlers.settling import Settling
from sluicegate_operator.handlers.snapshot import ClusterKey, Snapshot, UnreadableClusterError, gather_snapshot
from sluicegate_operator.handlers.work_queue import Again, Retry
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kube.errors import ClaimsTakenError, KubeError, NameTakenError
from sluicegate_operator.kube.kinds import BROKER_LISTENER
from sluicegate_operator.planning.cluster_layout import ClusterLayout, Role, cluster_id, plan_cluster
from sluicegate_operator.planning.cluster_status import ObservedCluster, cluster_status, listener_status
from sluicegate_operator.planning.conditions import STALLED
from sluicegate_operator.planning.fencing import ContainerEnd
from sluicegate_operator.planning.listeners import ServingBroker, listener_seen
from sluicegate_operator.planning.start_failures import FailureHistory, NodesNotStarting
from sluicegate_operator.planning.unreadable import UNREADABLE

log = logging.getLogger(__name__)

_Life = tuple[str, ContainerEnd | None]
"""Of one process: its pod's uid, and how the one before it in that pod ended."""

STARTING_RETRY = Retry(2.0, 10.0)
REFUSED_RETRY = Retry(10.0, 60.0)
"""Nothing tells when a quota has room again."""


@dataclass(frozen=True, slots=True)
class _Applied:
    """What became of the children: `refusal`, `name_taken` and `claims_taken` are sentences about the cluster's own,
    `services_taken` by listener. `unreadable`: what they follow from and cannot be read."""

    refusal: str = ""
    name_taken: str = ""
    claims_taken: str = ""
    unreadable: str = ""
    services_taken: Mapping[str, str] = field(default_factory=dict)


class ClusterReconciler:
    """Keeps a cluster's children as its manifests want them, and says in its status what is seen of its pods."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ports: dict[ClusterKey, dict[_Life, Mapping[str, int]]] = {}
        """What brokers have open, which is fixed as long as their processes live."""
        self._failures: defaultdict[ClusterKey, FailureHistory] = defaultdict(FailureHistory)
        self._settling = Settling(context.settings.settle_s)

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        try:
            snapshot = await gather_snapshot(context.kube, key, [BROKER_LISTENER])
        except UnreadableClusterError as error:
            await context.say_unreadable([error.unreadable])
            raise
        await context.say_unreadable(snapshot.unreadable_of(BROKER_LISTENER))
        cluster = snapshot.cluster
        await self._let_claims_go(key, cluster)
        if cluster is None or cluster.spec.brokers is None:
            await context.forget_cluster(key)
            self._ports.pop(key, None)
            self._failures.pop(key, None)
            self._settling.forget(key)
            await self._write_listeners(snapshot, None, (), _Applied())
            return None
        if not cluster.status.cluster_id:
            resources = (cluster, *snapshot.listeners)
            wait_s = self._settling.wait_s(key, resources, asyncio.get_running_loop().time())
            if wait_s > 0:
                return wait_s
        applied = _Applied() if cluster.spec.paused else await self._apply(snapshot, cluster)
        pods = [pod for pod in await context.fleet.pods(cluster) if not pod.deleting]
        layout = plan_cluster(cluster, snapshot.listeners, _broker_count(cluster, pods))
        seen = await self._observe(cluster, layout, pods, applied)
        await self._write(cluster, cluster_status(cluster, seen, now()), without=["dynamicConfigKeys"])
        serving = await self._serving(key, pods) if snapshot.listeners else ()
        await self._write_listeners(snapshot, layout, serving, applied)
        told = all(broker.ports is not None for broker in serving)
        if seen.refusal:
            return REFUSED_RETRY
        settled = told and seen.brokers_ready >= seen.brokers_expected
        return context.resync_s(cluster) if settled else STARTING_RETRY

    async def _let_claims_go(self, key: ClusterKey, now_there: BrokerCluster | None) -> None:
        """Of a cluster that was deleted before its claims were told that they go with it. Raises KubeError."""
        body = self._context.departed.get(key)
        if body is None:
            return
        try:
            departed = read_stored(body)
        except InvalidManifest as error:
            log.warning("what cluster %s said of its volume claims cannot be read, they stay: %s", key[1], error)
            departed = None
        if isinstance(departed, BrokerCluster) and departed.spec.deletes_claims:
            taken_up = now_there is not None and cluster_id(now_there) == cluster_id(departed)
            if not taken_up:
                await own_claims(self._context.kube, departed)
        del self._context.departed[key]

    async def _apply(self, snapshot: Snapshot, cluster: BrokerCluster) -> _Applied:
        """Raises KubeError for what may pass."""
        if unreadable := snapshot.unreadable_of(BROKER_LISTENER):
            # Planned without them, brokers would close their ports.
            return _Applied(unreadable="; ".join(str(item) for item in unreadable))
        try:
            nodes = await self._context.fleet.apply(cluster, snapshot.listeners)
        except NameTakenError as error:
            return _Applied(name_taken=str(error))
        except ClaimsTakenError as error:
            return _Applied(claims_taken=str(error))
        except KubeError as error:
            if error.retriable:
                raise
            return _Applied(refusal=str(error))
        self._context.mark("rolls", (cluster.namespace, cluster.name))
        await self._context.say_scaled_by_others(cluster, nodes)
        return _Applied(services_taken=nodes.services_taken)

    async def _observe(
        self, cluster: BrokerCluster, layout: ClusterLayout, pods: list[NodePod], applied: _Applied
    ) -> ObservedCluster:
        brokers = [pod for pod in pods if pod.role is Role.BROKER and pod.ordinal in layout.broker_ids]
        controllers = [pod for pod in pods if pod.role is Role.CONTROLLER]
        progress = self._context.progress[cluster.namespace, cluster.name]
        return ObservedCluster(
            brokers_expected=len(layout.broker_ids),
            brokers_ready=sum(pod.ready for pod in brokers),
            controllers_expected=len(layout.controller_ids),
            controllers_ready=sum(pod.ready for pod in controllers),
            cluster_id="" if applied.claims_taken else layout.cluster_id,
            controller_id=await self._controller_id(cluster, brokers),
            refusal=applied.refusal,
            not_starting=await self._not_starting(cluster, layout, pods),
            name_taken=applied.name_taken,
            claims_taken=applied.claims_taken,
            unreadable=applied.unreadable,
            followed_generation=min(progress.roll_generation, progress.config_generation),
            roll=progress.roll,
            scale=progress.scale,
            racks=progress.racks,
            config_lagging=progress.config_lagging,
            config_refused=progress.config_refused,
            unreachable=progress.unreachable,
        )

    async def _not_starting(
        self, cluster: BrokerCluster, layout: ClusterLayout, pods: Sequence[NodePod]
    ) -> NodesNotStarting | None:
        seen = await failing_nodes(self._context.kube, cluster, layout, pods)
        history, now_s = self._failures[cluster.namespace, cluster.name], asyncio.get_running_loop().time()
        return history.note(cluster.metadata.generation, seen.failing, seen.unwell, now_s)

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
            if self._context.is_news(str(error), "describing", cluster.metadata.uid):
                log.info("cluster %s cannot be described: %s", cluster.name, error)
            return -1

    async def _serving(self, key: ClusterKey, pods: Sequence[NodePod]) -> tuple[ServingBroker, ...]:
        """The brokers that are ready; each is asked once in its process's life."""
        ready = {_life(pod): pod for pod in pods if pod.role is Role.BROKER and pod.ready}
        known = {life: ports for life, ports in self._ports.get(key, {}).items() if life in ready}
        asked = {pod.ordinal for life, pod in ready.items() if life not in known}
        pool = await self._context.pool_of(key, broker_addresses(pods)) if asked else None
        if pool is not None:
            told = await ask_ports(replace(pool, brokers=tuple(b for b in pool.brokers if b.broker_id in asked)))
            known |= {life: told[pod.ordinal] for life, pod in ready.items() if pod.ordinal in told}
        self._ports[key] = known
        return tuple(ServingBroker(pod.ordinal, pod.host, known.get(life)) for life, pod in ready.items())

    async def _write_listeners(
        self, snapshot: Snapshot, layout: ClusterLayout | None, serving: Sequence[ServingBroker], applied: _Applied
    ) -> None:
        for listener in snapshot.listeners:
            taken = applied.services_taken.get(listener.name, "")
            status = listener_status(listener, layout, listener_seen(listener, serving), now(), taken)
            await self._write(listener, status)

    async def _write(
        self, resource: BrokerCluster | BrokerListener, status: Status, *, without: Collection[str] = ()
    ) -> None:
        """With a Warning when it turns out that a person is needed. Of what cannot be read, Context.say_unreadable
        tells."""
        await self._context.write_status(resource, status, without=without)
        before, after = resource.status.condition(STALLED), status.condition(STALLED)
        if after is None or after.status != "True" or after.reason == UNREADABLE:
            return
        if before is None or (before.status, before.reason) != (after.status, after.reason):
            await self._context.post(resource, "Warning", after.reason, after.message)


def _broker_count(cluster: BrokerCluster, pods: Sequence[NodePod]) -> int:
    """How many there are: one that is to go counts while it is there."""
    wanted = cluster.spec.brokers.replicas if cluster.spec.brokers else 0
    return max([wanted, *(pod.ordinal + 1 for pod in pods if pod.role is Role.BROKER)])


def _life(pod: NodePod) -> _Life:
    return pod.uid, pod.ended
