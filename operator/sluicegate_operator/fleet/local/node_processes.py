"""The processes of nodes on this machine: starts them, stops them in order, and fences brokers whose process ended."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial

from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, ControllerView, controller_view, fence
from sluicegate_operator.fleet.local.local_data import LOOPBACK, DataDir
from sluicegate_operator.fleet.local.local_nodes import LocalNode, NodeKey, RunningNode
from sluicegate_operator.fleet.local.local_process import PROBE_INTERVAL_S, BackOff, Child, ChildSpec, Watcher
from sluicegate_operator.fleet.node_security import NoNodeSecurityError
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kafka_admin.security.client_security import PLAINTEXT, ClientSecurity
from sluicegate_operator.planning.layout.cluster_layout import CONTROLLER, Role
from sluicegate_operator.planning.registrations.fencing import FenceOrder

READY_TIMEOUT_S = 60.0
FENCE_TIMEOUT_S = 2.0
"""Limit in seconds for fencing a broker whose process ended. After that, the session times out normally."""


class NodeProcesses:
    """The running nodes of this machine. A cluster is a name here: `LocalFleet` knows which resource has the name.

    Processes that end are restarted; everything else happens in a call. A node whose configuration has changed keeps
    the old one until `restart`.
    """

    def __init__(
        self, data: DataDir, say: Callable[[str], None], changed: Callable[[], None], back_off: BackOff
    ) -> None:
        self._data = data
        self._say = say
        self._changed = changed
        self._back_off = back_off
        self._running: dict[NodeKey, RunningNode] = {}
        self.security: dict[str, Callable[[], Awaitable[ClientSecurity]]] = {}
        """How this process connects to the nodes of a cluster; those that are not in it have PLAINTEXT."""

    def of(self, cluster: str) -> list[RunningNode]:
        """Return the nodes of a cluster, in order of id."""
        return [self._running[key] for key in sorted(self._running) if key[0] == cluster]

    async def view(self, cluster: str) -> ControllerView:
        """Return the cluster as its controllers see it."""
        return await controller_view(self._controllers(cluster))

    def _controllers(self, cluster: str) -> tuple[ControllerPlace, ...]:
        nodes = (running.node for running in self.of(cluster))
        return tuple(
            ControllerPlace(node.key[1], LOOPBACK, node.ports[CONTROLLER], node.http_port)
            for node in nodes
            if node.role is Role.CONTROLLER
        )

    async def run(self, cluster: str, nodes: Iterable[LocalNode]) -> None:
        """Run exactly these nodes of the cluster. A changed node that already runs needs a restart."""
        wanted = {node.key: node for node in nodes}
        gone = [key for key in self._running if key[0] == cluster and key not in wanted]
        for key in gone:
            self._say(f"{self._running[key].node.name} stops, because no manifest contains it any more")
        await self._stop(gone)
        for key, node in wanted.items():
            if key in self._running:
                self._running[key].wanted = node
            else:
                self._start(node)

    async def restart(self, running: RunningNode) -> None:
        """Restart the process with the wanted configuration, unless the node is being removed meanwhile."""
        await running.child.stop()
        if not running.leaving:
            self._start(running.wanted)

    async def stop(self, cluster: str) -> None:
        """Stop the nodes of a cluster."""
        await self._stop([key for key in self._running if key[0] == cluster])

    async def stop_all(self) -> None:
        await self._stop(list(self._running))

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
                view = await self.view(cluster)
                broker = view.overview.broker(broker_id) if view.overview else None
                if view.active is None or broker is None or not broker.has_session:
                    return
                order = FenceOrder(broker_id, broker.epoch, f"the process of {node.name} ended")
                security = await self._security_of(cluster)
                if refused := await fence(view.active, [order], security=security):
                    raise refused[order]
        except (KafkaAdminError, NoNodeSecurityError, TimeoutError) as error:
            self._say(f"{node.name} cannot be fenced before its session expires: {str(error) or 'no answer in time'}")
            return
        self._say(f"{node.name} is fenced: its process ended")

    async def fence_earlier(self, cluster: str) -> None:
        """End the sessions of earlier processes, as soon as the new controller answers.

        Otherwise these sessions keep their broker ids until they time out, because their controller ended together with
        the processes.
        """
        deadline_s = asyncio.get_running_loop().time() + READY_TIMEOUT_S
        while (view := await self.view(cluster)).overview is None or view.active is None:
            if asyncio.get_running_loop().time() >= deadline_s:
                return
            await asyncio.sleep(PROBE_INTERVAL_S)
        began_ms = {running.node.key[1]: running.child.began_ms for running in self.of(cluster)}
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
                refused = await fence(view.active, orders, security=await self._security_of(cluster))
                if not refused:
                    break
                orders = list(refused)
                raise max(refused.values(), key=lambda error: error.retriable)
            except (KafkaAdminError, NoNodeSecurityError) as error:
                # A controller may be active before its listener accepts connections.
                again = isinstance(error, KafkaAdminError) and error.retriable
                if not again or asyncio.get_running_loop().time() >= deadline_s:
                    self._say(
                        f"{cluster}: earlier processes of brokers {ids}"
                        f" cannot be fenced before their sessions expire: {error}"
                    )
                    return
            await asyncio.sleep(PROBE_INTERVAL_S)
        self._say(f"{cluster}: earlier processes of brokers {ids}, which were not stopped in order, are fenced")

    async def _security_of(self, cluster: str) -> ClientSecurity:
        return await self.security[cluster]() if cluster in self.security else PLAINTEXT

    async def wait_ready(self, cluster: str) -> None:
        """Wait until all nodes of the cluster are ready, and report the nodes that are not ready in time."""
        children = [running.child for running in self.of(cluster)]
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
