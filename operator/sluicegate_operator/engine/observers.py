"""Reconcile the ObserverPlugins of a cluster: configure running brokers, and write their reports into the statuses."""

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.observer_plugin import ObserverPlugin, ObserverPluginStatus
from sluicegate_operator.engine.context.context import ReconcileContext, now
from sluicegate_operator.engine.context.progress import ClusterProgress
from sluicegate_operator.engine.context.snapshot import ClusterKey, Snapshot
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.engine.telling import report_stalled, write_one_of_many
from sluicegate_operator.engine.work_queue import Again, Retry, unless_refused
from sluicegate_operator.fleet.kafka.asking import serving_brokers
from sluicegate_operator.fleet.kafka.observers import ObserversResult, enforce_observers, plugin_reports
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError, NameTakenError
from sluicegate_operator.kube.http.kinds import BROKER_LISTENER, OBSERVER_PLUGIN
from sluicegate_operator.planning.layout.cluster_layout import plan_cluster
from sluicegate_operator.planning.observers.observer_code import ModulesFound
from sluicegate_operator.planning.observers.observer_status import observer_status, remark
from sluicegate_operator.planning.observers.observers import (
    ObserverPlan,
    PluginOutcome,
    plan_observers,
    without_modules,
)
from sluicegate_operator.planning.status.paused import paused_status

UNSETTLED_RETRY = Retry(1.0, 10.0)
STATUSES_PER_SLICE = 25


class ObserverCode(Protocol):
    """Delivers observers' code that is neither built in nor in the brokers' image."""

    async def find(self, key: ClusterKey, plugins: Sequence[ObserverPlugin], refusals: Refusals) -> ModulesFound:
        """Return the modules that these ObserverPlugins name. `refusals` keeps refusals that may pass."""

    async def give(self, cluster: BrokerCluster, plan: ObserverPlan, *, keeps: bool) -> None:
        """Give the modules of observers to the brokers, if the cluster allows that.

        `keeps`: an ObserverPlugin cannot be read, so no module that may belong to it is removed.
        """

    def note(self, cluster: BrokerCluster, plugin: ObserverPlugin) -> str:
        """Return a note for users about a loaded observer; empty without one."""


class ObserverReconciler:
    """Keeps the brokers' observers equal to those of the ObserverPlugins.

    Raises KubeError, after which the queue retries.
    """

    def __init__(self, context: ReconcileContext, code: ObserverCode) -> None:
        self._context = context
        self._code = code
        self._refusals = LastingRefusals()

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot = await context.gather(key, [BROKER_LISTENER, OBSERVER_PLUGIN])
        unreadable = snapshot.unreadable_of(OBSERVER_PLUGIN)
        refusals = Refusals()
        await context.report_unreadable(unreadable, refusals)
        cluster = snapshot.cluster
        progress = ClusterProgress() if cluster is None else context.progress.of(cluster)
        code = await self._code.find(key, snapshot.observers, refusals)
        plan = plan_observers(cluster, snapshot.observers, code)
        if cluster is None or cluster.spec.brokers is None:
            await self._write(snapshot, _without(plan, code.postponed), (), ObserversResult(), progress, refusals)
            return unless_refused(refusals, None)
        if cluster.spec.paused:
            await self._write_paused(snapshot, plan, refusals)
            return unless_refused(refusals, context.resync_s(cluster))
        keeps = bool(unreadable) or code.keeps
        try:
            await self._code.give(cluster, plan, keeps=keeps)
        except NameTakenError as error:
            plan = without_modules(plan, PluginOutcome.CODE_NAME_TAKEN, str(error))
        except KubeError as error:
            if self._refusals.may_pass(cluster.metadata.uid, error):
                raise
            # Brokers keep the code that they got before.
            plan, keeps = without_modules(plan, PluginOutcome.CODE_REFUSED, str(error)), True
        else:
            self._refusals.ended(cluster.metadata.uid)
        pool = await context.pool(cluster)
        expected = serving_brokers(plan_cluster(cluster, snapshot.listeners).broker_ids, pool)
        if pool is None:
            result = ObserversResult()
        else:
            result = await enforce_observers(pool, plan, keeps=keeps)
        settled = await self._write(snapshot, _without(plan, code.postponed), expected, result, progress, refusals)
        done = settled and not result.failures and not result.unseen
        return unless_refused(refusals, context.resync_s(cluster) if done else UNSETTLED_RETRY)

    async def _write(
        self,
        snapshot: Snapshot,
        plan: ObserverPlan,
        expected: Sequence[int],
        result: ObserversResult,
        progress: ClusterProgress,
        refusals: Refusals,
    ) -> bool:
        """Write the statuses. Return whether no report is in a state that passes within seconds."""
        settled = True
        for number, plugin in enumerate(snapshot.observers):
            if number % STATUSES_PER_SLICE == 0:
                await asyncio.sleep(0)
            verdict = plan.verdicts.get(plugin.name)
            if verdict is None:
                continue
            reports = plugin_reports(plan, verdict, expected, result)
            note = self._code.note(snapshot.cluster, plugin) if snapshot.cluster is not None else ""
            reports = replace(reports, rolling=bool(progress.rolling) and plugin.spec.source is not None, note=note)
            settled = settled and reports.settled
            status = observer_status(plugin, verdict, reports, now())
            if await write_one_of_many(self._context, plugin, status, refusals):
                await self._record_event(plugin, status)
        return settled

    async def _write_paused(self, snapshot: Snapshot, plan: ObserverPlan, refusals: Refusals) -> None:
        for number, plugin in enumerate(one for one in snapshot.observers if one.name in plan.verdicts):
            if number % STATUSES_PER_SLICE == 0:
                await asyncio.sleep(0)
            old = plugin.status
            state = "" if old.state == PluginOutcome.CLUSTER_MISSING else old.state
            fields = {"observes": plugin.observes, "state": state}
            await write_one_of_many(self._context, plugin, paused_status(plugin, old, now(), fields), refusals)

    async def _record_event(self, plugin: ObserverPlugin, status: ObserverPluginStatus) -> None:
        """Record an Event when all brokers have loaded it, a user must act, or a broker reports a first remark."""
        ready, before = status.condition("Ready"), plugin.status.condition("Ready")
        if ready is not None and ready.status == "True" and (before is None or before.status != "True"):
            await self._context.post(plugin, "Normal", ready.reason, ready.message)
        await report_stalled(self._context, plugin, status)
        if (text := remark(status)) and not remark(plugin.status):
            await self._context.post(plugin, "Warning", "BrokerRemarks", text)


def _without(plan: ObserverPlan, postponed: Collection[str]) -> ObserverPlan:
    """Return the plan without verdicts on these ObserverPlugins, whose statuses are not written."""
    kept = {name: verdict for name, verdict in plan.verdicts.items() if name not in postponed}
    return replace(plan, verdicts=kept) if postponed else plan
