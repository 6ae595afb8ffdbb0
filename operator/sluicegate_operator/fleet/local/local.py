"""A fleet of processes on this machine: one for each controller and broker of each cluster, all on loopback.

planning.layout.cluster_layout defines a node. `node_placement` adds its ports and files, and `node_processes` its
process. The engine decides when a node with a changed configuration may restart.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.local.local_data import LOOPBACK, DataDir
from sluicegate_operator.fleet.local.local_listeners import LocalListeners, NoRacks
from sluicegate_operator.fleet.local.local_nodes import RunningNode
from sluicegate_operator.fleet.local.local_process import BackOff
from sluicegate_operator.fleet.local.local_reports import in_force
from sluicegate_operator.fleet.local.node_placement import NodePlacement
from sluicegate_operator.fleet.local.node_processes import NodeProcesses
from sluicegate_operator.fleet.protocol import NodesSeen
from sluicegate_operator.kafka_admin.security.client_security import ClientSecurity
from sluicegate_operator.kube.http.errors import KubeConflictError
from sluicegate_operator.planning.layout.cluster_layout import INTERNAL, Role, plan_cluster


class LocalFleet:
    """The nodes of clusters as processes of this machine: implements fleet.protocol.Fleet.

    Owns which cluster of a name runs; `aclose` stops all processes.
    """

    poll_every_s = 0.2

    def __init__(
        self, data: DataDir, say: Callable[[str], None], changed: Callable[[], None], back_off: BackOff | None = None
    ) -> None:
        self._placement = NodePlacement(data)
        self._processes = NodeProcesses(data, say, changed, back_off or BackOff())
        self.security: Callable[[BrokerCluster], Awaitable[ClientSecurity]] | None = None
        """Function that returns how this process connects to nodes; without one it connects by PLAINTEXT."""
        self._namespaces: dict[str, str] = {}
        """The namespace of each cluster that runs here, by the cluster's name. Only one cluster of a name runs."""
        self._applying: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        """Two queues apply the nodes of one cluster; neither may undo the other's number of brokers."""
        self.listeners, self.racks = LocalListeners(self.brokers), NoRacks()
        self.in_force = partial(in_force, self._of_cluster)

    async def broker_addresses(self, cluster: BrokerCluster) -> tuple[BrokerAddress, ...]:
        return tuple(
            BrokerAddress(running.node.key[1], LOOPBACK, running.node.ports[INTERNAL])
            for running in self.brokers(cluster)
        )

    def brokers(self, cluster: BrokerCluster) -> list[RunningNode]:
        """Return the brokers in order of id, without those of another cluster of the same name."""
        return [running for running in self._of_cluster(cluster) if running.node.role is Role.BROKER]

    async def start(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> None:
        """Start all nodes of a cluster. Return when each is ready or has timed out."""
        await self.apply(cluster, listeners)
        await asyncio.gather(self._processes.fence_earlier(cluster.name), self._processes.wait_ready(cluster.name))

    async def apply(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> None:
        """Start those nodes of a cluster that do not run.

        Nodes with a changed configuration need a restart from now on.

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
                raise KubeConflictError(f"{found} brokers run now, not {seen.broker_count}")
            await self._apply(cluster, listeners, brokers)
        return ()

    async def _apply(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener], brokers: int) -> None:
        if self._namespaces.setdefault(cluster.name, cluster.namespace) != cluster.namespace:
            raise KubeConflictError(
                f"cluster {cluster.name} of namespace {self._namespaces[cluster.name]} is still running"
            )
        layout = plan_cluster(cluster, listeners, brokers)
        if self.security is not None:
            self._processes.security[cluster.name] = partial(self.security, cluster)
        await self._processes.run(layout.name, self._placement.place(layout))

    async def remove(self, namespace: str, name: str) -> None:
        """Stop the nodes of the cluster with this name."""
        async with self._applying[name]:
            if self._namespaces.get(name) == namespace:
                await self._processes.stop(name)
                del self._namespaces[name]

    async def nodes(self, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> NodesSeen | None:
        """Compare nodes with the configuration that was applied last; `listeners` is not used.

        A process that waits for its next start counts as present: another configuration may fix it.
        """
        if not self._of_cluster(cluster):
            return None
        view = await self._processes.view(cluster.name)
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
        """Restart the process of one node, and wait until the old one has ended."""
        running = next((one for one in self._of_cluster(cluster) if one.node.name == name), None)
        if running is None or running.leaving or running.incarnation != seen.incarnations[name]:
            raise KubeConflictError(f"{name} changed meanwhile")
        await self._processes.restart(running)

    async def respell(self, cluster: BrokerCluster, seen: NodesSeen, name: str, revision: str) -> None:
        """Do nothing: processes do not report their revision."""

    def _of_cluster(self, cluster: BrokerCluster) -> list[RunningNode]:
        return self._processes.of(cluster.name) if self._namespaces.get(cluster.name) == cluster.namespace else []

    async def aclose(self) -> None:
        await self._processes.stop_all()

    def describe(self, cluster: str) -> list[dict[str, Any]]:
        """Return plain data about the cluster's nodes for state.json."""
        return [running.describe() for running in self._processes.of(cluster)]
