"""Code of observers: read from the ConfigMaps that ObserverPlugins name, and given to brokers in the operator's own."""

from collections.abc import Sequence
from dataclasses import replace

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.observer_plugin import ObserverPlugin
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.engine.lasting_refusals import LastingRefusals
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kube.client.one_by_one import Refusals
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import CONFIG_MAP
from sluicegate_operator.planning.observers.observer_code import ModulesFound, find_modules
from sluicegate_operator.planning.observers.observers import ObserverPlan, nobody_lands
from sluicegate_operator.resources.observer_code import observer_code, observer_code_name
from sluicegate_operator.resources.owner import why_not_ours


class CodeInConfigMaps:
    """Code of observers in ConfigMaps. Raises KubeError; `find` only for what concerns all ConfigMaps."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._refusals = LastingRefusals()

    async def find(self, key: ClusterKey, plugins: Sequence[ObserverPlugin], refusals: Refusals) -> ModulesFound:
        names = {name for plugin in plugins if (name := plugin.spec.config_map_name) is not None}
        found, refused, postponed = {}, {}, set[str]()
        for name in sorted(names):
            place = f"{key[0]}/{name}"
            try:
                found[name] = await self._context.kube.get(CONFIG_MAP, key[0], name)
            except KubeError as error:
                refused[name] = str(error)
                if error.retriable:
                    refusals.keep(error)
                if self._refusals.may_pass(place, error):
                    postponed.add(name)
            else:
                self._refusals.ended(place)
        modules = find_modules({plugin.name: plugin for plugin in plugins}, found, refused)
        waiting = frozenset(plugin.name for plugin in plugins if plugin.spec.config_map_name in postponed)
        return replace(modules, postponed=waiting)

    async def give(self, cluster: BrokerCluster, plan: ObserverPlan, *, keeps: bool) -> None:
        if not cluster.spec.allows_config_map_code:
            return
        files = {module.file_name: module.text for module in plan.modules.values()}
        if keeps:
            given = await self._context.kube.get(CONFIG_MAP, cluster.namespace, observer_code_name(cluster.name))
            # Another owner's ConfigMap may be deleted before the operator's is applied; its data must not become code.
            if given is not None and not why_not_ours(given, observer_code(cluster, files)):
                files = {**(given.get("data") or {}), **files}
        await self._context.kube.apply(observer_code(cluster, files))

    def note(self, cluster: BrokerCluster, plugin: ObserverPlugin) -> str:
        return nobody_lands(cluster, plugin)
