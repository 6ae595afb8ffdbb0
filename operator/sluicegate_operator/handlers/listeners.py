"""The BrokerListeners of a cluster: their Services, what each broker has open while it runs, and their status.

All listeners of a cluster are looked at together, for a broker is told all of its listeners at once. No roll is waited
for, and none is caused: see decision 31.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.engine.context import now
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.engine.snapshot import ClusterKey, Snapshot
from sluicegate_operator.engine.telling import say_stalled, write_one_of_many
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.fleet.kubernetes import broker_addresses
from sluicegate_operator.fleet.listener_services import (
    ListenerServices,
    apply_services,
    held_services,
    read_services,
    services_of,
)
from sluicegate_operator.fleet.listeners import Told, ask_listeners, tell_listeners
from sluicegate_operator.fleet.nodes import read_node
from sluicegate_operator.fleet.pods import NodePod, broker_count
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.snapshot import gather_snapshot
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.kube.kinds import BROKER_LISTENER
from sluicegate_operator.planning.children import listener_children
from sluicegate_operator.planning.cluster_layout import INTERNAL, ClusterLayout, Role, plan_cluster
from sluicegate_operator.planning.exposure import (
    HIDDEN,
    Address,
    BrokerPlace,
    NodeSeen,
    advertised,
    bootstrap,
    bootstrap_waits,
    hiding,
    node_address,
)
from sluicegate_operator.planning.listener_status import ServicesSeen, listener_status
from sluicegate_operator.planning.listeners import BrokerSeen, ListenerSeen, listener_seen, wanted_listeners
from sluicegate_operator.resources.listener_services import broker_service_name

APPLYING_RETRY = Retry(0.5, 10.0)
WAITING_RETRY = Retry(2.0, 10.0)
"""Neither nodes nor Services are watched: an address is found by looking again."""
REFUSED_RETRY = Retry(10.0, 60.0)
"""Nothing tells when a port on a node, or the name of a Service, is free again."""


@dataclass(frozen=True, slots=True)
class _Wishes:
    """For each broker, by Kafka's name of the listener: what clients are to be told, or what is waited for first."""

    told: Mapping[int, Mapping[str, Address]] = field(default_factory=dict)
    waits: Mapping[int, Mapping[str, str]] = field(default_factory=dict)


