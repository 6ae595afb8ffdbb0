"""Plan the brokers' observers and the requests that configure them. Pure.

The module decides which of two ObserverPlugins with one name is loaded. It translates plugins to the broker's keys, and
compares the keys with those of each broker. The keys are cluster-wide defaults, like those of limits, so an offline
broker gets them when it reconnects. An observer that no ObserverPlugin names was configured by hand, and is removed.
"""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.observer_plugin import ObserverPlugin
from sluicegate_operator.planning.limits.limits import SetBrokerConfigs
from sluicegate_operator.planning.observers.api_keys import canonical_api
from sluicegate_operator.planning.observers.observer_code import ModulesFound, ObserverModule
from sluicegate_operator.planning.status.missing_cluster import cluster_missing_words
from sluicegate_operator.planning.status.seniority import seniority
from sluicegate_operator.resources.nodes.statefulset import LOG_DIR

NAMES = "observer.class.names"
AUDIT_LOG, SPOOLS = "audit-log", "spool.dir"
"""Name of the built-in observer whose events are landed from a folder, and the key that names another folder."""
_SPOOLS_DEFAULT = f"{LOG_DIR}/audit"
"""The audit log's folder if the key is absent or empty."""
PREFIX = "observer."
_FILTERS: Mapping[str, Callable[[str], str]] = {
    "filter.api.keys": canonical_api,
    "filter.listeners": str.upper,
    "filter.principals": str,
    "filter.topic.prefixes": str,
}
"""Keys of an observer, without its name, whose lists filter the events that it receives.

Each has a function that returns the same text for all spellings of an item.
"""
OBSERVERS_MAX = 16
"""Maximum number of observers that a broker loads."""
CONFIG_BYTES_MAX = 32 * 1024
"""Maximum bytes of one observer's configuration: all observers may be in one request of at most 1 MiB."""
LOADED, LOADING, SUSPENDED, FAILED, UNKNOWN = "Loaded", "Loading", "Suspended", "Failed", "Unknown"
"""The states that a broker reports for an observer. Unknown stands for a broker that does not answer."""


class PluginOutcome(StrEnum):
    """The outcome for an ObserverPlugin. It is also the reason in the plugin's conditions."""

    ACCEPTED = "Accepted"
    DISABLED = "Disabled"
    NAME_TAKEN = "Conflicted"
    TOO_MANY = "TooMany"
    TOO_LARGE = "TooLarge"
    CLUSTER_MISSING = "ClusterMissing"
    CODE_NOT_ALLOWED = "CodeNotAllowed"
    CODE_MISSING = "CodeMissing"
    CODE_NAME_TAKEN = "NameTaken"
    CODE_REFUSED = "Refused"


@dataclass(frozen=True, slots=True)
class PluginVerdict:
    """The verdict on one ObserverPlugin. `observer` is the observer's name on the brokers."""

    observer: str
    outcome: PluginOutcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class ObserverPlan:
    """The plan for all observers of a cluster.

    - `configs`: the cluster's default dynamic configuration of observers.
    - `keys`: each observer's own keys in `configs`, by observer.
    - `verdicts`: by the ObserverPlugin's metadata.name.
    - `modules`: the code that brokers are given, by observer.
    """

    configs: Mapping[str, str] = field(default_factory=dict)
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    verdicts: Mapping[str, PluginVerdict] = field(default_factory=dict)
    modules: Mapping[str, ObserverModule] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObserverReport:
    """A broker's report on one observer: its state and a message."""

    state: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class ObservedObservers:
    """A broker's dynamic observer configuration on both levels, and its report on each observer.

    Reports exist for the observers in `observer.class.names` that have a class.
    """

    default: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    reports: Mapping[str, ObserverReport] = field(default_factory=dict)


def is_observer_key(key: str) -> bool:
    return key.startswith(PREFIX)


def class_key(observer: str) -> str:
    """Return the key of an observer's class.

    Built-in observers have it too: the broker reports the state with it.
    """
    return f"{PREFIX}{observer}.class"


def plan_observers(
    cluster: BrokerCluster | None, plugins: Sequence[ObserverPlugin], code: ModulesFound | None = None
) -> ObserverPlan:
    """Return the observers of a cluster, and a verdict on each ObserverPlugin.

    `plugins` of other clusters are ignored; without a cluster, all plugins lack theirs. `code`: the contents of the
    ConfigMaps that the plugins name.
    """
    living = [plugin for plugin in plugins if plugin.metadata.deletion_timestamp is None]
    if cluster is None or cluster.spec.is_external:
        return ObserverPlan(verdicts={plugin.name: _cluster_missing(plugin) for plugin in living})
    own = [p for p in living if (p.spec.cluster_ref.name, p.namespace) == (cluster.name, cluster.namespace)]
    found = code or ModulesFound()
    accepted: dict[str, ObserverPlugin] = {}
    verdicts: dict[str, PluginVerdict] = {}
    for plugin in sorted(own, key=seniority):
        verdicts[plugin.name] = _judge(plugin, accepted, cluster, found)
        if verdicts[plugin.name].outcome is PluginOutcome.ACCEPTED:
            accepted[plugin.observer_name] = plugin
    modules = {
        name: found.modules[plugin.name] for name, plugin in accepted.items() if plugin.spec.config_map_name is not None
    }
    of_each = {name: _configs(plugin, modules.get(name)) for name, plugin in accepted.items()}
    return _plan(of_each, verdicts, modules)


