"""Rolls and changes of scale of one cluster: observe its nodes, plan, take one step, and repeat.

The module has its own queue: a roll may wait for hours, and delays nothing else. No state is kept between two
reconciles, so the next operator continues after one that was killed at any step. Pods and processes are handled alike,
see fleet.protocol.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.changed_messages import ChangedMessages
from sluicegate_operator.engine.context.context import FleetContext, recheck_s
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey, Snapshot
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.engine.scaling import CHANGED_RETRY, Scale, Scaling
from sluicegate_operator.engine.work_queue import REFUSED_RETRY, Again, Retry, unless_refused
from sluicegate_operator.fleet.kafka.asking import BrokerPool
from sluicegate_operator.fleet.pods.rolls import BEHIND, Partitions, read_partitions
from sluicegate_operator.fleet.protocol import NodesSeen
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER
from sluicegate_operator.planning.clusters.cluster_status import RESTARTING
from sluicegate_operator.planning.layout.cluster_layout import silence_max_s
from sluicegate_operator.planning.rolls.roll import (
    LISTENER_UNREADABLE,
    NO_NODES,
    REFUSED,
    Done,
    Fence,
    NoRoll,
    Restart,
    RollStep,
    RollView,
    WaitForNodes,
    WaitReason,
    plan_roll,
    refused_restart,
)
from sluicegate_operator.planning.rolls.scale import REFUSED as SCALE_REFUSED
from sluicegate_operator.planning.rolls.scale import ScaleStep, ScaleView, plan_scale
from sluicegate_operator.planning.status.conditions import READY

log = logging.getLogger(__name__)

CHANGED_AGAIN_S = 0.2
BLOCKED_TOLD_AFTER_S = 15.0
UNDER_WAY = frozenset({RESTARTING, *WaitReason})
UNSEEN_MAX = 5
"""Limit of the time between two reconciles without a controller's view, as a multiple of the usual time."""
LOOKS_MAX = 3
"""Maximum number of attempts to read views that match.

The controller's view and the brokers' metadata are from different moments.
"""


@dataclass(frozen=True, slots=True)
class _Seen:
    nodes: NodesSeen
    pool: BrokerPool | None
    partitions: Partitions

    @property
    def unseen(self) -> str:
        return self.nodes.view.unseen or self.partitions.unseen


