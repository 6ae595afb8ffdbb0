"""Observers of brokers: read every broker, change what differs, and read until each reports the outcome.

The operator and `sluicegate up` both use it; planning.observers decides what differs. No broker is restarted: it
imports classes while it runs.
"""

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool, Unreachable
from sluicegate_operator.fleet.kafka.broker_limits import Failure, apply_actions, config_layer
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.errors import is_refusal
from sluicegate_operator.kafka_admin.views import Configs, ConfigSource
from sluicegate_operator.planning.limits.limits import SetBrokerConfigs
from sluicegate_operator.planning.observers.observer_status import PluginReports
from sluicegate_operator.planning.observers.observers import (
    LOADING,
    NAMES,
    ObservedObservers,
    ObserverPlan,
    ObserverReport,
    PluginOutcome,
    PluginVerdict,
    class_key,
    diff_observers,
    is_observer_key,
    reports_on,
)

FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 0.5
_SAID = "On this broker: {}: "
"""Prefix of a broker's report in the documentation of an observer's class; the report follows, as in: Failed (why)."""
_REPORT = re.compile(r"(\w+)(?: \((.*)\))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ObserversResult:
    """The result of bringing brokers to a plan of observers.

    `changes` are the differences that were found. `observed`: the reports of each broker that answered; `unseen`: why
    the others did not.
    """

    changes: tuple[SetBrokerConfigs, ...] = ()
    failures: tuple[Failure, ...] = ()
    observed: Mapping[int, ObservedObservers] = field(default_factory=dict)
    unseen: Mapping[int, str] = field(default_factory=dict)


async def enforce_observers(
    pool: BrokerPool, plan: ObserverPlan, *, keeps: bool = False, deadline_s: float = 5.0
) -> ObserversResult:
    """Bring the observers of all brokers to the plan. Errors of brokers are in the result.

    `keeps`: no key that may belong to an unreadable ObserverPlugin is removed. `deadline_s`: seconds that brokers may
    take to load changes.
    """
    seen = await _read(pool, None)
    found = _answers(seen)
    actions = diff_observers(plan.configs, found, keeps=keeps)
    pool = pool.doubting(seen)
    failures = await apply_actions(pool, actions)
    until_s = asyncio.get_running_loop().time() + deadline_s
    if (actions and not failures) or _waits(plan, found):
        keys = {NAMES, *plan.configs, *(key for action in actions for key in action.delete)}
        seen = await _read_until(pool, plan, keys, until_s)
    unseen = {broker_id: answer.reason for broker_id, answer in seen.items() if isinstance(answer, Unreachable)}
    return ObserversResult(tuple(actions), failures, _answers(seen), unseen)


def plugin_reports(
    plan: ObserverPlan, verdict: PluginVerdict, expected: Sequence[int], result: ObserversResult
) -> PluginReports:
    """Return the reports on one observer from the brokers that should have it."""
    if verdict.outcome is not PluginOutcome.ACCEPTED:
        return PluginReports()
    found = reports_on(plan, verdict.observer, expected, result.observed)
    error = next(iter(result.unseen.values()), "")
    return PluginReports(expected, found, _refused(plan, verdict.observer, result), error)


def _refused(plan: ObserverPlan, observer: str, result: ObserversResult) -> str:
    """Return the brokers' message about a value that they refuse permanently."""
    own = {*plan.keys[observer], NAMES}
    for failure in result.failures:
        action = failure.action
        if is_refusal(failure.error) and isinstance(action, SetBrokerConfigs) and own & {*action.set, *action.delete}:
            return str(failure.error)
    return ""


async def _read_until(
    pool: BrokerPool, plan: ObserverPlan, keys: Collection[str], until_s: float
) -> dict[int, ObservedObservers | Unreachable]:
    """Read until all brokers that answer have loaded or failed to load the plan, or time is up.

    Return the last answers.
    """
    loop = asyncio.get_running_loop()
    pause_s = FIRST_PAUSE_S
    while True:
        seen = await _read(pool, sorted(keys))
        found = _answers(seen)
        left_s = until_s - loop.time()
        if left_s <= 0 or not (diff_observers(plan.configs, found) or _waits(plan, found)):
            return seen
        await asyncio.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _waits(plan: ObserverPlan, found: Mapping[int, ObservedObservers]) -> bool:
    """Return whether a broker is still loading an observer."""
    reports = (reports_on(plan, observer, sorted(found), found) for observer in plan.keys)
    return any(report.state == LOADING for by_broker in reports for report in by_broker.values())


def _answers(seen: Mapping[int, ObservedObservers | Unreachable]) -> dict[int, ObservedObservers]:
    return {broker_id: answer for broker_id, answer in seen.items() if isinstance(answer, ObservedObservers)}


async def _read(pool: BrokerPool, keys: Collection[str] | None) -> dict[int, ObservedObservers | Unreachable]:
    """Read the brokers' observers. Without `keys`, read each broker's whole configuration, also unwanted observers."""

    async def read(broker: BrokerAddress, handle: BrokerHandle) -> ObservedObservers:
        configs = await handle.describe_broker_configs(broker.broker_id, keys, with_documentation=True)
        mine = {name: entry for name, entry in configs.items() if is_observer_key(name)}
        return ObservedObservers(
            default=config_layer(mine, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            own=config_layer(mine, ConfigSource.DYNAMIC_BROKER_CONFIG),
            reports=_reports(mine),
        )

    return await pool.ask_each(read)


def _reports(configs: Configs) -> dict[str, ObserverReport]:
    """Return the reports by observer, for those in observer.class.names."""
    names = configs[NAMES].value if NAMES in configs else None
    found = {}
    for name in (names or "").split(","):
        entry = configs.get(class_key(name))
        _, separator, text = entry.documentation.partition(_SAID.format(name)) if entry is not None else ("", "", "")
        match = _REPORT.fullmatch(text) if separator else None
        if match is not None:
            found[name] = ObserverReport(match[1], match[2] or "")
    return found