def _plan(
    of_each: Mapping[str, Mapping[str, str]],
    verdicts: Mapping[str, PluginVerdict],
    modules: Mapping[str, ObserverModule],
) -> ObserverPlan:
    """Build the plan. `of_each`: the configuration of each observer that brokers load, by name."""
    configs = {key: value for own_configs in of_each.values() for key, value in own_configs.items()}
    if of_each:
        configs[NAMES] = ",".join(sorted(of_each))
    return ObserverPlan(configs, {name: tuple(found) for name, found in of_each.items()}, verdicts, modules)


def _cluster_missing(plugin: ObserverPlugin) -> PluginVerdict:
    message = cluster_missing_words(plugin, bundled=True)
    return PluginVerdict(plugin.observer_name, PluginOutcome.CLUSTER_MISSING, message)


def _judge(
    plugin: ObserverPlugin, accepted: Mapping[str, ObserverPlugin], cluster: BrokerCluster, code: ModulesFound
) -> PluginVerdict:
    name = plugin.observer_name
    if not plugin.spec.enabled:
        return PluginVerdict(name, PluginOutcome.DISABLED, "spec.enabled is false, so no broker loads the observer")
    if name in accepted:
        other = accepted[name].name
        message = f"ObserverPlugin {other} is older and has the name {name}, too; give this one another spec.name"
        return PluginVerdict(name, PluginOutcome.NAME_TAKEN, message)
    writer = _same_spools(plugin, accepted.values())
    if writer is not None:
        message = (
            f"ObserverPlugin {writer.name} is older and writes the audit log, too, so all events would be"
            " recorded twice; delete one, or set another spool.dir here"
        )
        return PluginVerdict(name, PluginOutcome.NAME_TAKEN, message)
    if len(accepted) >= OBSERVERS_MAX:
        message = f"a broker has at most {OBSERVERS_MAX} observers, and so many older ones exist; delete one"
        return PluginVerdict(name, PluginOutcome.TOO_MANY, message)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in _configs(plugin, None).items())
    if size > CONFIG_BYTES_MAX:
        message = (
            f"config and filter have {size} bytes, and the limit is {CONFIG_BYTES_MAX}: let the observer read"
            " the rest from a file"
        )
        return PluginVerdict(name, PluginOutcome.TOO_LARGE, message)
    if plugin.spec.config_map_name is not None and not cluster.spec.allows_config_map_code:
        message = (
            "code from a ConfigMap runs with the rights of the brokers: set observers.allowConfigMapCode: true"
            f" in BrokerCluster {cluster.name} if all users who can write ConfigMaps in this namespace may"
            " have these rights, or put the class into the brokers' image"
        )
        return PluginVerdict(name, PluginOutcome.CODE_NOT_ALLOWED, message)
    wheel = plugin.spec.wheel
    if wheel is not None and wheel not in cluster.spec.observer_wheels:
        message = (
            f"BrokerCluster {cluster.name} does not have wheel {wheel}: add it to observers.wheels.files, which"
            " rolls the brokers once"
        )
        return PluginVerdict(name, PluginOutcome.CODE_NOT_ALLOWED, message)
    if plugin.name in code.missing:
        return PluginVerdict(name, PluginOutcome.CODE_MISSING, code.missing[plugin.name])
    return PluginVerdict(name, PluginOutcome.ACCEPTED)


def _same_spools(plugin: ObserverPlugin, others: Iterable[ObserverPlugin]) -> ObserverPlugin | None:
    """Return the plugin of `others` that writes its audit log into the same folder, if any."""
    if plugin.spec.built_in != AUDIT_LOG:
        return None
    own = _spools(plugin)
    writers = (other for other in others if other.spec.built_in == AUDIT_LOG)
    return next((other for other in writers if _spools(other) == own), None)


def _spools(plugin: ObserverPlugin) -> str:
    """Return the folder of a plugin's audit log on a broker, normalized."""
    configured = (plugin.spec.config or {}).get(SPOOLS) or _SPOOLS_DEFAULT
    # POSIX leaves the meaning of two leading slashes open; Linux treats them as one.
    return posixpath.normpath(f"/{configured.lstrip('/')}" if configured.startswith("/") else configured)


