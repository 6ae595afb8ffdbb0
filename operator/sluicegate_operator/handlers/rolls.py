"""Rolls and changes of scale of one cluster: look, plan, one step, and look again when anything has moved.

A queue of its own: a roll may wait for hours, and nothing else waits with it. Nothing is remembered between two looks,
so an operator that is killed at any step leaves nothing half done that the next one would not see.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.broker_listener import BrokerListener
from sluicegate_operator.engine.progress import ClusterProgress
from sluicegate_operator.engine.said import Said
from sluicegate_operator.engine.snapshot import ClusterKey, Snapshot
from sluicegate_operator.engine.work_queue import Again
from sluicegate_operator.fleet.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kubernetes import Sighting
from sluicegate_operator.fleet.rolls import BEHIND, NodeSetSeen, Partitions, node_views, read_partitions, respelled
from sluicegate_operator.handlers.context import Context, look_again_s, pass_over, say_scaled_by_others
from sluicegate_operator.handlers.registrations import UNSEEN_RETRY, fence_orders
from sluicegate_operator.handlers.snapshot import gather_snapshot
from sluicegate_operator.handlers.telemetry import RESTARTS
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.errors import KafkaAdminError
from sluicegate_operator.kube.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.kinds import BROKER_LISTENER, POD
from sluicegate_operator.planning.cluster_layout import Role, silence_max_s
from sluicegate_operator.planning.cluster_status import RESTARTING
from sluicegate_operator.planning.roll import (
    LISTENER_UNREADABLE,
    NO_NODES,
    Done,
    Fence,
    NodeView,
    NoRoll,
    Restart,
    RollStep,
    RollView,
    Wait,
    WaitReason,
    plan_roll,
)
from sluicegate_operator.planning.scale import ScaleReason, ScaleStep, ScaleView, plan_scale
from sluicegate_operator.resources.labels import REVISION

log = logging.getLogger(__name__)

MOVING_EVERY_S = 1.0
CHANGED_AGAIN_S = 0.2
BLOCKED_TOLD_AFTER_S = 15.0
UNDER_WAY = frozenset({RESTARTING, *WaitReason})
LOOKS_MAX = 3
"""The controller's view and the brokers' metadata are a moment apart; so often it is tried to see both alike."""


@dataclass(frozen=True, slots=True)
class _Seen:
    sets: Mapping[Role, NodeSetSeen]
    sighting: Sighting
    nodes: Sequence[NodeView]
    pool: BrokerPool | None
    partitions: Partitions


class RollReconciler:
    """Restarts nodes that run with old properties, and scales a cluster, one step for each look."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._waits: Said[str] = Said()
        """Why the roll of each BrokerCluster waits, by uid."""

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot = await gather_snapshot(context.kube, key, [BROKER_LISTENER])
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
            return MOVING_EVERY_S
        await self._respell(cluster, seen)
        view = _roll_view(cluster, seen, under_way=_under_way(progress, cluster))
        roll, scale = plan_roll(view), plan_scale(_scale_view(cluster, seen))
        self._note(cluster, progress, roll, scale)
        again_s = await self._act(cluster, seen, roll)
        if again_s is None:
            again_s = await self._scale(snapshot, cluster, seen, scale)
        if again_s is None and isinstance(roll, Done):
            return look_again_s(context, cluster)
        if seen.sighting.view.overview is None:
            return UNSEEN_RETRY
        return MOVING_EVERY_S if again_s is None else again_s

    async def _respell(self, cluster: BrokerCluster, seen: _Seen) -> None:
        """Write the revision of pods that older operators started as this one spells it. A later change of the spelling
        in the manifest then restarts nothing."""
        for role, node_set in seen.sets.items():
            for pod in respelled(node_set, seen.sighting.of(role)):
                fields = {"annotations": {REVISION: node_set.revision.encode()}}
                try:
                    await self._context.kube.patch_metadata(POD, cluster.namespace, pod.name, fields, {"uid": pod.uid})
                except KubeError as error:
                    pass_over(self._context, pod, error, "its revision is not written")

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
        """None while there are no StatefulSets yet."""
        context = self._context
        sets = await context.fleet.node_sets(cluster, listeners)
        if sets is None:
            return None
        for attempt in range(1, LOOKS_MAX + 1):
            sighting = await context.fleet.look(cluster)
            nodes = [node for role in Role for node in node_views(cluster.name, role, sets[role], sighting.of(role))]
            pool = await context.pool_of(key, sighting.addresses)
            partitions = Partitions()
            if any(node.reasons for node in nodes) or _shrinks(cluster, sets[Role.BROKER], sighting):
                partitions = await read_partitions(pool, sighting.view.overview)
            if partitions.unseen != BEHIND or attempt == LOOKS_MAX:
                break
            await asyncio.sleep(CHANGED_AGAIN_S)
        return _Seen(sets, sighting, nodes, pool, partitions)

    async def _act(self, cluster: BrokerCluster, seen: _Seen, step: RollStep) -> float | None:
        """When to look again; None when the roll leaves room for a change of scale."""
        match step:
            case Fence():
                self._context.mark("registrations", (cluster.namespace, cluster.name))
                return MOVING_EVERY_S
            case Restart():
                self._waits.forget(cluster.metadata.uid)
                return await self._restart(cluster, seen, step)
            case Wait():
                await self.tell(cluster, step)
                return None
        self._waits.forget(cluster.metadata.uid)
        return None

    async def tell(self, cluster: BrokerCluster, step: Wait) -> None:
        """In the log once. A Warning when it is blocked for longer than controllers need to change."""
        sentence = f"{step.reason}: {step.message}"
        lasted_s = self._waits.note(cluster.metadata.uid, sentence, asyncio.get_running_loop().time())
        if lasted_s is None:
            log.info("cluster %s: the roll waits, %s", cluster.name, sentence)
        elif step.blocked and step.reason is not WaitReason.PAUSED and lasted_s >= BLOCKED_TOLD_AFTER_S:
            await self._context.post(cluster, "Warning", f"RollBlocked{step.reason}", step.message)

    async def _restart(self, cluster: BrokerCluster, seen: _Seen, step: Restart) -> float:
        pods = {pod.name: pod for pod in seen.sighting.pods}
        for node in step.nodes:
            try:
                if node is step.nodes[0]:
                    await self._context.fleet.check_pods(cluster, seen.sighting.pods)
                await self._context.fleet.restart(cluster.namespace, pods[node.name])
            except KubeConflictError as conflict:
                log.info("%s has changed since it was looked at: %s", node.name, conflict)
                return CHANGED_AGAIN_S
            reason = node.reasons[0].kind.value
            RESTARTS.labels(reason).inc()
            await self._context.post(cluster, "Normal", reason, node.sentence)
        return MOVING_EVERY_S

    async def _scale(self, snapshot: Snapshot, cluster: BrokerCluster, seen: _Seen, step: ScaleStep) -> float | None:
        """When to look again; None when there is nothing more to do."""
        current = seen.sets[Role.BROKER].replicas
        try:
            await self._move(seen, cluster, step)
        except (KafkaAdminError, NoBrokerError) as error:
            if self._context.is_news(str(error), "moving", cluster.metadata.uid):
                log.warning("cluster %s: %s", cluster.name, error)
            return MOVING_EVERY_S
        if step.replicas != current:
            unchanged = partial(self._check_unchanged, snapshot, current)
            try:
                nodes = await self._context.fleet.apply(cluster, snapshot.listeners, step.replicas, unchanged)
            except KubeConflictError as conflict:
                log.info("cluster %s is not scaled by what was decided before it changed: %s", cluster.name, conflict)
                return CHANGED_AGAIN_S
            await say_scaled_by_others(self._context, cluster, nodes)
            await self._context.post(
                cluster, "Normal", step.reason.value, f"from {current} to {step.replicas} brokers. {step.message}"
            )
            return MOVING_EVERY_S
        return MOVING_EVERY_S if step.reason is not ScaleReason.SCALED else None

    async def _check_unchanged(self, decided_on: Snapshot, replicas: int) -> None:
        """Raises KubeConflictError when the cluster is not what it was when its scale was decided: what was right then
        could take away a broker that is wanted by now."""
        cluster = decided_on.cluster
        assert cluster is not None, "scaled is only what is there"
        kube, key = self._context.kube, (cluster.namespace, cluster.name)
        if _generations(await gather_snapshot(kube, key, [BROKER_LISTENER], fresh=True)) != _generations(decided_on):
            raise KubeConflictError("its spec or its listeners have changed")
        sets = await self._context.fleet.node_sets(cluster, decided_on.listeners, fresh=True)
        found = None if sets is None else sets[Role.BROKER].replicas
        if found != replicas:
            raise KubeConflictError(f"its StatefulSet asks for {found} brokers and not for {replicas} any more")

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
    """What the nodes follow from, by uid, and of which generation each is."""
    resources = (*((snapshot.cluster,) if snapshot.cluster else ()), *snapshot.listeners)
    readable = {resource.spec_version for resource in resources}
    metas = (item.body["metadata"] for item in snapshot.unreadable)
    return readable | {(meta["uid"], meta.get("generation", 0)) for meta in metas}


