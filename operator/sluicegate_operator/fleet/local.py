"""A fleet of processes on this machine: one for each controller and broker of each cluster, all on loopback.

planning.cluster_layout says what a node is; here it gets ports, files and a process. It is to the CLI what
kubernetes.py is to the handlers. A node whose configuration changed goes on with the old one until `restart`: when that
may be is decided elsewhere, see local.nodes.
"""

import asyncio
import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.controllers import ControllerPlace, controller_view, fence
from sluicegate_operator.fleet.local_data import LOOPBACK, DataDir, PortBook
from sluicegate_operator.fleet.local_process import PROBE_INTERVAL_S, BackOff, Child, ChildSpec, Watcher
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.planning.canonical import process_revision
from sluicegate_operator.planning.cluster_layout import (
    CONTROLLER,
    INTERNAL,
    ClusterLayout,
    NodePlace,
    Role,
    node_overrides,
)
from sluicegate_operator.planning.fencing import FenceOrder
from sluicegate_operator.planning.restart_reasons import NodeRevision, restart_reasons
from sluicegate_operator.planning.roll import NodeView
from sluicegate_operator.resources.properties import render_properties

READY_TIMEOUT_S = 60.0
SHUTDOWN_TIMEOUT_MS = 8_000
"""Of a controlled shutdown: inside the deadline after which a process is killed."""
FENCE_TIMEOUT_S = 2.0
"""A broker that died is told of for so long; then its session has to end by itself."""
HTTP = "http"

NodeKey = tuple[str, int]
"""Cluster and node id."""


@dataclass(frozen=True, slots=True)
class _Node:
    """A node as it should run; `properties` is the text of its server.properties."""

    key: NodeKey
    role: Role
    ports: dict[str, int]
    http_port: int
    properties: str
    revision: NodeRevision

    @property
    def name(self) -> str:
        return f"{self.role} {self.key[1]} of {self.key[0]}"


@dataclass(slots=True)
class _Running:
    """`node` is what the process was started with, `wanted` what it should be."""

    node: _Node
    wanted: _Node
    child: Child


