"""Rolls and changes of scale of one cluster: look at its nodes, plan, take one step, and look again.

A queue of its own: a roll may wait for hours, and nothing else waits with it. No state is kept between two looks, so
the next operator continues after one that was killed at any step. Pods and processes are the same here, see
fleet.protocol.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.engine.context import FleetContext, look_again_s
from sluicegate_operator.engine.progress import ClusterProgress
from sluicegate_operator.engine.said import Said
from sluicegate_operator.engine.snapshot import ClusterKey, Snapshot
from sluicegate_operator.engine.telling import pass_over, say_scaled_by_others
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.fleet.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.protocol import NodesSeen
from sluicegate_operator.fleet.rolls import BEHIND, Partitions, read_partitions
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kube.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.kinds import BROKER_LISTENER
from sluicegate_operator.planning.cluster_layout import silence_max_s
from sluicegate_operator.planning.cluster_status import RESTARTING
from sluicegate_operator.planning.roll import (
    LISTENER_UNREADABLE,
    NO_NODES,
    Done,
    Fence,
    NoRoll,
    Restart,
    RollStep,
    RollView,
    Wait,
    WaitReason,
    plan_roll,
)
from sluicegate_operator.planning.scale import ScaleReason, ScaleStep, ScaleView, plan_scale

log = logging.getLogger(__name__)

CHANGED_AGAIN_S = 0.2
BLOCKED_TOLD_AFTER_S = 15.0
UNDER_WAY = frozenset({RESTARTING, *WaitReason})
UNSEEN_MAX = 5
"""Without a controller's view the time between two looks grows to so many times of the usual one."""
LOOKS_MAX = 3
"""The controller's view and the brokers' metadata are a moment apart; so often it is tried to see both alike."""


@dataclass(frozen=True, slots=True)
class _Seen:
    nodes: NodesSeen
    pool: BrokerPool | None
    partitions: Partitions

    @property
    def unseen(self) -> str:
        return self.nodes.view.unseen or self.partitions.unseen


