"""The nodes of one local cluster: its scale and its rolls; each look decides anew what to do.

What may be done is decided by planning (scale, roll), exactly as in Kubernetes; processes stand in the place of pods.
It has connections of its own, so that limits never wait for a roll.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.fleet.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.controllers import ControllerView, controller_view
from sluicegate_operator.fleet.local import LocalFleet
from sluicegate_operator.fleet.local_process import Watcher
from sluicegate_operator.fleet.rolls import Partitions, read_partitions
from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.planning.cluster_layout import Role, plan_cluster, silence_max_s
from sluicegate_operator.planning.overview import ClusterOverview
from sluicegate_operator.planning.roll import NodeView, Restart, RollStep, RollView, Wait, plan_roll
from sluicegate_operator.planning.scale import ScaleReason, ScaleStep, ScaleView, plan_scale

BUSY_S = 0.2
IDLE_S = 5.0
WAIT_PATIENCE_S = 3.0
BLOCK_PATIENCE_S = 1.0
"""A roll that waits longer for the same thing, or is blocked longer by it, says so."""


@dataclass(frozen=True, slots=True)
class ClusterTarget:
    """A bundled cluster as it should be."""

    cluster: BrokerCluster
    listeners: tuple[BrokerListener, ...]

    @property
    def broker_count(self) -> int:
        assert self.cluster.spec.brokers is not None, "only bundled clusters run here"
        return self.cluster.spec.brokers.replicas

    @property
    def drain(self) -> bool:
        return self.cluster.spec.brokers is not None and self.cluster.spec.brokers.drain


@dataclass(frozen=True, slots=True)
class Progress:
    """For `sluicegate status`; `message` is empty when nothing is under way."""

    phase: str = ""
    message: str = ""
    waiting: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        return {"phase": self.phase, "message": self.message, "waiting": list(self.waiting)}


@dataclass(slots=True)
class _Roll:
    """Of the roll under way: what it waits for, since when, and whether that was said."""

    active: bool = False
    message: str = ""
    since_s: float = 0.0
    said: bool = False


@dataclass(slots=True)
class _Said:
    """What a person was told last, so that it is told once."""

    scale: str = ""
    roll: _Roll = field(default_factory=_Roll)


class LocalNodes:
    """`start` once; `look` again and again; `aclose` at the end."""

    def __init__(self, fleet: LocalFleet, target: ClusterTarget, watcher: Watcher) -> None:
        self.name = target.cluster.name
        self.roll = Progress()
        self.scale = Progress()
        self._fleet = fleet
        self._target = target
        self._watcher = watcher
        self._said = _Said()
        self._admin: AdminClient | None = None

    async def start(self) -> None:
        """Every node is started; returns when all are ready or late."""
        await self._fleet.apply(plan_cluster(self._target.cluster, self._target.listeners))
        await asyncio.gather(self._fleet.fence_earlier(self.name), self._fleet.wait_ready(self.name))

    async def look(self, target: ClusterTarget) -> float:
        """One step of each kind; in how many seconds to look again."""
        self._target = target
        before = (self.roll, self.scale)
        settled = await self._steps()
        if before != (self.roll, self.scale):
            self._watcher.changed()
        return IDLE_S if settled else BUSY_S

    async def aclose(self) -> None:
        """Leaves the processes to the fleet."""
        if self._admin is not None:
            await self._admin.aclose()

    def _say(self, sentence: str) -> None:
        self._watcher.say(f"{self.name}: {sentence}")

    async def _steps(self) -> bool:
        target = self._target
        view = await controller_view(self._fleet.controllers(self.name))
        partitions = Partitions(unseen=view.unseen)
        pool = await self._pool()
        if view.overview is not None and self._needs_partitions(target, view.overview):
            partitions = await read_partitions(pool, view.overview)
        scaled = await self._scale(target, view, partitions)
        rolled = await self._step_roll(target, view, partitions)
        return scaled and rolled and view.overview is not None

    async def _pool(self) -> BrokerPool:
        brokers = await self._fleet.broker_addresses(self.name)
        if self._admin is None:
            # Only handles of single brokers are used, so that these addresses may grow old.
            self._admin = AdminClient([(broker.host, broker.port) for broker in brokers], client_id="sluicegate-life")
        return BrokerPool(self._admin, brokers)

    def _needs_partitions(self, target: ClusterTarget, overview: ClusterOverview) -> bool:
        surplus = any(broker.id >= target.broker_count for broker in overview.brokers)
        return surplus or self._fleet.pending(self.name)

    async def _scale(self, target: ClusterTarget, view: ControllerView, partitions: Partitions) -> bool:
        running = {broker.broker_id for broker in await self._fleet.broker_addresses(self.name)}
        step = plan_scale(
            ScaleView(
                wanted=target.broker_count,
                current=len(running),
                drain=target.drain,
                overview=view.overview,
                partitions=partitions.states,
                pods=running,
                moving=partitions.moving,
                unseen=partitions.unseen,
            )
        )
        self._show_scale(step)
        try:
            await self._carry_out(step)
        except (KafkaAdminError, NoBrokerError) as error:
            self.scale = Progress(str(step.reason), f"{step.message}; not done yet: {error}")
        # Also without a change of scale: what runs learns of the new configuration here, and is restarted by a roll.
        await self._fleet.apply(plan_cluster(target.cluster, target.listeners, step.replicas))
        return step.reason is ScaleReason.SCALED

    def _show_scale(self, step: ScaleStep) -> None:
        self.scale = Progress(str(step.reason), step.message) if step.message else Progress()
        # A drain's sentence counts partitions and changes with each: its reason is said once.
        news = f"{step.reason}: {step.message}" if step.blocked else str(step.reason)
        if step.message and news != self._said.scale:
            self._say(step.message)
        self._said.scale = news

    async def _carry_out(self, step: ScaleStep) -> None:
        if step.moves:
            targets = {(move.topic, move.index): move.replicas for move in step.moves}
            refused = await (await self._pool()).ask_any(lambda _, handle: handle.alter_reassignments(targets))
            if refused:
                (topic, index), why = next(iter(refused.items()))
                raise KafkaAdminError(f"{topic}-{index} cannot be moved: {why}")
        for broker_id in step.unregister:
            await self._unregister(broker_id)
            self._say(f"broker {broker_id} is unregistered")

    async def _unregister(self, broker_id: int) -> None:
        await (await self._pool()).ask_any(lambda _, handle: handle.unregister_broker(broker_id))

    async def _step_roll(self, target: ClusterTarget, view: ControllerView, partitions: Partitions) -> bool:
        if not self._fleet.pending(self.name) and not self._said.roll.active:
            return True
        rollout = target.cluster.spec.rollout
        if partitions.states is None and view.overview is not None:
            # The first look at a new target: until `_scale` nothing was pending.
            partitions = await read_partitions(await self._pool(), view.overview)
        # The processes are looked at after the controller, as planning.fencing explains.
        nodes = await self._fleet.node_views(self.name)
        step = plan_roll(
            RollView(
                nodes=nodes,
                overview=view.overview,
                partitions=partitions.states,
                paused=target.cluster.spec.paused or (rollout is not None and rollout.paused),
                unseen=partitions.unseen,
                silence_max_s=silence_max_s(target.cluster),
            )
        )
        self._show_roll(step, nodes, view.overview)
        if isinstance(step, Restart):
            for restart in step.nodes:
                self._say(restart.sentence)
            self._watcher.changed()
            await self._fleet.restart(self.name, [restart.node_id for restart in step.nodes])
        return not self._said.roll.active

    def _show_roll(self, step: RollStep, nodes: list[NodeView], overview: ClusterOverview | None) -> None:
        roll = self._said.roll
        roll.active = True
        if isinstance(step, Restart):
            names = ", ".join(restart.name for restart in step.nodes)
            self.roll = Progress("Rolling", f"restarting {names}", step.waiting)
            self._say_waiting("", blocked=False)
        elif isinstance(step, Wait):
            self.roll = Progress("Blocked" if step.blocked else "Rolling", step.message, step.waiting)
            self._say_waiting(step.message, blocked=step.blocked)
        elif missing := what_is_left(nodes, overview):
            self.roll = Progress("Rolling", missing)
            self._say_waiting(missing, blocked=False)
        else:
            self.roll = Progress()
            self._said.roll = _Roll()
            self._say("the roll is complete: every node runs as its manifest says")

    def _say_waiting(self, message: str, *, blocked: bool) -> None:
        roll, now_s = self._said.roll, asyncio.get_running_loop().time()
        if message != roll.message:
            roll.message, roll.since_s, roll.said = message, now_s, False
        patience_s = BLOCK_PATIENCE_S if blocked else WAIT_PATIENCE_S
        if message and not roll.said and now_s - roll.since_s > patience_s:
            roll.said = True
            self._say(f"the roll {'is blocked' if blocked else 'waits'}: {message}")


def what_is_left(nodes: list[NodeView], overview: ClusterOverview | None) -> str:
    """What is left of a roll whose nodes have all been restarted."""
    if unready := [node for node in nodes if not node.ready]:
        return f"{unready[0].name} is not ready" + (f": {unready[0].failing}" if unready[0].failing else "")
    if overview is None:
        return "no active controller says which brokers are online"
    for node in nodes:
        broker = overview.broker(node.node_id)
        if node.role is Role.BROKER and node.node_id not in overview.online:
            return f"{node.name} is {broker.state if broker else 'not registered'}"
        if broker is not None and broker.out_of_sync:
            return f"broker {broker.id} is not back in {broker.out_of_sync} in-sync sets"
    return ""