class RollReconciler:
    """Restarts nodes that run with old properties, and scales a cluster. Each reconcile takes one step."""

    def __init__(self, context: FleetContext, blocked_told_after_s: float = BLOCKED_TOLD_AFTER_S) -> None:
        """Create the reconciler.

        A Warning reports a roll that is blocked longer than `blocked_told_after_s` seconds.
        """
        self._context = context
        self._blocked_told_after_s = blocked_told_after_s
        self._waits: ChangedMessages[str] = ChangedMessages()
        """Why the roll of each BrokerCluster waits, by uid."""
        self._refusals = LastingRefusals()
        self._scaling = Scaling(context)

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot = await context.gather(key, [BROKER_LISTENER])
        cluster = snapshot.cluster
        if cluster is None or cluster.spec.brokers is None:
            context.figures.note_roll(key, None)
            return None
        progress = context.progress.of(cluster)
        if cluster.spec.paused or snapshot.unreadable_of(BROKER_LISTENER):
            # Without an unreadable listener, the nodes would be planned without its port.
            self._note(cluster, progress, None, None, None if cluster.spec.paused else LISTENER_UNREADABLE)
            return context.resync_s(cluster)
        seen = await self._observe(key, cluster, snapshot.listeners)
        if seen is None:
            self._note(cluster, progress, None, None, NO_NODES)
            return context.fleet.poll_every_s
        await self._respell(cluster, seen.nodes)
        view = _roll_view(cluster, seen, under_way=_under_way(progress, cluster))
        roll, scale = plan_roll(view), plan_scale(_scale_view(cluster, seen))
        if not _was_refused(progress, cluster):
            # The API server probably refuses the step again, and the status should not change in between.
            self._note(cluster, progress, roll, scale)
        roll, again = await self._act(cluster, seen, roll)
        if again is None:
            unchanged = partial(self._check_unchanged, snapshot)
            found = Scale(snapshot, seen.nodes, seen.pool, bool(seen.partitions.moving), unchanged)
            scale, again = await self._scaling.act(cluster, found, scale)
        self._note(cluster, progress, roll, scale)
        return self._again(cluster, seen, roll, again)

    def _again(self, cluster: BrokerCluster, seen: _Seen, roll: RollStep, again: Again) -> Again:
        if again is None and isinstance(roll, Done):
            return recheck_s(self._context, cluster)
        moving_s = self._context.fleet.poll_every_s
        if seen.nodes.view.overview is None:
            return Retry(moving_s, UNSEEN_MAX * moving_s)
        if isinstance(roll, WaitForNodes) and again in (None, REFUSED_RETRY):
            return REFUSED_RETRY if roll.reason in REFUSED else moving_s
        return moving_s if again is None else again

    async def _respell(self, cluster: BrokerCluster, nodes: NodesSeen) -> None:
        """Write canonical revisions, so that a later change of the manifest's spelling restarts none of these nodes.

        A refusal is logged once and delays nothing: the roll continues.
        """
        for name, revision in nodes.respelled.items():
            try:
                await self._context.fleet.respell(cluster, nodes, name, revision)
            except KubeError as error:
                if error.status is None:
                    raise
                if self._context.is_news(str(error), "respelling", nodes.incarnations[name].id):
                    log.warning("pod %s: its revision annotation was not written: %s", name, error)

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
        if isinstance(roll, Restart | WaitForNodes | Done):
            progress.rolling = not isinstance(roll, Done)
        elif no_roll is not None and not no_roll.pauses:
            progress.rolling = False
        found = (roll, no_roll, scale, 0 if roll is None else cluster.metadata.generation)
        if (progress.roll, progress.no_roll, progress.scale, progress.roll_generation) != found:
            progress.roll, progress.no_roll, progress.scale, progress.roll_generation = found
            self._context.mark(Queue.CLUSTERS, key)

    async def _observe(
        self, key: ClusterKey, cluster: BrokerCluster, listeners: Sequence[BrokerListener]
    ) -> _Seen | None:
        """Return the observed nodes, or None before the cluster has nodes."""
        context, looks = self._context, 0
        while True:
            nodes = await context.fleet.nodes(cluster, listeners)
            if nodes is None:
                return None
            pool = await context.pool_of(cluster, nodes.addresses)
            partitions = Partitions()
            if any(node.reasons for node in nodes.nodes) or _shrinks(cluster, nodes):
                partitions = await read_partitions(pool, nodes.view.overview)
            looks += 1
            if partitions.unseen != BEHIND or looks == LOOKS_MAX:
                return _Seen(nodes, pool, partitions)
            await asyncio.sleep(CHANGED_AGAIN_S)

    async def _act(self, cluster: BrokerCluster, seen: _Seen, step: RollStep) -> tuple[RollStep, Again]:
        """Carry out the step. Return it with its outcome, and the time of the next reconcile.

        That time is None if the scale may change now.
        """
        match step:
            case Fence():
                self._context.mark(Queue.REGISTRATIONS, (cluster.namespace, cluster.name))
                return step, self._context.fleet.poll_every_s
            case Restart():
                return await self._restart(cluster, seen, step)
            case WaitForNodes():
                self._refusals.ended(cluster.metadata.uid)
                await self.report_wait(cluster, step)
                return step, None
        self._waits.forget(cluster.metadata.uid)
        self._refusals.ended(cluster.metadata.uid)
        return step, None

    async def report_wait(self, cluster: BrokerCluster, step: WaitForNodes) -> None:
        """Log once why the roll waits, and record a Warning if the roll stays blocked."""
        sentence = f"{step.reason}: {step.message}"
        lasted_s = self._waits.note(cluster.metadata.uid, sentence, asyncio.get_running_loop().time())
        if lasted_s is None:
            log.info("cluster %s: the roll waits: %s", cluster.name, sentence)
        elif step.blocked and step.reason is not WaitReason.PAUSED and lasted_s >= self._blocked_told_after_s:
            await self._context.post(cluster, "Warning", f"RollBlocked{step.reason}", step.message)

    async def _restart(self, cluster: BrokerCluster, seen: _Seen, step: Restart) -> tuple[RollStep, Again]:
        """Restarts the nodes. Other nodes do not wait for one that the API server protects. Raises KubeError."""
        fleet, uid, refusals = self._context.fleet, cluster.metadata.uid, Refusals()
        refused: dict[str, KubeError] = {}
        try:
            await fleet.check(cluster, seen.nodes)
        except KubeConflictError as conflict:
            return await self._changed(cluster, step, step.nodes[0].name, conflict)
        for node in step.nodes:
            try:
                await fleet.restart(cluster, seen.nodes, node.name)
            except KubeConflictError as conflict:
                return await self._changed(cluster, step, node.name, conflict)
            except KubeError as error:
                if self._refusals.may_pass(uid, error):
                    refusals.keep(error)
                else:
                    refused[node.name] = error
                continue
            reason = node.reasons[0].kind.value
            self._context.figures.note_restart(reason)
            await self._context.post(cluster, "Normal", reason, node.sentence)
        if not refused:
            unless_refused(refusals, fleet.poll_every_s)
            self._waits.forget(uid)
            self._refusals.ended(uid)
            return step, fleet.poll_every_s
        first = next(iter(refused.values()))
        wait = refused_restart(step, refused, str(first), may_pass=first.retriable)
        await self.report_wait(cluster, wait)
        unless_refused(refusals, fleet.poll_every_s)
        return wait, None if len(refused) == len(step.nodes) else fleet.poll_every_s

    async def _changed(
        self, cluster: BrokerCluster, step: Restart, name: str, conflict: KubeConflictError
    ) -> tuple[RollStep, Again]:
        """Return when to try again after the cluster has changed during the step.

        If each try of the last minute has met a change, return a wait, which the status reports.
        """
        log.info("%s has changed since it was read: %s", name, conflict)
        if not self._refusals.lasts(cluster.metadata.uid, conflict):
            return step, CHANGED_RETRY
        wait = refused_restart(step, [name], str(conflict), may_pass=True)
        await self.report_wait(cluster, wait)
        return wait, None

    async def _check_unchanged(self, decided_on: Snapshot) -> None:
        """Raise KubeConflictError if the cluster has changed since its scale was decided.

        The old decision could remove a broker that is wanted by now.
        """
        cluster = decided_on.cluster
        assert cluster is not None, "scaled is only what is there"
        found = await self._context.gather((cluster.namespace, cluster.name), [BROKER_LISTENER], fresh=True)
        if _generations(found) != _generations(decided_on):
            raise KubeConflictError("its spec or its listeners have changed")


