"""The quota path on brokers that others run: as fleet.enforce, but only what was set for ConnectionQuotas is lifted.

What will be set is remembered before it is, so that an operator that was away when a quota was deleted lifts its limit
all the same.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

from sluicegate_operator.api.broker_cluster import LIMITS_SET_MAX
from sluicegate_operator.fleet.asking import BrokerPool
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.enforce import (
    BrokerEnforcement,
    EnforcementResult,
    EnforcementState,
    WantedLimits,
    enforce,
)
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.views import ConfigSource, ConfigSynonym
from sluicegate_operator.planning.limit_ledger import LimitLedger
from sluicegate_operator.planning.limits import COUNT_PER_IP_OVERRIDES, DesiredLimits, LimitKey
from sluicegate_operator.planning.shared_limits import Mine, Overrides, beside_others, keys_of, mine_of, overridden

LIMITS_MAX = LIMITS_SET_MAX
"""Of one cluster, while those that are to be lifted count as well."""

Remember = Callable[[Mine], Awaitable[None]]
"""Keeps it for good: it has returned before anything is set."""


async def enforce_beside_others(
    pool: BrokerPool, wanted: WantedLimits, ledger: LimitLedger, before: Mine, remember: Remember
) -> EnforcementResult:
    """`before`: what was set for ConnectionQuotas, and perhaps more. Raises what `remember` raises, and nothing that a
    broker can cause."""
    now = mine_of(wanted.desired)
    mine = now | before
    if len(mine) > LIMITS_MAX:
        # Not as changed: what was never set may be somebody else's, and is not to be lifted.
        ledger.look_at_all()
        return _too_many(pool, wanted, len(mine))
    if mine != before:
        await remember(mine)
    ours = keys_of(mine)
    pool, desired = await _with_others(pool, wanted, mine)
    # What has changed and was never set may be somebody else's.
    changed = frozenset(key for key in wanted.changed if key in ours)
    released = frozenset[LimitKey]() if wanted.hold else ours
    wanted = replace(wanted, desired=desired, changed=changed, released=released, ours=ours)
    result = await enforce(pool, wanted, ledger)
    states = {broker.state for broker in result.brokers}
    lifted = not result.failures and EnforcementState.ENFORCED in states and EnforcementState.LAGGING not in states
    if mine != now and lifted and not wanted.hold:
        await remember(now)
    return result


def _too_many(pool: BrokerPool, wanted: WantedLimits, count: int) -> EnforcementResult:
    detail = f"nothing is changed: {count} limits are more than the {LIMITS_MAX} that can be remembered; delete some"
    lagging = (BrokerEnforcement(broker.broker_id, EnforcementState.LAGGING, detail) for broker in pool.brokers)
    return EnforcementResult(tuple(lagging), wanted.started_at_s)


async def _with_others(pool: BrokerPool, wanted: WantedLimits, mine: Mine) -> tuple[BrokerPool, DesiredLimits]:
    """And the brokers that have told what others have set there: without that, theirs would be replaced."""
    addresses = overridden(mine)
    if not addresses:
        return pool, wanted.desired

    async def look(broker: BrokerAddress, handle: BrokerHandle) -> tuple[ConfigSynonym, ...]:
        configs = await handle.describe_broker_configs(broker.broker_id, [COUNT_PER_IP_OVERRIDES])
        found = configs.get(COUNT_PER_IP_OVERRIDES)
        return found.synonyms if found is not None else ()

    answers = await pool.ask_each(look)
    layers = [synonym for answer in answers.values() if isinstance(answer, tuple) for synonym in answer]

    def values(source: ConfigSource) -> list[str]:
        return [one.value for one in layers if one.source is source and one.value is not None]

    others = Overrides(
        values(ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
        values(ConfigSource.DYNAMIC_BROKER_CONFIG),
        values(ConfigSource.STATIC_BROKER_CONFIG),
    )
    return pool.barring(answers), beside_others(wanted.desired, addresses, others)