def nobody_lands(cluster: BrokerCluster, plugin: ObserverPlugin) -> str:
    """Return the warning about an audit log that is never landed from the brokers' pods; empty for other plugins."""
    is_audit_log = plugin.spec.built_in == AUDIT_LOG and _spools(plugin) == _SPOOLS_DEFAULT
    if not is_audit_log or cluster.spec.landing is not None:
        return ""
    return f"the audit log is not landed: set audit.landing in BrokerCluster {cluster.name}"


def without_modules(plan: ObserverPlan, outcome: PluginOutcome, message: str) -> ObserverPlan:
    """Return the plan without modules, which cannot be given to brokers. The affected verdicts have the cause."""
    of_each = {
        name: {key: plan.configs[key] for key in keys} for name, keys in plan.keys.items() if name not in plan.modules
    }
    verdicts = {
        plugin: PluginVerdict(verdict.observer, outcome, message)
        if verdict.outcome is PluginOutcome.ACCEPTED and verdict.observer in plan.modules
        else verdict
        for plugin, verdict in plan.verdicts.items()
    }
    return _plan(of_each, verdicts, {})


def _configs(plugin: ObserverPlugin, module: ObserverModule | None) -> dict[str, str]:
    spec, prefix = plugin.spec, f"{PREFIX}{plugin.observer_name}."
    class_name = plugin.observes if module is None else module.class_name
    configs = {class_key(plugin.observer_name): class_name}
    configs |= {prefix + key: value for key, value in (spec.config or {}).items()}
    if spec.budget_microseconds is not None:
        configs[prefix + "budget.us"] = str(spec.budget_microseconds)
    if spec.filter is not None:
        lists = zip(_FILTERS, spec.filter.lists, strict=True)
        configs |= {f"{prefix}{name}": ",".join(items) for name, items in lists if items}
    return configs


def diff_observers(
    desired: Mapping[str, str], observed: Mapping[int, ObservedObservers], *, keeps: bool = False
) -> list[SetBrokerConfigs]:
    """Return the requests that bring every observed broker to `desired`; empty if all have it.

    `keeps`: an ObserverPlugin cannot be read, so no key that may belong to it is removed.
    """
    views = list(observed.values())
    if keeps:
        desired = {**desired, **_kept(desired, views)}
    stale = {
        key: value
        for key, value in desired.items()
        if not all(same_observer_value(key, view.default.get(key), value) for view in views)
    }
    surplus = {key for view in views for key in view.default if key not in desired and not keeps}
    actions = []
    if stale or surplus:
        actions.append(SetBrokerConfigs(None, dict(sorted(stale.items())), tuple(sorted(surplus))))
    for broker_id, view in sorted(observed.items()):
        if view.own and not keeps:
            actions.append(SetBrokerConfigs(broker_id, {}, tuple(sorted(view.own))))
    return actions


def same_observer_value(key: str, one: str | None, other: str | None) -> bool:
    """Return whether two texts are the same value of a key.

    The lists of spec.filter have no order. Keys of spec.config, whose names may be similar, belong to the observer and
    are compared literally.
    """
    _, _, of_observer = key.removeprefix(PREFIX).partition(".")
    canonical = _FILTERS.get(of_observer)
    if one is None or other is None or canonical is None:
        return one == other
    return {canonical(item) for item in one.split(",")} == {canonical(item) for item in other.split(",")}


def _kept(desired: Mapping[str, str], views: Sequence[ObservedObservers]) -> dict[str, str]:
    listed = [desired.get(NAMES, ""), *(view.default.get(NAMES, "") for view in views)]
    names = sorted({name for text in listed for name in text.split(",") if name})
    return {NAMES: ",".join(names)} if names else {}


def reports_on(
    plan: ObserverPlan, observer: str, expected: Sequence[int], observed: Mapping[int, ObservedObservers]
) -> dict[int, ObserverReport]:
    """Return the state of an observer on each broker of `expected`; brokers that were not observed are left out."""
    return {broker_id: _report(plan, observer, observed[broker_id]) for broker_id in expected if broker_id in observed}


def _report(plan: ObserverPlan, observer: str, seen: ObservedObservers) -> ObserverReport:
    listed = seen.own.get(NAMES, seen.default.get(NAMES, "")).split(",")
    in_force = all(
        same_observer_value(key, seen.own.get(key, seen.default.get(key)), plan.configs[key])
        for key in plan.keys[observer]
    )
    if observer not in listed or not in_force:
        return ObserverReport(LOADING, "the broker does not have this configuration yet")
    report = seen.reports.get(observer, ObserverReport(LOADING, "the broker did not report the observer's state"))
    module = plan.modules.get(observer)
    if module is not None and report.state == FAILED and module.is_missed_in(report.message):
        return ObserverReport(
            LOADING, "the observer's code has not reached the pod yet; the broker tries again every minute"
        )
    return report