def _under_way(progress: ClusterProgress, cluster: BrokerCluster) -> bool:
    """Return whether nodes are being restarted. An operator that has just started reads it from the status."""
    rollout = cluster.status.rollout
    if progress.rolling is None:
        return rollout is not None and rollout.reason in UNDER_WAY
    return progress.rolling


def _was_refused(progress: ClusterProgress, cluster: BrokerCluster) -> bool:
    """Return whether the last reconcile ended with a refusal. A new operator reads that from the status."""
    if progress.rolling is None and progress.scale is None:
        rollout, ready = cluster.status.rollout, cluster.status.condition(READY)
        told = {rollout.reason if rollout is not None else "", ready.reason if ready is not None else ""}
        return not told.isdisjoint({*REFUSED, *SCALE_REFUSED})
    roll, scale = progress.roll, progress.scale
    return (isinstance(roll, WaitForNodes) and roll.reason in REFUSED) or (
        scale is not None and scale.reason in SCALE_REFUSED
    )


def _generations(snapshot: Snapshot) -> set[tuple[str, int]]:
    """Return the uid and generation of each object from which the nodes are derived."""
    resources = (*((snapshot.cluster,) if snapshot.cluster else ()), *snapshot.listeners)
    readable = {resource.spec_version for resource in resources}
    metas = (item.body["metadata"] for item in snapshot.unreadable)
    return readable | {(meta["uid"], meta.get("generation", 0)) for meta in metas}


def _shrinks(cluster: BrokerCluster, nodes: NodesSeen) -> bool:
    wanted = cluster.spec.broker_count
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
