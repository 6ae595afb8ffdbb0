"""Listeners of brokers in pods: their Services, the addresses that clients get, and each broker's open listeners.

A broker opens and closes listeners while it runs (decision 31). It gets all of its listeners at once.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.fleet.kafka.listeners import ListenerOutcome, ask_listeners, set_listeners
from sluicegate_operator.fleet.kubernetes.listener_services import (
    ListenerServices,
    apply_services,
    found_services,
    read_services,
    services_of,
)
from sluicegate_operator.fleet.pods.finding_pods import listed_pods
from sluicegate_operator.fleet.pods.node_sets import broker_replicas
from sluicegate_operator.fleet.pods.nodes import read_node
from sluicegate_operator.fleet.pods.pods import NodePod, broker_addresses, broker_count
from sluicegate_operator.fleet.protocol import Lasts, ListenersSeen, PoolOf
from sluicegate_operator.kube.client.client import KubeClient
from sluicegate_operator.kube.client.one_by_one import concerns_all
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.planning.layout.children import listener_children
from sluicegate_operator.planning.layout.cluster_layout import INTERNAL, ClusterLayout, Role, plan_cluster
from sluicegate_operator.planning.layout.restart_reasons import decode_revision
from sluicegate_operator.planning.listeners.exposure import (
    Address,
    BrokerPlace,
    NodeSeen,
    advertised,
    bootstrap,
    bootstrap_waits,
    hiding,
    node_address,
)
from sluicegate_operator.planning.listeners.listener_status import ServicesSeen
from sluicegate_operator.planning.listeners.listeners import (
    BrokerSeen,
    ListenerSeen,
    after_restart,
    listener_seen,
    wanted_listeners,
)
from sluicegate_operator.resources.labels import REVISION
from sluicegate_operator.resources.listener_services import broker_service_name

Wish = TypeVar("Wish", Address, str)
Wishes = Mapping[int, Mapping[str, Address | str]]
"""The addresses for clients, or why they are unknown, by broker and by Kafka's name of the listener."""


@dataclass(frozen=True, slots=True)
class KubernetesListeners:
    """The listeners of clusters in Kubernetes: applies Services and configures brokers.

    See fleet.protocol.ListenerFleet.
    """

    _kube: KubeClient

    async def reconcile(
        self,
        cluster: BrokerCluster,
        listeners: Sequence[BrokerListener],
        pool_of: PoolOf,
        lasts: Lasts,
        *,
        read_only: bool,
    ) -> ListenersSeen:
        all_pods = await listed_pods(self._kube, cluster)
        pods = [pod for pod in all_pods if pod.role is Role.BROKER and not pod.deleting]
        # A broker to be removed keeps its Services, also while its pod is being replaced.
        count = max(broker_count(cluster, pods), await broker_replicas(self._kube, cluster))
        layout = plan_cluster(cluster, listeners, count)
        services = await self._services(cluster, listeners, len(layout.broker_ids), read_only=read_only)
        wishes = _wishes(listeners, services, await self._places(listeners, pods))
        brokers, told = await _open(layout, listeners, pods, wishes, pool_of, read_only=read_only)
        passing = [error for found in services.values() if (error := found.left_over) is not None and error.retriable]
        new = [error for error in passing if not lasts(error)]
        refusals = {name: error for name, found in services.items() if (error := found.not_applied) is not None}
        postponed = {name for name, error in refusals.items() if not lasts(error)}
        fronts = {
            one.name: _front(one, services.get(one.name), listener_seen(one.spec.name, brokers), new)
            for one in listeners
            if one.name not in postponed
        }
        return ListenersSeen(layout, brokers, fronts, told, next(iter((*refusals.values(), *passing)), None))

    async def _services(
        self, cluster: BrokerCluster, listeners: Sequence[BrokerListener], count: int, *, read_only: bool
    ) -> dict[str, ListenerServices]:
        """Return the Services of each listener, by the listener's name in Kubernetes.

        Listeners that clash are left out. A refused listener does not delay the others. Raises KubeError for a refusal
        that concerns all listeners, and for a final one if `read_only`.
        """
        children = listener_children(cluster, listeners, count)
        there = await read_services(self._kube, cluster)
        reconcile = found_services if read_only else apply_services
        services: dict[str, ListenerServices] = {}
        for listener in (one for one in listeners if one.name in children):
            try:
                services[listener.name] = await reconcile(self._kube, listener, children[listener.name], there)
            except KubeError as error:
                if not error.retriable or concerns_all(error):
                    raise
                services[listener.name] = replace(services_of(listener, there), not_applied=error)
        return services

    async def _places(self, listeners: Sequence[BrokerListener], pods: Sequence[NodePod]) -> list[BrokerPlace]:
        """Return the places of brokers. Kubernetes nodes are read only if a listener needs their addresses."""
        needed = any(one.spec.exposure == "NodePort" and not one.spec.advertised_host for one in listeners)
        names = sorted({pod.node for pod in pods if pod.node}) if needed else ()
        nodes = dict(zip(names, await asyncio.gather(*map(self._node, names)), strict=True))
        return [BrokerPlace(pod.ordinal, pod.host, nodes.get(pod.node)) for pod in pods if pod.host]

    async def _node(self, name: str) -> NodeSeen:
        """Return a Kubernetes node's address. An unreadable node delays only listeners that need its address."""
        try:
            read = await read_node(self._kube, name)
        except KubeError as error:
            return NodeSeen(name, unseen=str(error))
        return NodeSeen(name, node_address(read.found) if read.found is not None else "", read.unseen)


