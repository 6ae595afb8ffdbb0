"""ObserverPlugins of one cluster: loaded by the running brokers, and what each broker says of them in their status."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.api.observer_plugin import ObserverPlugin, ObserverPluginStatus
from sluicegate_operator.engine.context import now
from sluicegate_operator.engine.snapshot import ClusterKey, Snapshot
from sluicegate_operator.engine.telling import say_stalled
from sluicegate_operator.engine.work_queue import Again, Retry
from sluicegate_operator.fleet.observers import ObserversResult, enforce_observers, plugin_reports
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.snapshot import gather_snapshot
from sluicegate_operator.kube.kinds import BROKER_LISTENER, CONFIG_MAP, OBSERVER_PLUGIN
from sluicegate_operator.planning.cluster_layout import plan_cluster
from sluicegate_operator.planning.observer_code import ModulesFound, find_modules
from sluicegate_operator.planning.observer_status import observer_status, remark
from sluicegate_operator.planning.observers import ObserverPlan, nobody_lands, plan_observers
from sluicegate_operator.resources.observer_code import observer_code, observer_code_name

UNSETTLED_RETRY = Retry(1.0, 10.0)
STATUSES_A_TURN = 25


class ObserverReconciler:
    """Keeps the observers of brokers as the ObserverPlugins say. Raises KubeError, which is tried again."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def reconcile(self, key: ClusterKey) -> Again:
        context = self._context
        snapshot = await gather_snapshot(context.kube, key, [BROKER_LISTENER, OBSERVER_PLUGIN])
        unreadable = snapshot.unreadable_of(OBSERVER_PLUGIN)
        await context.say_unreadable(unreadable)
        cluster = snapshot.cluster
        plan = plan_observers(cluster, snapshot.observers, await self._code(key, snapshot.observers))
        if cluster is None or cluster.spec.brokers is None:
            await self._write(snapshot, plan, (), ObserversResult())
            return None
        if cluster.spec.paused:
            return context.resync_s(cluster)
        if cluster.spec.allows_config_map_code:
            await self._give_code(cluster, plan, hold=bool(unreadable))
        pool = await context.pool(cluster)
        expected = plan_cluster(cluster, snapshot.listeners).broker_ids
        if pool is None:
            result = ObserversResult()
        else:
            result = await enforce_observers(pool, plan, hold=bool(unreadable))
        settled = await self._write(snapshot, plan, expected, result)
        return context.resync_s(cluster) if settled and not result.failures and not result.unseen else UNSETTLED_RETRY

    async def _give_code(self, cluster: BrokerCluster, plan: ObserverPlan, *, hold: bool) -> None:
        """`hold`: an ObserverPlugin cannot be read, so no module that may be of it is taken away."""
        files = {module.file_name: module.text for module in plan.modules.values()}
        if hold:
            given = await self._context.kube.get(CONFIG_MAP, cluster.namespace, observer_code_name(cluster.name))
            files = {**((given or {}).get("data") or {}), **files}
        await self._context.kube.apply(observer_code(cluster, files))

    async def _code(self, key: ClusterKey, plugins: Sequence[ObserverPlugin]) -> ModulesFound:
        """Raises KubeError."""
        names = {name for plugin in plugins if (name := plugin.spec.config_map_name) is not None}
        found = {name: await self._context.kube.get(CONFIG_MAP, key[0], name) for name in sorted(names)}
        return find_modules({plugin.name: plugin for plugin in plugins}, found)

    async def _write(
        self,
        snapshot: Snapshot,
        plan: ObserverPlan,
        expected: Sequence[int],
        result: ObserversResult,
    ) -> bool:
        """Whether there is nothing that passes by itself in seconds."""
        settled = True
        for number, plugin in enumerate(snapshot.observers):
            if number % STATUSES_A_TURN == 0:
                await asyncio.sleep(0)
            verdict = plan.verdicts.get(plugin.name)
            if verdict is None:
                continue
            reports = plugin_reports(plan, verdict, expected, result)
            rolling = self._context.progress[plugin.namespace, plugin.spec.cluster_ref.name].rolling
            note = nobody_lands(snapshot.cluster, plugin) if snapshot.cluster is not None else ""
            reports = replace(reports, rolling=bool(rolling) and plugin.spec.source is not None, note=note)
            settled = settled and reports.settled
            status = observer_status(plugin, verdict, reports, now())
            if await self._context.write_status(plugin, status):
                await self._say(plugin, status)
        return settled

    async def _say(self, plugin: ObserverPlugin, status: ObserverPluginStatus) -> None:
        """Once it is loaded everywhere, when a person is needed, and when a broker begins to say something of it."""
        ready, before = status.condition("Ready"), plugin.status.condition("Ready")
        if ready is not None and ready.status == "True" and (before is None or before.status != "True"):
            await self._context.post(plugin, "Normal", ready.reason, ready.message)
        await say_stalled(self._context, plugin, status)
        if (said := remark(status)) and not remark(plugin.status):
            await self._context.post(plugin, "Warning", "BrokerRemarks", said)