class LocalFleet:
    """Nothing here is done by itself but starting processes again that ended; `aclose` stops everything."""

    def __init__(
        self, data: DataDir, say: Callable[[str], None], changed: Callable[[], None], back_off: BackOff | None = None
    ) -> None:
        self._data = data
        self._say = say
        self._changed = changed
        self._back_off = back_off or BackOff()
        self._ports = PortBook(data.read_ports())
        self._running: dict[NodeKey, _Running] = {}

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self._running))

    async def broker_addresses(self, cluster: str) -> tuple[BrokerAddress, ...]:
        return tuple(
            BrokerAddress(node.key[1], LOOPBACK, node.ports[INTERNAL])
            for node in self._nodes(cluster)
            if node.role is Role.BROKER
        )

    def controllers(self, cluster: str) -> tuple[ControllerPlace, ...]:
        return tuple(
            ControllerPlace(node.key[1], LOOPBACK, node.ports[CONTROLLER], node.http_port)
            for node in self._nodes(cluster)
            if node.role is Role.CONTROLLER
        )

    async def apply(self, layout: ClusterLayout) -> bool:
        """Nodes that are gone stop, new ones start together; changed ones are `pending` from now on.

        Returns whether any stopped or started.
        """
        wanted = {node.key: node for node in self._place(layout)}
        gone = [key for key in self._running if key[0] == layout.name and key not in wanted]
        for key in gone:
            self._say(f"{self._running[key].node.name} stops: it is no longer wanted")
        await self._stop(gone)
        new = [node for key, node in wanted.items() if key not in self._running]
        for node in new:
            self._start(node)
        for key, node in wanted.items():
            self._running[key].wanted = node
        return bool(gone or new)

    async def remove(self, cluster: str) -> None:
        await self._stop([key for key in self._running if key[0] == cluster])

    def pending(self, cluster: str) -> bool:
        """Whether a node runs with another configuration than it should."""
        return any(restart_reasons(one.node.revision, one.wanted.revision) for one in self._of(cluster))

    async def node_views(self, cluster: str) -> list[NodeView]:
        """For planning.roll. A process that waits for its next start is there: another configuration may mend it."""
        nodes = self._of(cluster)
        problems = await asyncio.gather(*(running.child.why_not_ready() for running in nodes))
        return [
            NodeView(
                name=running.node.name,
                role=running.node.role,
                node_id=running.node.key[1],
                ready=problem is None,
                failing=running.child.failing,
                reasons=restart_reasons(running.node.revision, running.wanted.revision),
            )
            for running, problem in zip(nodes, problems, strict=True)
        ]

    async def restart(self, cluster: str, node_ids: Collection[int]) -> None:
        """With the wanted configuration. Waits until they have ended, not until they are ready."""
        await asyncio.gather(*(self._restart(self._running[cluster, node_id]) for node_id in node_ids))

    async def _restart(self, running: _Running) -> None:
        await running.child.stop()
        self._start(running.wanted)

    def _place(self, layout: ClusterLayout) -> list[_Node]:
        """Ports of every node first: brokers are told where their controllers are."""
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
            placed.append(_Node((layout.name, node_id), role, ports[node_id], http[node_id], text, revision))
        return placed

    def _node_ports(self, layout: ClusterLayout, role: Role, node_id: int) -> dict[str, int]:
        """All nodes share one host: a client listener's own port is the first broker's, the next one the second's."""
        ports = {}
        for listener in layout.role_listeners(role):
            wanted = None if listener.resource is None else listener.port + node_id
            # The wanted port is part of what is remembered, so that another port in the manifest is another port here.
            key = f"{layout.name}/{node_id}/{listener.name}:{listener.port}"
            ports[listener.name] = self._ports.port_for(key, wanted)
        return ports

    def _nodes(self, cluster: str) -> list[_Node]:
        return [running.node for running in self._of(cluster)]

    def _of(self, cluster: str) -> list[_Running]:
        return [self._running[key] for key in sorted(self._running) if key[0] == cluster]

    def _start(self, node: _Node) -> None:
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
        self._running[node.key] = _Running(node, node, child)
        child.start()

    async def _fence(self, node: _Node) -> None:
        """The controller is told at once that a broker's process ended, so that clients go elsewhere meanwhile.

        The process is not started again before this returns, so the session that the controller knows is a dead one.
        """
        if node.role is not Role.BROKER:
            return
        cluster, broker_id = node.key
        try:
            async with asyncio.timeout(FENCE_TIMEOUT_S):
                view = await controller_view(self.controllers(cluster))
                broker = view.overview.broker(broker_id) if view.overview else None
                if view.active is None or broker is None or not broker.has_session:
                    return
                await fence(view.active, [FenceOrder(broker_id, broker.epoch, f"the process of {node.name} ended")])
        except (KafkaAdminError, TimeoutError) as error:
            self._say(f"{node.name} is not fenced before its session ends: {str(error) or 'no answer in time'}")
            return
        self._say(f"{node.name} is fenced: its process ended")

    async def fence_earlier(self, cluster: str) -> None:
        """Sessions of processes from before these would keep their ids for as long as a session lasts: nobody told the
        controller, for it went with them. Waits for its answer."""
        deadline_s = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while (view := await controller_view(self.controllers(cluster))).overview is None or view.active is None:
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
                await fence(view.active, orders)
                break
            except KafkaAdminError as error:
                # A controller may be active before its listener takes connections.
                if not error.retriable or asyncio.get_running_loop().time() >= deadline_s:
                    self._say(
                        f"{cluster}: earlier processes of brokers {ids}"
                        f" are not fenced before their sessions end: {error}"
                    )
                    return
            await asyncio.sleep(PROBE_INTERVAL_S)
        self._say(f"{cluster}: earlier processes of brokers {ids}, which were not stopped in order, are fenced")

    async def wait_ready(self, cluster: str) -> None:
        children = [running.child for running in self._of(cluster)]
        reasons = await asyncio.gather(*(child.wait_ready(READY_TIMEOUT_S) for child in children))
        for child, reason in zip(children, reasons, strict=True):
            if reason is not None:
                self._say(f"{child.spec.name} is not ready after {READY_TIMEOUT_S:g} s: {reason}")

    async def _stop(self, keys: Sequence[NodeKey]) -> None:
        """Brokers first: a broker that stops tells its controller."""
        for role in (Role.BROKER, Role.CONTROLLER):
            stopping = [self._running[key] for key in keys if self._running[key].node.role is role]
            await asyncio.gather(*(running.child.stop() for running in stopping))
        for key in keys:
            del self._running[key]

    async def aclose(self) -> None:
        await self._stop(list(self._running))

    def describe(self, cluster: str) -> list[dict[str, Any]]:
        """Plain data for state.json: what runs where."""
        return [
            {
                "id": node.key[1],
                "role": str(node.role),
                "pid": self._running[node.key].child.pid,
                "restarts": self._running[node.key].child.restarts,
                "failing": self._running[node.key].child.failing,
                "listeners": {name: f"{LOOPBACK}:{port}" for name, port in node.ports.items()},
                "http": f"{LOOPBACK}:{node.http_port}",
            }
            for node in self._nodes(cluster)
        ]
