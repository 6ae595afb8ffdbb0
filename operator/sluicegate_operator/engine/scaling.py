"""Carry out a step of planning.rolls.scale, and return the step with its outcome.

A broker or the API server may refuse a step. The refusal is then part of the step, for the status of the cluster.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.engine.context.context import FleetContext
from sluicegate_operator.engine.context.snapshot import Snapshot
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.engine.telling import report_foreign_scale
from sluicegate_operator.engine.work_queue import REFUSED_RETRY, Again, Retry
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError
from sluicegate_operator.fleet.protocol import NodesSeen
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, KafkaApiError
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.planning.rolls.scale import (
    REFUSED,
    ScaleReason,
    ScaleStep,
    refused_moves,
    refused_scale,
    refused_unregistering,
)

log = logging.getLogger(__name__)

CHANGED_RETRY = Retry(0.2, 10.0)
"""Retry after the cluster has changed since the reconcile read it."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The observed state of a cluster for which a step of scaling was planned.

    `moving`: whether partitions are being reassigned.
    """

    snapshot: Snapshot
    nodes: NodesSeen
    pool: BrokerPool | None
    moving: bool
    unchanged: Callable[[], Awaitable[None]]
    """Function that raises KubeConflictError if the cluster or its listeners have changed since then."""


class Scaling:
    """Moves replicas, unregisters brokers and sets the number of brokers."""

    def __init__(self, context: FleetContext) -> None:
        self._context = context
        self._refusals = LastingRefusals()

    async def act(self, cluster: BrokerCluster, view: Scale, step: ScaleStep) -> tuple[ScaleStep, Again]:
        """Carry out a step of scaling a cluster's brokers. Raises KubeError.

        Returns the step with its outcome, and the time of the next reconcile; None if nothing is left to do.
        """
        context = self._context
        every_s, current = context.fleet.poll_every_s, view.nodes.broker_count
        try:
            told = await self._ask_brokers(cluster, view, step)
        except (KafkaAdminError, NoBrokerError) as error:
            if context.is_news(str(error), "moving", cluster.metadata.uid):
                log.warning("cluster %s: %s", cluster.name, error)
            return step, every_s
        if step.replicas != current:
            return await self._scale(cluster, view, step, told)
        self._refusals.ended(cluster.metadata.uid)
        if told.reason in REFUSED:
            return told, REFUSED_RETRY
        return told, every_s if told.reason is not ScaleReason.SCALED else None

    async def _scale(
        self, cluster: BrokerCluster, view: Scale, step: ScaleStep, told: ScaleStep
    ) -> tuple[ScaleStep, Again]:
        context, uid, current = self._context, cluster.metadata.uid, view.nodes.broker_count
        listeners = view.snapshot.listeners
        try:
            scaled = await context.fleet.scale(cluster, listeners, view.nodes, step.replicas, view.unchanged)
        except KubeConflictError as conflict:
            log.info("cluster %s is not scaled, because it has changed since the decision: %s", cluster.name, conflict)
            if not self._refusals.lasts(uid, conflict):
                return told, CHANGED_RETRY
            return refused_scale(told, current, str(conflict), may_pass=True), REFUSED_RETRY
        except KubeError as error:
            if self._refusals.may_pass(uid, error):
                raise
            if context.is_news(str(error), "scaling", uid):
                log.warning("cluster %s is not scaled: %s", cluster.name, error)
            return refused_scale(told, current, str(error), may_pass=error.retriable), REFUSED_RETRY
        self._refusals.ended(uid)
        await report_foreign_scale(context, cluster, scaled)
        sentence = f"scaling from {current} to {step.replicas} brokers. {step.message}"
        await context.post(cluster, "Normal", step.reason.value, sentence)
        return told, context.fleet.poll_every_s

    async def _ask_brokers(self, cluster: BrokerCluster, view: Scale, step: ScaleStep) -> ScaleStep:
        """Return the step with permanent refusals of brokers.

        Raises KafkaAdminError or NoBrokerError for errors that may pass.
        """
        if not (step.moves or step.unregister):
            return step
        if view.pool is None:
            raise NoBrokerError("no broker has an address yet")
        told = await self._move(cluster, view.pool, step, moving=view.moving) if step.moves else step
        refused, passing = {}, list[KafkaApiError]()
        for broker_id in step.unregister:
            try:
                await view.pool.ask_any(partial(_unregister, broker_id))
            except KafkaAdminError as error:
                if not error.retriable:
                    refused[broker_id] = str(error)
                elif isinstance(error, KafkaApiError):
                    # The error concerns this broker only: other brokers are unregistered.
                    passing.append(error)
                else:
                    raise
        if passing:
            raise passing[0]
        return refused_unregistering(told, refused)

    async def _move(self, cluster: BrokerCluster, pool: BrokerPool, step: ScaleStep, *, moving: bool) -> ScaleStep:
        targets = {(move.topic, move.index): move.replicas for move in step.moves}
        try:
            refused = await pool.ask_any(lambda _, handle: handle.alter_reassignments(targets))
        except KafkaAdminError as error:
            if error.retriable:
                raise
            refused = dict.fromkeys(targets, str(error))
        accepted = targets.keys() - refused.keys()
        if accepted:
            await self._context.post(cluster, "Normal", step.reason.value, step.message)
        for (topic, index), why in sorted(refused.items()):
            message = f"{topic}-{index} cannot be moved: {why}"
            await self._context.post(cluster, "Warning", ScaleReason.MOVE_REFUSED.value, message)
        return refused_moves(step, refused, others_move=bool(accepted) or moving)


async def _unregister(broker_id: int, _: BrokerAddress, handle: BrokerHandle) -> None:
    await handle.unregister_broker(broker_id)
