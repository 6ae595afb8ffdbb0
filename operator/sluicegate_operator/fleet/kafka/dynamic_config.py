"""Dynamic broker configuration: read every broker, change what differs, and read until every broker has it.

The operator and `sluicegate up` both use it; planning.layout.broker_config decides what differs. An offline broker gets
the cluster's defaults when it reconnects; the result is not complete before it was read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field

from sluicegate_operator.fleet.kafka.asking import BrokerPool, Unreachable
from sluicegate_operator.fleet.kafka.broker_limits import Failure, apply_actions, observe_limits
from sluicegate_operator.kafka_admin.errors import is_refusal
from sluicegate_operator.planning.layout.broker_config import NO_OWN_TAGS, BrokerConfigPlan, OwnTags, plan_broker_config
from sluicegate_operator.planning.layout.canonical import same_broker_value
from sluicegate_operator.planning.limits.limits import ObservedLimits, SetBrokerConfigs

READ_BACK_PAUSE_S = 0.05

Remember = Callable[[tuple[str, ...]], Awaitable[None]]
"""Function that stores the managed keys durably. It returns before any of the keys is set."""


@dataclass(frozen=True, slots=True)
class WantedConfig:
    """The wanted dynamic configuration of brokers.

    `managed` are the keys that the operator has set, and `own` the tags of each broker. `deadline_s`: seconds that
    brokers may take to report a change.
    """

    desired: Mapping[str, str]
    managed: Collection[str]
    remember: Remember
    deadline_s: float = 5.0
    own: OwnTags = NO_OWN_TAGS
    bundled: bool = True


@dataclass(frozen=True, slots=True)
class ConfigResult:
    """The result of bringing brokers to a configuration.

    `changes` are the differences that were found. `lagging`: what each broker that answered lacks; `unseen`: why the
    others did not answer.
    """

    changes: tuple[SetBrokerConfigs, ...] = ()
    managed: tuple[str, ...] = ()
    lagging: Mapping[int, str] = field(default_factory=dict)
    unseen: Mapping[int, str] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not (self.lagging or self.unseen or self.failures)


async def enforce_config(pool: BrokerPool, wanted: WantedConfig) -> ConfigResult:
    """Bring the brokers to the wanted configuration. Errors of brokers are in the result."""
    if not (wanted.desired or wanted.managed or wanted.own.keys):
        return ConfigResult()
    pool, planned, views, unseen = await _read(pool, wanted, wanted.managed)
    if set(planned.managed) != set(wanted.managed):
        await wanted.remember(planned.managed)
    if not planned.actions:
        return ConfigResult((), planned.managed, planned.lagging, unseen)
    failures = await apply_actions(pool, planned.actions)
    loop = asyncio.get_running_loop()
    until_s = loop.time() + (0.0 if failures else wanted.deadline_s)
    while True:
        pool, after, later, unseen = await _read(pool, wanted, planned.managed)
        if not after.lagging or loop.time() >= until_s:
            break
        await asyncio.sleep(READ_BACK_PAUSE_S)
    never_set = _refused(failures) - {*wanted.managed} - _ours(wanted, {**views, **later})
    managed = tuple(key for key in after.managed if key not in never_set)
    if managed != planned.managed:
        await wanted.remember(managed)
    return ConfigResult(planned.actions, managed, after.lagging, unseen, failures)


def _refused(failures: Collection[Failure]) -> set[str]:
    """Return the keys whose values brokers have refused for good."""
    return {
        key
        for failure in failures
        if is_refusal(failure.error) and isinstance(failure.action, SetBrokerConfigs)
        for key in failure.action.set
    }


def _ours(wanted: WantedConfig, views: Mapping[int, ObservedLimits]) -> set[str]:
    """Return the keys that have their wanted value on a broker. Other values may be of other clients."""
    found = set()
    for broker_id, view in views.items():
        own = wanted.own.values.get(broker_id, {})
        found |= {key for key, value in wanted.desired.items() if same_broker_value(key, view.default.get(key), value)}
        found |= {key for key, value in own.items() if view.own.get(key) == value}
    return found


async def _read(
    pool: BrokerPool, wanted: WantedConfig, managed: Collection[str]
) -> tuple[BrokerPool, BrokerConfigPlan, dict[int, ObservedLimits], dict[int, str]]:
    seen = await observe_limits(pool, sorted({*wanted.desired, *managed, *wanted.own.keys}))
    views = {broker_id: view for broker_id, view in seen.items() if isinstance(view, ObservedLimits)}
    unseen = {broker_id: view.reason for broker_id, view in seen.items() if isinstance(view, Unreachable)}
    plan = plan_broker_config(wanted.desired, views, managed, wanted.own, bundled=wanted.bundled)
    return pool.doubting(seen), plan, views, unseen