class ListenerReconciler:
    """Opens and closes listeners on the brokers of a cluster, and says in their status how far that is."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._refusals = LastingRefusals()

    async def reconcile(self, key: ClusterKey) -> Again:
        """Raises KubeError and UnreadableClusterError; what is unreadable is told by the clusters' queue.

        A refusal that may pass is raised also after it has been written into a status, so that it is tried again."""
        context = self._context
        snapshot = await gather_snapshot(context.kube, key, [BROKER_LISTENER])
        cluster = snapshot.cluster
        if cluster is None or cluster.spec.brokers is None:
            for listener in snapshot.listeners:
                await self._write(listener, None, ListenerSeen(), ServicesSeen())
            return None
        pods = [pod for pod in await context.fleet.pods(cluster) if pod.role is Role.BROKER and not pod.deleting]
        # One that is to go has its Services until then, also while its pod is being replaced.
        count = max(broker_count(cluster, pods), await context.fleet.broker_replicas(cluster))
        layout = plan_cluster(cluster, snapshot.listeners, count)
        # Planned without those that cannot be read, brokers would close their ports.
        held = cluster.spec.paused or bool(snapshot.unreadable_of(BROKER_LISTENER))
        services = await self._services(snapshot, cluster, len(layout.broker_ids), held=held)
        wishes = _wishes(snapshot, services, await self._places(snapshot, pods))
        brokers = await self._brokers(cluster, snapshot, layout, _Looking(pods, wishes, held))
        changed: set[str] = set()
        fronts = []
        for listener in snapshot.listeners:
            seen = listener_seen(listener.spec.name, brokers)
            fronts.append(_services_seen(listener, services.get(listener.name), seen))
            changed |= await self._write(listener, layout, seen, fronts[-1])
        for queue in sorted(changed):
            context.mark(queue, key)
        for found in services.values():
            if found.not_applied is not None:
                raise found.not_applied
        return self._again(cluster, layout, brokers, fronts)

    def _again(
        self,
        cluster: BrokerCluster,
        layout: ClusterLayout,
        brokers: Sequence[BrokerSeen],
        fronts: Sequence[ServicesSeen],
    ) -> Again:
        if any(broker.refused for broker in brokers):
            return REFUSED_RETRY
        if any(broker.now is None or not broker.settled for broker in brokers):
            return APPLYING_RETRY
        if any(front.refusal or front.name_taken for front in fronts):
            return REFUSED_RETRY
        waits = any(broker.waits for broker in brokers) or any(front.waits for front in fronts)
        if waits or len(brokers) < len(layout.broker_ids):
            return WAITING_RETRY
        return self._context.resync_s(cluster)

    async def _services(
        self, snapshot: Snapshot, cluster: BrokerCluster, count: int, *, held: bool
    ) -> dict[str, ListenerServices]:
        """By the listener's name in Kubernetes; those that clash have none."""
        kube = self._context.kube
        children = listener_children(cluster, snapshot.listeners, count)
        there = await read_services(kube, cluster)
        look, of = held_services if held else apply_services, cluster.metadata.uid
        services: dict[str, ListenerServices] = {}
        for listener in (one for one in snapshot.listeners if one.name in children):
            try:
                services[listener.name] = await look(kube, listener, children[listener.name], there)
            except KubeError as error:
                if not error.retriable or not self._refusals.lasts(of, error):
                    raise
                services[listener.name] = replace(services_of(listener, there), not_applied=error)
        if all(found.not_applied is None for found in services.values()):
            self._refusals.ended(of)
        return services

    async def _places(self, snapshot: Snapshot, pods: Sequence[NodePod]) -> list[BrokerPlace]:
        """Nodes are read for listeners that need their addresses only."""
        needed = any(one.spec.exposure == "NodePort" and not one.spec.advertised_host for one in snapshot.listeners)
        names = sorted({pod.node for pod in pods if pod.node}) if needed else ()
        nodes = dict(zip(names, await asyncio.gather(*map(self._node, names)), strict=True))
        return [BrokerPlace(pod.ordinal, pod.host, nodes.get(pod.node)) for pod in pods if pod.host]

    async def _node(self, name: str) -> NodeSeen:
        """One that cannot be read keeps its brokers' addresses waiting, and no other listener."""
        try:
            read = await read_node(self._context.kube, name)
        except KubeError as error:
            return NodeSeen(name, unseen=str(error))
        return NodeSeen(name, node_address(read.found) if read.found is not None else "", read.unseen)

    async def _brokers(
        self, cluster: BrokerCluster, snapshot: Snapshot, layout: ClusterLayout, looking: "_Looking"
    ) -> list[BrokerSeen]:
        """Those that are ready, after all that have an address were told what they should have open."""
        pool = await self._context.pool_of((cluster.namespace, cluster.name), broker_addresses(looking.pods))
        if pool is None:
            return []
        names = [port.name for port in layout.listeners if port.name != INTERNAL]
        by_name = {listener.name: listener for listener in snapshot.listeners}
        found = await ask_listeners(pool, names)
        wanted = {
            b.broker_id: wanted_listeners(
                layout, by_name, b.host, looking.wishes.told.get(b.broker_id, {}), found.get(b.broker_id, {})
            )
            for b in pool.brokers
        }
        told = {} if looking.held else await tell_listeners(pool, found, wanted)
        if told:
            await self._say(cluster, snapshot, told)
            found = await ask_listeners(pool, names)
        return [
            BrokerSeen(
                pod.ordinal,
                found.get(pod.ordinal),
                wanted[pod.ordinal],
                told[pod.ordinal].refused if pod.ordinal in told else {},
                looking.wishes.waits.get(pod.ordinal, {}),
            )
            for pod in looking.pods
            if pod.ready and pod.ordinal in wanted
        ]

    async def _say(self, cluster: BrokerCluster, snapshot: Snapshot, told: Mapping[int, Told]) -> None:
        by_name = {listener.spec.name: listener for listener in snapshot.listeners}
        for name in sorted({name for one in told.values() for name in one.changed}):
            ids = ", ".join(str(broker_id) for broker_id in sorted(told) if name in told[broker_id].changed)
            if name in by_name:
                message = f"listener {name} is set on running brokers: {ids}"
                await self._context.post(by_name[name], "Normal", "ListenerApplied", message)
            else:
                message = f"listener {name} is closed on running brokers: {ids}"
                await self._context.post(cluster, "Normal", "ListenerClosed", message)

    async def _write(
        self, listener: BrokerListener, layout: ClusterLayout | None, seen: ListenerSeen, services: ServicesSeen
    ) -> set[str]:
        """The queues that depend on what has changed. Quotas depend on hidden addresses and on open listeners; the
        cluster's status shows where clients connect first."""
        status = listener_status(listener, layout, seen, now(), services)
        if await write_one_of_many(self._context, listener, status):
            await say_stalled(self._context, listener, status)
        old, new = listener.status.condition(HIDDEN), status.condition(HIDDEN)
        hidden = (old and old.message, new and new.message)
        queues = set()
        if listener.status.brokers != status.brokers or hidden[0] != hidden[1]:
            queues.add("quotas")
        if listener.status.bootstrap != status.bootstrap:
            queues.add("clusters")
        return queues


@dataclass(frozen=True, slots=True)
class _Looking:
    """What brokers are told by, and whether they are to be told anything at all."""

    pods: Sequence[NodePod]
    wishes: _Wishes
    held: bool


def _wishes(snapshot: Snapshot, services: Mapping[str, ListenerServices], places: Collection[BrokerPlace]) -> _Wishes:
    told: dict[int, dict[str, Address]] = {}
    waits: dict[int, dict[str, str]] = {}
    for listener in snapshot.listeners:
        if listener.name not in services:
            continue
        for place in places:
            service = services[listener.name].seen.get(broker_service_name(listener, place.id))
            found = advertised(listener, place, service)
            if isinstance(found, Address):
                told.setdefault(place.id, {})[listener.spec.name] = found
            else:
                waits.setdefault(place.id, {})[listener.spec.name] = found
    return _Wishes(told, waits)


def _services_seen(listener: BrokerListener, found: ListenerServices | None, seen: ListenerSeen) -> ServicesSeen:
    """`found` is None for a listener that clashes: no Service is made for it, and nobody waits for one."""
    if found is None:
        return ServicesSeen(hiding=hiding(listener, {}))
    return ServicesSeen(
        found.name_taken,
        found.refusal,
        bootstrap(listener, found.seen.get(listener.name), seen.told),
        bootstrap_waits(listener, found.seen.get(listener.name)),
        hiding(listener, found.seen),
        "" if found.not_applied is None else str(found.not_applied),
    )
