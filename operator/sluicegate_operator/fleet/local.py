"""A fleet of processes on this machine: one for each controller and broker of each cluster, all on loopback.

planning.cluster_layout says what a node is; here it gets ports, files and a process. Seen through the Fleet protocol it
is to the CLI what kubernetes.py is to the handlers.
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.local_data import LOOPBACK, DataDir, PortBook
from sluicegate_operator.fleet.local_process import Child, ChildSpec
from sluicegate_operator.planning.cluster_layout import (
    CONTROLLER,
    INTERNAL,
    ClusterLayout,
    NodePlace,
    Role,
    node_overrides,
    render_properties,
)

READY_TIMEOUT_S = 60.0
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

    @property
    def name(self) -> str:
        return f"{self.role} {self.key[1]} of {self.key[0]}"


@dataclass(slots=True)
class _Running:
    node: _Node
    child: Child


class LocalFleet:
    """`apply` brings what runs in line with the layouts given; `aclose` stops everything."""

    def __init__(self, data: DataDir, say: Callable[[str], None], changed: Callable[[], None]) -> None:
        self._data = data
        self._say = say
        self._changed = changed
        self._ports = PortBook(data.read_ports())
        self._running: dict[NodeKey, _Running] = {}

    @property
    def clusters(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self._running))

    async def broker_addresses(self, cluster: str) -> tuple[BrokerAddress, ...]:
        return tuple(
            BrokerAddress(node.key[1], LOOPBACK, node.ports[INTERNAL], LOOPBACK, node.http_port)
            for node in self._nodes(cluster)
            if node.role is Role.BROKER
        )

    async def apply(self, layouts: Sequence[ClusterLayout]) -> bool:
        """Nodes that are gone stop, new ones start together, changed ones restart one after the other.

        Returns whether anything had to be done.
        """
        wanted = {node.key: node for layout in layouts for node in self._place(layout)}
        gone = [key for key in self._running if key not in wanted]
        for key in gone:
            self._say(f"{self._running[key].node.name} stops: it is no longer wanted")
        await self._stop(gone)
        new = [node for key, node in wanted.items() if key not in self._running]
        for node in new:
            self._start(node)
        await self._wait_ready(new)
        changed = [node for key, node in wanted.items() if self._running[key].node != node]
        for node in changed:
            self._say(f"{node.name} restarts: its static configuration changed")
            await self._stop([node.key])
            self._start(node)
            await self._wait_ready([node])
        return bool(gone or new or changed)

    def _place(self, layout: ClusterLayout) -> list[_Node]:
        """Ports of every node first: brokers are told where their controllers are."""
        nodes = [(role, node_id) for role in (Role.CONTROLLER, Role.BROKER) for node_id in layout.node_ids(role)]
        ports = {node_id: self._node_ports(layout, role, node_id) for role, node_id in nodes}
        http = {node_id: self._ports.port_for(f"{layout.name}/{node_id}/{HTTP}", None) for _, node_id in nodes}
        self._data.write_ports(self._ports.ports)
        controllers = tuple(f"{LOOPBACK}:{ports[node_id][CONTROLLER]}" for node_id in layout.controller_ids)
        placed = []
        for role, node_id in nodes:
            place = NodePlace(
                bind_host=LOOPBACK,
                advertised_host=LOOPBACK,
                log_dir=str(self._data.node_dir(layout.name, node_id) / "data"),
                controller_addresses=controllers,
                http_port=http[node_id],
                ports=ports[node_id],
            )
            properties = {**layout.properties(role), **node_overrides(layout, node_id, role, place)}
            text = render_properties(properties)
            placed.append(_Node((layout.name, node_id), role, ports[node_id], http[node_id], text))
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
        return [running.node for (name, _), running in sorted(self._running.items()) if name == cluster]

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
        child = Child(spec, self._say, self._changed)
        self._running[node.key] = _Running(node, child)
        child.start()

    async def _wait_ready(self, nodes: Sequence[_Node]) -> None:
        children = [self._running[node.key].child for node in nodes]
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
                "listeners": {name: f"{LOOPBACK}:{port}" for name, port in node.ports.items()},
                "http": f"{LOOPBACK}:{node.http_port}",
            }
            for node in self._nodes(cluster)
        ]
