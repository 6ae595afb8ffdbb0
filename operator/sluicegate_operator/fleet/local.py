"""A fleet of processes on this machine: one for each controller and broker of each cluster, all on loopback.

It knows nodes, addresses and files, not what is in the configuration: planning says that. Seen through the Fleet
protocol it is to the CLI what kubernetes.py is to the handlers.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.local_data import LOOPBACK, DataDir, PortBook
from sluicegate_operator.fleet.local_process import Child, ChildSpec

READY_TIMEOUT_S = 60.0
HTTP = "http"

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class LocalNode:
    """`listeners` has the port that each would like to have."""

    id: int
    roles: frozenset[str]
    listeners: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """What a node's configuration may depend on."""

    listeners: Mapping[str, Address]
    http: Address
    data: Path
    controllers: Sequence[Address]


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """`properties` gives a node's server.properties once its addresses are known."""

    name: str
    nodes: tuple[LocalNode, ...]
    admin_listener: str
    controller_listener: str
    properties: Callable[[LocalNode, NodeAddresses], Mapping[str, str]]


@dataclass(slots=True)
class _Running:
    node: LocalNode
    addresses: NodeAddresses
    text: str
    child: Child


class LocalFleet:
    """`apply` brings what runs in line with the clusters given; `aclose` stops everything."""

    def __init__(self, data: DataDir, say: Callable[[str], None], changed: Callable[[], None]) -> None:
        self._data = data
        self._say = say
        self._changed = changed
        self._ports = PortBook(data.read_ports())
        self._clusters: dict[str, LocalCluster] = {}
        self._running: dict[tuple[str, int], _Running] = {}

    async def broker_addresses(self, cluster: str) -> tuple[BrokerAddress, ...]:
        listener = self._clusters[cluster].admin_listener
        return tuple(
            BrokerAddress(node.node.id, *node.addresses.listeners[listener], *node.addresses.http)
            for (name, _), node in sorted(self._running.items())
            if name == cluster and "broker" in node.node.roles
        )

    async def apply(self, clusters: Sequence[LocalCluster]) -> None:
        """Nodes that are gone stop, new ones start together, changed ones restart one after the other."""
        wanted = {(cluster.name, node.id): (cluster, node) for cluster in clusters for node in cluster.nodes}
        await self._stop([key for key in self._running if key not in wanted], "no longer wanted")
        self._clusters = {cluster.name: cluster for cluster in clusters}
        addresses = self._assign(clusters)
        started = []
        for key, (cluster, node) in wanted.items():
            text = _render(cluster.properties(node, addresses[key]))
            running = self._running.get(key)
            if running is None:
                self._start(key, node, addresses[key], text)
                started.append(key)
            elif running.text != text:
                self._say(f"{running.child.spec.name}: its static configuration changed; it restarts")
                await self._stop([key], None)
                self._start(key, node, addresses[key], text)
                await self._wait_ready([key])
        await self._wait_ready(started)

    def _assign(self, clusters: Sequence[LocalCluster]) -> dict[tuple[str, int], NodeAddresses]:
        """Ports of every node first: brokers are told where their controllers are."""
        found: dict[tuple[str, int], NodeAddresses] = {}
        for cluster in clusters:
            listeners = {
                node.id: {
                    name: (LOOPBACK, self._ports.port_for(f"{cluster.name}/{node.id}/{name}", port))
                    for name, port in node.listeners.items()
                }
                for node in cluster.nodes
            }
            controllers = [
                listeners[node.id][cluster.controller_listener] for node in cluster.nodes if "controller" in node.roles
            ]
            for node in cluster.nodes:
                http = (LOOPBACK, self._ports.port_for(f"{cluster.name}/{node.id}/{HTTP}", None))
                data = self._data.node_dir(cluster.name, node.id) / "data"
                found[cluster.name, node.id] = NodeAddresses(listeners[node.id], http, data, controllers)
        self._data.write_ports(self._ports.ports)
        return found

    def _start(self, key: tuple[str, int], node: LocalNode, addresses: NodeAddresses, text: str) -> None:
        folder = self._data.node_dir(*key)
        folder.mkdir(parents=True, exist_ok=True)
        config = folder / "server.properties"
        config.write_text(text)
        role = "broker" if "broker" in node.roles else "controller"
        spec = ChildSpec(
            name=f"{role} {node.id} of {key[0]}",
            command=(sys.executable, "-m", "broker_runtime", "--config", str(config)),
            log_file=folder / "broker.log",
            http=addresses.http,
        )
        child = Child(spec, self._say, self._changed)
        self._running[key] = _Running(node, addresses, text, child)
        child.start()

    async def _wait_ready(self, keys: Sequence[tuple[str, int]]) -> None:
        children = [self._running[key].child for key in keys]
        reasons = await asyncio.gather(*(child.wait_ready(READY_TIMEOUT_S) for child in children))
        for child, reason in zip(children, reasons, strict=True):
            if reason is not None:
                self._say(f"{child.spec.name} is not ready after {READY_TIMEOUT_S:g} s: {reason}")

    async def _stop(self, keys: Sequence[tuple[str, int]], reason: str | None) -> None:
        """Brokers first: a broker that stops tells its controller."""
        for role in ("broker", "controller"):
            nodes = [
                self._running[key] for key in keys if key in self._running and role in self._running[key].node.roles
            ]
            if reason is not None:
                for node in nodes:
                    self._say(f"{node.child.spec.name} stops: {reason}")
            await asyncio.gather(*(node.child.stop() for node in nodes))
        for key in keys:
            self._running.pop(key, None)

    async def aclose(self) -> None:
        await self._stop(list(self._running), None)

    def describe(self) -> dict[str, Any]:
        """Plain data for state.json: what runs where."""
        return {
            name: {
                "admin_listener": cluster.admin_listener,
                "nodes": [
                    {
                        "id": node.node.id,
                        "roles": sorted(node.node.roles),
                        "pid": node.child.pid,
                        "restarts": node.child.restarts,
                        "listeners": {listener: list(at) for listener, at in node.addresses.listeners.items()},
                        "http": list(node.addresses.http),
                    }
                    for (owner, _), node in sorted(self._running.items())
                    if owner == name
                ],
            }
            for name, cluster in self._clusters.items()
        }


def _render(properties: Mapping[str, str]) -> str:
    return "".join(f"{key}={value}\n" for key, value in sorted(properties.items()))