async def _open(
    layout: ClusterLayout,
    listeners: Sequence[BrokerListener],
    pods: Sequence[NodePod],
    wishes: Wishes,
    pool_of: PoolOf,
    *,
    read_only: bool,
) -> tuple[list[BrokerSeen], dict[int, ListenerOutcome]]:
    """Configure each broker that has an address. Return the ready brokers with their resulting listeners."""
    pool = await pool_of(broker_addresses(pods))
    if pool is None:
        return [], {}
    names = [port.name for port in layout.listeners if port.name != INTERNAL]
    by_name = {listener.name: listener for listener in listeners}
    found = await ask_listeners(pool, names)
    addresses, waits = _only(Address, wishes), _only(str, wishes)
    wanted = {
        b.broker_id: wanted_listeners(
            layout, by_name, b.host, addresses.get(b.broker_id, {}), found.get(b.broker_id, {})
        )
        for b in pool.brokers
    }
    revisions = {pod.ordinal: decode_revision(pod.annotations.get(REVISION)) for pod in pods}
    later = {
        broker_id: after_restart(by_name, revisions.get(broker_id), now) & wanted[broker_id].keys()
        for broker_id, now in found.items()
        if broker_id in wanted
    }
    possible = {
        broker_id: {name: one for name, one in own.items() if name not in later.get(broker_id, ())}
        for broker_id, own in wanted.items()
    }
    told = {} if read_only else await set_listeners(pool, found, possible)
    if told:
        found = await ask_listeners(pool, names)
    brokers = [
        BrokerSeen(
            pod.ordinal,
            found.get(pod.ordinal),
            wanted[pod.ordinal],
            told[pod.ordinal].refused if pod.ordinal in told else {},
            waits.get(pod.ordinal, {}),
            later.get(pod.ordinal, frozenset()),
        )
        for pod in pods
        if pod.ready and pod.ordinal in wanted
    ]
    return brokers, told


def _wishes(
    listeners: Sequence[BrokerListener], services: Mapping[str, ListenerServices], places: Collection[BrokerPlace]
) -> Wishes:
    return {
        place.id: {
            one.spec.name: advertised(one, place, services[one.name].seen.get(broker_service_name(one, place.id)))
            for one in listeners
            if one.name in services
        }
        for place in places
    }


def _only(kind: type[Wish], wishes: Wishes) -> dict[int, dict[str, Wish]]:
    return {
        broker_id: {name: wish for name, wish in own.items() if isinstance(wish, kind)}
        for broker_id, own in wishes.items()
    }


def _front(
    listener: BrokerListener, found: ListenerServices | None, seen: ListenerSeen, new: Sequence[KubeError]
) -> ServicesSeen:
    """Return the state of the listener's Services for its status.

    `found` is None for a listener that clashes: it gets no Service, and clients wait for none. `new` are refusals to
    delete a Service that may pass and have not lasted: the status does not report them.
    """
    if found is None:
        return ServicesSeen(hiding=hiding(listener, {}))
    left_over = None if found.left_over in new else found.left_over
    return ServicesSeen(
        found.name_taken,
        found.refusal,
        bootstrap(listener, found.seen.get(listener.name), seen.told),
        bootstrap_waits(listener, found.seen.get(listener.name)),
        hiding(listener, found.seen),
        "" if found.not_applied is None else str(found.not_applied),
        "" if left_over is None else str(left_over),
        left_over is not None and left_over.retriable,
    )
