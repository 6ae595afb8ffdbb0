"""A fleet of processes on this machine: one for each controller and broker of each cluster, all on loopback.

planning.cluster_layout defines a node; this module adds ports, files and a process. A node whose configuration has
changed keeps the old one until `restart`: the engine decides when it may restart.
"""

import asyncio
import sys
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, controller_view, fence
from sluicegate_operator.fleet.local.local_data import LOOPBACK, DataDir, PortBook
from sluicegate_operator.fleet.local.local_listeners import LocalListeners, NoRacks
from sluicegate_operator.fleet.local.local_nodes import LocalNode, NodeKey, RunningNode
from sluicegate_operator.fleet.local.local_process import PROBE_INTERVAL_S, BackOff, Child, ChildSpec, Watcher
from sluicegate_operator.fleet.protocol import NodesSeen
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kube.http.errors import KubeConflictError
from sluicegate_operator.planning.layout.canonical import process_revision
from sluicegate_operator.planning.layout.cluster_layout import (
    CONTROLLER,
    INTERNAL,
    ClusterLayout,
    NodePlace,
    Role,
    node_overrides,
    plan_cluster,
)
from sluicegate_operator.planning.registrations.fencing import FenceOrder
from sluicegate_operator.resources.properties import render_properties

READY_TIMEOUT_S = 60.0
SHUTDOWN_TIMEOUT_MS = 8_000
"""Limit of a controlled shutdown. It is below the deadline after which a process is killed."""
FENCE_TIMEOUT_S = 2.0
"""Limit in seconds for fencing a broker whose process ended. After it, the session times out normally."""
HTTP = "http"


