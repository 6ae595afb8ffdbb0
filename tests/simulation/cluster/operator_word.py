"""The operator of a simulated cluster.

It reports to the active controller which brokers are gone. It also ends the Lease of a controller that is gone (its
real plans decide). Like the real one it reads the controller's view first and the pods after it; both take a while.
Some orders are repeated late, so that they meet a newer incarnation of their broker, which they must not affect. Its
links are never cut.
"""

import asyncio
import json
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from broker_runtime.controller.journal.store import LeaseRecord
from broker_runtime.controller.overview import overview
from broker_runtime.errors import ErrorCode
from broker_runtime.node.controller_node import ControllerNode
from broker_runtime.wire.versions import BROKER_HEARTBEAT
from sluicegate_operator.planning.registrations.controller_lease import (
    ADDRESS,
    JOURNAL_LABEL,
    lease_holder,
    why_holder_gone,
)
from sluicegate_operator.planning.registrations.fencing import BrokerPod, FenceOrder, plan_fencing
from sluicegate_operator.planning.registrations.overview import BrokerOverview, ClusterOverview, parse_overview
from tests.simulation.cluster.connection import Connection, Unanswered
from tests.simulation.cluster.machine.loop import Owner
from tests.simulation.cluster.machine.process import Process

if TYPE_CHECKING:
    from tests.simulation.cluster.cluster import Cluster

_HOST = "10.0.4.1"
CONTROLLER_PORT = 9093
_HEARTBEAT_VERSION = 1
_ASK_TIMEOUT_S = 1.0
_AGE_FACTOR = 3.0
"""Sessions last a third of the default here, and so does the silence after which a lost node's broker is fenced."""
_REPEATED = 0.4