def _shrinks(cluster: BrokerCluster, brokers: NodeSetSeen, sighting: Sighting) -> bool:
    wanted = cluster.spec.brokers.replicas if cluster.spec.brokers else 0
    overview = sighting.view.overview
    return wanted < brokers.replicas or (overview is not None and any(b.id >= wanted for b in overview.brokers))


def _roll_view(cluster: BrokerCluster, seen: _Seen, *, under_way: bool) -> RollView:
    rollout = cluster.spec.rollout
    return RollView(
        nodes=seen.nodes,
        overview=seen.sighting.view.overview,
        partitions=seen.partitions.states,
        paused=rollout.paused if rollout else False,
        template_observed=all(node_set.observed for node_set in seen.sets.values()),
        unseen=seen.sighting.view.unseen or seen.partitions.unseen,
        fences=tuple(fence_orders(seen.sighting)),
        silence_max_s=silence_max_s(cluster),
        strategy=rollout.strategy if rollout else "Broker",
        under_way=under_way,
    )


def _scale_view(cluster: BrokerCluster, seen: _Seen) -> ScaleView:
    brokers = cluster.spec.brokers
    assert brokers is not None, "a cluster without brokers is not scaled"
    return ScaleView(
        wanted=brokers.replicas,
        current=seen.sets[Role.BROKER].replicas,
        drain=brokers.drain,
        overview=seen.sighting.view.overview,
        partitions=seen.partitions.states,
        pods=[pod.node_id for pod in seen.sighting.of(Role.BROKER)],
        moving=seen.partitions.moving,
        unseen=seen.sighting.view.unseen or seen.partitions.unseen,
    )