class LocalFleet:
    """Implements fleet.protocol.Fleet. Processes that end are restarted; everything else happens in a call.

    `aclose` stops all processes.
    """

    look_every_s = 0.2

    def __init__(
        self, data: DataDir, say: Callable[[str], None], changed: Callable[[], None], back_off: BackOff | None = None
    ) -> None:
        self._data = data
        self._say = say
        self._changed = changed
        self._back_off = back_off or BackOff()
        self._ports = PortBook(data.read_ports())
        self._running: dict[NodeKey, RunningNode] = {}
        self._namespaces: dict[str, str] = {}
        """The namespace of each cluster that runs here, by the cluster's name. Only one cluster of a name runs."""
        self._applying: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Two queues apply the nodes of one cluster; neither may undo the other's number of brokers."""
        self.listeners, self.racks = LocalListeners(self.brokers), NoRacks()

    async def broker_addresses(self, cluster: BrokerCluster) -> tuple[BrokerAddress, ...]:
        return tuple(
            BrokerAddress(running.node.key[1], LOOPBACK, running.node.ports[INTERNAL])
            for running in self.brokers(cluster)
        )

    def brokers(self, cluster: BrokerCluster) -> list[RunningNode]:
        """Return the brokers in order of id, without those of another cluster of the name."""
        return [running for running in self._of_cluster(cluster) if running.node.role is Role.BROKER]

    def _controllers(self, cluster: str) -> tuple[ControllerPlace, ...]:
        nodes = (running.node for running in self._of(cluster))
        return tuple(
            ControllerPlace(node.key[1], LOOPBACK, node.ports[CONTROLLER], node.http_port)
            for node in nodes
            if node.role is Role.CONTROLLER
        )

    async def start(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> None:
        """Start every node; return when each is ready or has timed out."""
        await self.apply(cluster, listeners)
        await asyncio.gather(self._fence_earlier(cluster.name), self._wait_ready(cluster.name))

    async def apply(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> None:
        """Start missing nodes. Nodes with a changed configuration need a restart from now on.

        There are never fewer brokers than before: `scale` decides which may be removed. Raises KubeConflictError while
        another cluster of the name runs.
        """
        async with self._applying[cluster.name]:
            asked = cluster.spec.broker_count
            await self._apply(cluster, listeners, max(asked, len(self.brokers(cluster))))

    async def scale(
        self,
        cluster: BrokerCluster,
        listeners: Sequence[BrokerListener],
        seen: NodesSeen,
        brokers: int,
        check: Callable[[], Awaitable[None]],
    ) -> Sequence[str]:
        async with self._applying[cluster.name]:
            await check()
            if (found := len(self.brokers(cluster))) != seen.broker_count:
                raise KubeConflictError(f"{found} brokers run, and not {seen.broker_count} any more")
            await self._apply(cluster, listeners, brokers)
        return ()

    async def _apply(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener], brokers: int) -> None:
        if self._namespaces.setdefault(cluster.name, cluster.namespace) != cluster.namespace:
            raise KubeConflictError(f"cluster {cluster.name} of namespace {self._namespaces[cluster.name]} still runs")
        layout = plan_cluster(cluster, listeners, brokers)
        wanted = {node.key: node for node in self._place(layout)}
        gone = [key for key in self._running if key[0] == layout.name and key not in wanted]
        for key in gone:
            self._say(f"{self._running[key].node.name} stops: it is no longer wanted")
        await self._stop(gone)
        for key, node in wanted.items():
            if key in self._running:
                self._running[key].wanted = node
            else:
                self._start(node)

    async def remove(self, namespace: str, name: str) -> None:
        """Stop the nodes of this cluster."""
        async with self._applying[name]:
            if self._namespaces.get(name) == namespace:
                await self._stop([key for key in self._running if key[0] == name])
                del self._namespaces[name]

    async def nodes(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> NodesSeen | None:
        """Compare nodes with the configuration that was applied last; `listeners` is not used.

        A process that waits for its next start counts as present: another configuration may fix it.
        """
        if not self._of_cluster(cluster):
            return None
        view = await controller_view(self._controllers(cluster.name))
        found = self._of_cluster(cluster)
        brokers = [running.node.key[1] for running in found if running.node.role is Role.BROKER]
        incarnations = {running.node.name: running.incarnation for running in found}
        return NodesSeen(
            view=view,
            nodes=await asyncio.gather(*(running.view() for running in found)),
            incarnations=incarnations,
            addresses=await self.broker_addresses(cluster),
            broker_count=len(brokers),
            broker_ids=brokers,
        )

    async def check(self, cluster: BrokerCluster, seen: NodesSeen) -> None:
        now = {running.node.name: running.incarnation for running in self._of_cluster(cluster)}
        changed = sorted(name for name, one in seen.incarnations.items() if now.get(name) != one)
        if changed:
            raise KubeConflictError(f"{', '.join(changed)} changed meanwhile")

    async def restart(self, cluster: BrokerCluster, seen: NodesSeen, name: str) -> None:
        """Restart the process, and wait until the old one has ended."""
        running = next((one for one in self._of_cluster(cluster) if one.node.name == name), None)
        if running is None or running.leaving or running.incarnation != seen.incarnations[name]:
            raise KubeConflictError(f"{name} changed meanwhile")
        await running.child.stop()
        if not running.leaving:
            self._start(running.wanted)

    async def respell(self, cluster: BrokerCluster, seen: NodesSeen, name: str, revision: str) -> None:
        """Do nothing: processes do not report their revision."""

    def _place(self, layout: ClusterLayout) -> list[LocalNode]:
        """Place all nodes. Ports come first: the properties of brokers contain the ports of their controllers."""
        nodes = [(role, node_id) for role in (Role.CONTROLLER, Role.BROKER) for node_id in layout.node_ids(role)]
        ports = {node_id: self._node_ports(layout, role, node_id) for role, node_id in nodes}
        http = {node_id: self._ports.port_for(f"{layout.name}/{node_id}/{HTTP}", None) for _, node_id in nodes}
        if self._ports.ports != self._data.read_ports():
            self._data.write_ports(self._ports.ports)
        controllers = tuple(f"{LOOPBACK}:{ports[node_id][CONTROLLER]}" for node_id in layout.controller_ids)
        placed = []
        for role, node_id in nodes:
            place = NodePlace(
                bind_host=LOOPBACK,
                advertised_host=LOOPBACK,
                log_dir=str(self._data.node_dir(layout.name, node_id) / "data"),
                controller_addresses=controllers,
                shutdown_timeout_ms=SHUTDOWN_TIMEOUT_MS,
                http_port=http[node_id],
                ports=ports[node_id],
            )
            properties = {**layout.properties(role), **node_overrides(layout, node_id, role, place)}
            text, revision = render_properties(properties), process_revision(properties)
            placed.append(LocalNode((layout.name, node_id), role, ports[node_id], http[node_id], text, revision))
        return placed

    def _node_ports(self, layout: ClusterLayout, role: Role, node_id: int) -> dict[str, int]:
        """Return the ports of a node.

        All nodes share one host: the port of a client listener is the first broker's, the next port the second
        broker's.
        """
        ports = {}
        for listener in layout.role_listeners(role):
            wanted = None if listener.resource is None else listener.port + node_id
            # The wanted port is part of the stored key, so a changed port in the manifest gets another port here.
            key = f"{layout.name}/{node_id}/{listener.name}:{listener.port}"
            ports[listener.name] = self._ports.port_for(key, wanted)
        return ports

    def _of(self, cluster: str) -> list[RunningNode]:
        return [self._running[key] for key in sorted(self._running) if key[0] == cluster]

    def _of_cluster(self, cluster: BrokerCluster) -> list[RunningNode]:
        return self._of(cluster.name) if self._namespaces.get(cluster.name) == cluster.namespace else []

    def _start(self, node: LocalNode) -> None:
        folder = self._data.node_dir(*node.key)
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "server.properties"
        config.write_text(node.properties)
        spec = ChildSpec(
            name=node.name,
            command=(sys.executable, "-m", "broker_runtime", "--config", str(config)),
            log_file=folder / "broker.log",
            http=(LOOPBACK, node.http_port),
        )
        watcher = Watcher(self._say, self._changed, partial(self._fence, node))
        child = Child(spec, watcher, self._back_off)
        self._running[node.key] = RunningNode(node, node, child)
        child.start()

    async def _fence(self, node: LocalNode) -> None:
        """Fence a broker at once when its process ended, so that clients use the other brokers meanwhile.

        The process is not restarted before this returns, so the session that the controller knows has no process.
        """
        if node.role is not Role.BROKER:
            return
        cluster, broker_id = node.key
        try:
            async with asyncio.timeout(FENCE_TIMEOUT_S):
                view = await controller_view(self._controllers(cluster))
                broker = view.overview.broker(broker_id) if view.overview else None
                if view.active is None or broker is None or not broker.has_session:
                    return
                order = FenceOrder(broker_id, broker.epoch, f"the process of {node.name} ended")
                for error in (await fence(view.active, [order])).values():
                    raise error
        except (KafkaAdminError, TimeoutError) as error:
            self._say(f"{node.name} is not fenced before its session ends: {str(error) or 'no answer in time'}")
            return
        self._say(f"{node.name} is fenced: its process ended")

    async def _fence_earlier(self, cluster: str) -> None:
        """End the sessions of earlier processes, as soon as the new controller answers.

        They would keep their broker ids until they time out, because their controller ended together with them.
        """
        deadline_s = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while (view := await controller_view(self._controllers(cluster))).overview is None or view.active is None:
            if asyncio.get_running_loop().time() >= deadline_s:
                return
            await asyncio.sleep(PROBE_INTERVAL_S)
        began_ms = {running.node.key[1]: running.child.began_ms for running in self._of(cluster)}
        orders = [
            FenceOrder(broker.id, broker.epoch, "its process ended before")
            for broker in view.overview.brokers
            if broker.has_session and broker.began_ms is not None and broker.began_ms < began_ms.get(broker.id, 0)
        ]
        if not orders:
            return
        ids = ", ".join(str(order.broker_id) for order in orders)
        while True:
            try:
                refused = await fence(view.active, orders)
                if not refused:
                    break
                orders = list(refused)
                raise max(refused.values(), key=lambda error: error.retriable)
            except KafkaAdminError as error:
                # A controller may be active before its listener accepts connections.
                if not error.retriable or asyncio.get_running_loop().time() >= deadline_s:
                    self._say(
                        f"{cluster}: earlier processes of brokers {ids}"
                        f" are not fenced before their sessions end: {error}"
                    )
                    return
            await asyncio.sleep(PROBE_INTERVAL_S)
        self._say(f"{cluster}: earlier processes of brokers {ids}, which were not stopped in order, are fenced")

    async def _wait_ready(self, cluster: str) -> None:
        children = [running.child for running in self._of(cluster)]
        reasons = await asyncio.gather(*(child.wait_ready(READY_TIMEOUT_S) for child in children))
        for child, reason in zip(children, reasons, strict=True):
            if reason is not None:
                self._say(f"{child.spec.name} is not ready after {READY_TIMEOUT_S:g} s: {reason}")

    async def _stop(self, keys: Sequence[NodeKey]) -> None:
        """Stop nodes, brokers first: a broker that stops notifies its controller."""
        stopping = {key: self._running[key] for key in keys}
        for running in stopping.values():
            running.leaving = True
        for role in (Role.BROKER, Role.CONTROLLER):
            await asyncio.gather(*(one.child.stop() for one in stopping.values() if one.node.role is role))
        for key in stopping:
            del self._running[key]

    async def aclose(self) -> None:
        await self._stop(list(self._running))

    def describe(self, cluster: str) -> list[dict[str, Any]]:
        """Return plain data about the nodes for state.json."""
        return [running.describe() for running in self._of(cluster)]
