"""Dynamic broker configuration: looks at every broker, changes what differs, looks again.

What differs is decided by planning.broker_config. A broker that is away learns the cluster's defaults when it is back;
until it was seen the result is not complete.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from sluicegate_operator.fleet.asking import BrokerPool, Unreachable
from sluicegate_operator.fleet.enforce import Failure, apply_actions, observe_limits
from sluicegate_operator.planning.broker_config import BrokerConfigPlan, plan_broker_config
from sluicegate_operator.planning.quotas import ObservedLimits, SetBrokerConfigs

Remember = Callable[[tuple[str, ...]], None]
"""Keeps the managed keys for good: it has returned before any of them is set."""


@dataclass(frozen=True, slots=True)
class ConfigResult:
    """`changes` is what was found to differ. `lagging`: what each broker lacks, or why it was not seen."""

    changes: tuple[SetBrokerConfigs, ...]
    managed: tuple[str, ...]
    lagging: Mapping[int, str]
    failures: tuple[Failure, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.lagging and not self.failures


async def enforce_config(
    pool: BrokerPool, desired: Mapping[str, str], managed: Collection[str], remember: Remember
) -> ConfigResult:
    """Raises nothing that a broker can cause. `managed` and `remember`: see planning.broker_config."""
    if not desired and not managed:
        return ConfigResult((), (), {})
    planned, unseen = await _look(pool, desired, managed)
    if set(planned.managed) != set(managed):
        remember(planned.managed)
    if not planned.actions:
        return ConfigResult((), planned.managed, {**planned.lagging, **unseen})
    failures = await apply_actions(pool, planned.actions)
    after, unseen = await _look(pool, desired, planned.managed)
    if after.managed != planned.managed:
        remember(after.managed)
    return ConfigResult(planned.actions, after.managed, {**after.lagging, **unseen}, failures)


async def _look(
    pool: BrokerPool, desired: Mapping[str, str], managed: Collection[str]
) -> tuple[BrokerConfigPlan, dict[int, str]]:
    seen = await observe_limits(pool, sorted({*desired, *managed}))
    views = {broker_id: view for broker_id, view in seen.items() if isinstance(view, ObservedLimits)}
    unseen = {broker_id: view.reason for broker_id, view in seen.items() if isinstance(view, Unreachable)}
    return plan_broker_config(desired, views, managed), unseen