class Operator:
    def __init__(self, cluster: "Cluster") -> None:
        self.owner = Owner("operator", _HOST)
        self.stopped = False
        self.accepted = self.refused = self.terms_ended = 0
        self._cluster = cluster
        self._random = random.Random(f"{cluster.seed}/operator")
        self._late: set[asyncio.Task[None]] = set()
        cluster.owners.append(self.owner)

    async def run(self) -> None:
        mean_s = self._cluster.shape.operator_looks_s
        while not self.stopped:
            await asyncio.sleep(self._random.uniform(0.0, 2.0 * mean_s))
            if self._random.random() < self._cluster.shape.operator_errs:
                self._end_term("the operator errs", self._cluster.around.objects.lease)
            view, active = await self._view()
            if view is None or active is None:
                await self._end_term_of_gone()
                continue
            # The pods' state is newer than the view; this order is what makes fencing safe.
            await asyncio.sleep(self._random.choice((0.0, self._random.uniform(0.0, 0.5))))
            for order in plan_fencing(view, self._pods()):
                self._cluster.note(f"the operator says of epoch {order.epoch}: {order.why}")
                await self._fence(active, order)
                if self._random.random() < _REPEATED:
                    self._repeat_later(order)

    # Observation

    async def _view(self) -> tuple[ClusterOverview | None, Process | None]:
        """The newest view of all controllers; waits for every controller that has not answered yet."""
        network, found = self._cluster.network, []
        waits_s = 0.0
        for process in self._cluster.controllers:
            delay_s = network.delay_s(_HOST, process.host)
            node = process.broker.controller if process.alive and process.broker is not None else None
            if node is None or process.paused:
                waits_s = max(waits_s, _ASK_TIMEOUT_S if process.paused else delay_s)
                continue
            waits_s = max(waits_s, delay_s + network.delay_s(process.host, _HOST))
            if node.ready and node.controller.active:
                found.append((_shown(node, process), process))
        await asyncio.sleep(waits_s)
        if not found:
            return None, None
        return max(found, key=lambda item: (item[0].controller_epoch, item[0].metadata_offset))

    def _pods(self) -> list[BrokerPod]:
        """Pods of running processes. A node is lost when its machine is, or perhaps when it is cut off or hangs."""
        pods = []
        for process in self._cluster.brokers:
            silent = process.paused or any(
                self._cluster.network.is_cut(process.host, controller.host) for controller in self._cluster.controllers
            )
            lost = silent and self._random.random() < 0.5
            if process.alive or lost:
                pods.append(BrokerPod(process.name, process.node_id, process.host, node_lost=lost))
        return pods

    # Orders

    async def _end_term_of_gone(self) -> None:
        """End the term of a controller that is gone.

        The Lease is read before the pods, and the write is of the version that was read.
        """
        lease = self._cluster.around.objects.lease
        holder = None if lease is None else lease_holder(_as_object(lease))
        if holder is None:
            return
        await asyncio.sleep(self._random.uniform(0.0, 0.1))
        pods = {pod.broker_id: pod for pod in self._controller_pods()}
        if why := why_holder_gone(holder, pods.get(holder.node_id)):
            await asyncio.sleep(self._random.choice((0.0, self._random.uniform(0.0, 2.0))))
            self._end_term(why, lease)

    def _controller_pods(self) -> list[BrokerPod]:
        alive = [process for process in self._cluster.controllers if process.alive]
        return [BrokerPod(process.name, process.node_id, process.host) for process in alive]

    def _end_term(self, why: str, lease: LeaseRecord | None) -> None:
        objects = self._cluster.around.objects
        if lease is not None and lease.holder and objects.put_lease(replace(lease, holder="")) is not None:
            self._cluster.note(f"the operator ends the lease of {lease.holder}: {why}")
            self.terms_ended += 1

    def _repeat_later(self, order: FenceOrder) -> None:
        task = self._cluster.loop.create_task(self._again(order), context=self.owner.context)
        self._late.add(task)
        task.add_done_callback(self._late.discard)

    async def _again(self, order: FenceOrder) -> None:
        await asyncio.sleep(self._random.uniform(0.1, 6.0))
        active = self._cluster.active_controller()
        if active is not None:
            await self._fence(active, order)

    async def _fence(self, active: Process, order: FenceOrder) -> None:
        node = active.broker.controller if active.broker is not None else None
        known = None if node is None else node.controller.image.brokers.get(order.broker_id)
        stale = known is not None and known.epoch > order.epoch
        content = {
            "broker_id": order.broker_id,
            "broker_epoch": order.epoch,
            "current_metadata_offset": -1,
            "want_fence": True,
            "want_shut_down": True,
            "offline_log_dirs": (),
        }
        connection = Connection((active.host, CONTROLLER_PORT))
        try:
            answer = await connection.ask(BROKER_HEARTBEAT, _HEARTBEAT_VERSION, content)
        except Unanswered:
            return
        finally:
            connection.close()
        code = ErrorCode(int(answer.error_code))
        self._cluster.note(f"the controller says to that: {code.name}")
        self.accepted += code == ErrorCode.NONE
        self.refused += code == ErrorCode.STALE_BROKER_EPOCH
        if stale and code == ErrorCode.NONE:
            self._cluster.around.mistake(
                f"an order for epoch {order.epoch} of broker {order.broker_id} hit a later one"
            )


def _as_object(lease: LeaseRecord) -> Mapping[str, Any]:
    """The Lease as the API server has it."""
    meta = {"name": "simulated", "labels": {JOURNAL_LABEL: "simulated"}, "annotations": {ADDRESS: lease.address}}
    return {"metadata": meta, "spec": {"holderIdentity": lease.holder}}


def _shown(node: ControllerNode, process: Process) -> ClusterOverview:
    """GET /brokers, as the operator parses it."""
    service = node.controller
    shown = overview(service.image, service.sessions, process.clock.monotonic(), "REPLICATION")
    view = parse_overview(json.dumps(shown))
    return replace(view, brokers=tuple(_aged(broker) for broker in view.brokers))


def _aged(broker: BrokerOverview) -> BrokerOverview:
    age_s = broker.heartbeat_age_s
    return broker if age_s is None else replace(broker, heartbeat_age_s=age_s * _AGE_FACTOR)