class RollReconciler:
    """Restarts nodes that run with old properties, and scales a cluster, one step for each look."""

    def __init__(self, context: FleetContext, blocked_told_after_s: float = BLOCKED_TOLD_AFTER_S) -> None:
        """A roll that is blocked for longer than `blocked_told_after_s` is reported by a Warning."""
        self._context = context
        self._blocked_told_after_s = blocked_told_after_s
        self._waits: Said[str] = Said()
        """Why the roll of each BrokerCluster waits, by uid."""

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot = await context.gather(key, [BROKER_LISTENER])
        cluster = snapshot.cluster
        if cluster is None or cluster.spec.brokers is None:
            context.figures.note_roll(key, None)
            return None
        progress = context.progress.of(cluster)
        if cluster.spec.paused or snapshot.unreadable_of(BROKER_LISTENER):
            # Without a listener that cannot be read the nodes would be planned without its port.
            self._note(cluster, progress, None, None, None if cluster.spec.paused else LISTENER_UNREADABLE)
            return context.resync_s(cluster)
        seen = await self._look(key, cluster, snapshot.listeners)
        if seen is None:
            self._note(cluster, progress, None, None, NO_NODES)
            return context.fleet.look_every_s
        await self._respell(cluster, seen.nodes)
        view = _roll_view(cluster, seen, under_way=_under_way(progress, cluster))
        roll, scale = plan_roll(view), plan_scale(_scale_view(cluster, seen))
        self._note(cluster, progress, roll, scale)
        again_s = await self._act(cluster, seen, roll)
        if again_s is None:
            again_s = await self._scale(snapshot, cluster, seen, scale)
        if again_s is None and isinstance(roll, Done):
            return look_again_s(context, cluster)
        moving_s = context.fleet.look_every_s
        if seen.nodes.view.overview is None:
            return Retry(moving_s, UNSEEN_MAX * moving_s)
        return moving_s if again_s is None else again_s

    async def _respell(self, cluster: BrokerCluster, nodes: NodesSeen) -> None:
        """A later change of the spelling in the manifest restarts none of these nodes then."""
        for name, revision in nodes.respelled.items():
            try:
                await self._context.fleet.respell(cluster, nodes, name, revision)
            except KubeError as error:
                pass_over(self._context, name, nodes.incarnations[name].id, error, "its revision is not written")

    def _note(
        self,
        cluster: BrokerCluster,
        progress: ClusterProgress,
        roll: RollStep | None,
        scale: ScaleStep | None,
        no_roll: NoRoll | None = None,
    ) -> None:
        key = (cluster.namespace, cluster.name)
        self._context.figures.note_roll(key, roll)
        if isinstance(roll, Restart | Wait | Done):
            progress.rolling = not isinstance(roll, Done)
        elif no_roll is not None and not no_roll.holds:
            progress.rolling = False
        found = (roll, no_roll, scale, 0 if roll is None else cluster.metadata.generation)
        if (progress.roll, progress.no_roll, progress.scale, progress.roll_generation) != found:
            progress.roll, progress.no_roll, progress.scale, progress.roll_generation = found
            self._context.mark("clusters", key)

    async def _look(self, key: ClusterKey, cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> _Seen | None:
        """Returns None before the cluster has nodes."""
        context, looks = self._context, 0
        while True:
            nodes = await context.fleet.nodes(cluster, listeners)
            if nodes is None:
                return None
            pool = await context.pool_of(key, nodes.addresses)
            partitions = Partitions()
            if any(node.reasons for node in nodes.nodes) or _shrinks(cluster, nodes):
                partitions = await read_partitions(pool, nodes.view.overview)
            looks += 1
            if partitions.unseen != BEHIND or looks == LOOKS_MAX:
                return _Seen(nodes, pool, partitions)
            await asyncio.sleep(CHANGED_AGAIN_S)

    async def _act(self, cluster: BrokerCluster, seen: _Seen, step: RollStep) -> float | None:
        """When to look again; None when the roll leaves room for a change of scale."""
        match step:
            case Fence():
                self._context.mark("registrations", (cluster.namespace, cluster.name))
                return self._context.fleet.look_every_s
            case Restart():
                self._waits.forget(cluster.metadata.uid)
                return await self._restart(cluster, seen, step)
            case Wait():
                await self.tell(cluster, step)
                return None
        self._waits.forget(cluster.metadata.uid)
        return None

    async def tell(self, cluster: BrokerCluster, step: Wait) -> None:
        """Log once why the roll waits, and report it as a Warning when it stays blocked."""
        sentence = f"{step.reason}: {step.message}"
        lasted_s = self._waits.note(cluster.metadata.uid, sentence, asyncio.get_running_loop().time())
        if lasted_s is None:
            log.info("cluster %s: the roll waits, %s", cluster.name, sentence)
        elif step.blocked and step.reason is not WaitReason.PAUSED and lasted_s >= self._blocked_told_after_s:
            await self._context.post(cluster, "Warning", f"RollBlocked{step.reason}", step.message)

    async def _restart(self, cluster: BrokerCluster, seen: _Seen, step: Restart) -> float:
        fleet = self._context.fleet
        for node in step.nodes:
            try:
                if node is step.nodes[0]:
                    await fleet.check(cluster, seen.nodes)
                await fleet.restart(cluster, seen.nodes, node.name)
            except KubeConflictError as conflict:
                log.info("%s has changed since it was looked at: %s", node.name, conflict)
                return CHANGED_AGAIN_S
            reason = node.reasons[0].kind.value
            self._context.figures.note_restart(reason)
            await self._context.post(cluster, "Normal", reason, node.sentence)
        return fleet.look_every_s

    async def _scale(self, snapshot: Snapshot, cluster: BrokerCluster, seen: _Seen, step: ScaleStep) -> float | None:
        """When to look again; None when there is nothing more to do."""
        context, current = self._context, seen.nodes.broker_count
        try:
            await self._move(seen, cluster, step)
        except (KafkaAdminError, NoBrokerError) as error:
            if context.is_news(str(error), "moving", cluster.metadata.uid):
                log.warning("cluster %s: %s", cluster.name, error)
            return context.fleet.look_every_s
        if step.replicas != current:
            unchanged = partial(self._check_unchanged, snapshot)
            try:
                scaled = await context.fleet.scale(cluster, snapshot.listeners, seen.nodes, step.replicas, unchanged)
            except KubeConflictError as conflict:
                log.info("cluster %s is not scaled by what was decided before it changed: %s", cluster.name, conflict)
                return CHANGED_AGAIN_S
            await say_scaled_by_others(context, cluster, scaled)
            sentence = f"from {current} to {step.replicas} brokers. {step.message}"
            await context.post(cluster, "Normal", step.reason.value, sentence)
            return context.fleet.look_every_s
        return context.fleet.look_every_s if step.reason is not ScaleReason.SCALED else None

    async def _check_unchanged(self, decided_on: Snapshot) -> None:
        """Raises KubeConflictError when the cluster is not what it was when its scale was decided: what was right then
        could take away a broker that is wanted by now."""
        cluster = decided_on.cluster
        assert cluster is not None, "scaled is only what is there"
        found = await self._context.gather((cluster.namespace, cluster.name), [BROKER_LISTENER], fresh=True)
        if _generations(found) != _generations(decided_on):
            raise KubeConflictError("its spec or its listeners have changed")

    async def _move(self, seen: _Seen, cluster: BrokerCluster, step: ScaleStep) -> None:
        """Raises KafkaAdminError or NoBrokerError."""
        if not (step.moves or step.unregister):
            return
        if seen.pool is None:
            raise NoBrokerError("no broker has an address yet")
        if step.moves:
            targets = {(move.topic, move.index): move.replicas for move in step.moves}
            refused = await seen.pool.ask_any(lambda _, handle: handle.alter_reassignments(targets))
            await self._context.post(cluster, "Normal", step.reason.value, step.message)
            for (topic, index), why in sorted(refused.items()):
                await self._context.post(cluster, "Warning", "MoveRefused", f"{topic}-{index} cannot be moved: {why}")
        for broker_id in step.unregister:
            await seen.pool.ask_any(partial(_unregister, broker_id))


def _under_way(progress: ClusterProgress, cluster: BrokerCluster) -> bool:
    """Whether nodes are being restarted. An operator that has just started goes by the status of the cluster."""
    rollout = cluster.status.rollout
    if progress.rolling is None:
        return rollout is not None and rollout.reason in UNDER_WAY
    return progress.rolling


async def _unregister(broker_id: int, _: BrokerAddress, handle: BrokerHandle) -> None:
    await handle.unregister_broker(broker_id)


def _generations(snapshot: Snapshot) -> set[tuple[str, int]]:
    """The uid and generation of each object that the nodes follow from."""
    resources = (*((snapshot.cluster,) if snapshot.cluster else ()), *snapshot.listeners)
    readable = {resource.spec_version for resource in resources}
    metas = (item.body["metadata"] for item in snapshot.unreadable)
    return readable | {(meta["uid"], meta.get("generation", 0)) for meta in metas}


def _shrinks(cluster: BrokerCluster, nodes: NodesSeen) -> bool:
    wanted = cluster.spec.brokers.replicas if cluster.spec.brokers else 0
    overview = nodes.view.overview
    return wanted < nodes.broker_count or (overview is not None and any(b.id >= wanted for b in overview.brokers))


def _roll_view(cluster: BrokerCluster, seen: _Seen, *, under_way: bool) -> RollView:
    rollout = cluster.spec.rollout
    return RollView(
        nodes=seen.nodes.nodes,
        overview=seen.nodes.view.overview,
        partitions=seen.partitions.states,
        paused=rollout.paused if rollout else False,
        template_observed=seen.nodes.template_observed,
        unseen=seen.unseen,
        fences=seen.nodes.fences,
        silence_max_s=silence_max_s(cluster),
        strategy=rollout.strategy if rollout else "Broker",
        under_way=under_way,
    )


def _scale_view(cluster: BrokerCluster, seen: _Seen) -> ScaleView:
    brokers = cluster.spec.brokers
    assert brokers is not None, "a cluster without brokers is not scaled"
    return ScaleView(
        wanted=brokers.replicas,
        current=seen.nodes.broker_count,
        drain=brokers.drain,
        overview=seen.nodes.view.overview,
        partitions=seen.partitions.states,
        pods=seen.nodes.broker_ids,
        moving=seen.partitions.moving,
        unseen=seen.unseen,
    )
