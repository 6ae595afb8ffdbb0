"""The quota path on brokers that Sluicegate does not run: like quotas.brokers, but it lifts only limits that it set.

Each limit is written into the cluster's status before brokers get it. So an operator that was down while a quota was
deleted still lifts the limit of that quota.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.parts.broker_cluster_status import LIMITS_SET_MAX
from sluicegate_operator.engine.context.context import ReconcileContext
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool, Unreachable
from sluicegate_operator.fleet.pods.by_cluster import ByCluster
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.errors import is_refusal
from sluicegate_operator.kafka_admin.views import ConfigSource, ConfigSynonym
from sluicegate_operator.planning.limits.limits import COUNT_PER_IP_OVERRIDES, DesiredLimits, LimitKey
from sluicegate_operator.quotas.brokers import (
    EnforcementResult,
    EnforcementState,
    WantedLimits,
    enforce,
)
from sluicegate_operator.quotas.shared_limits import (
    Mine,
    Overrides,
    beside_others,
    keys_of,
    mine_of,
    overridden,
    those_of,
    those_with,
)
from sluicegate_operator.quotas.state.ledger import LimitLedger

LIMITS_SET = "limitsSet"
"""The field of the status that remembers the limits."""
LIMITS_MAX = LIMITS_SET_MAX
"""Maximum number of remembered limits of one cluster, including those that have yet to be lifted."""

SHOWN_AFTER_S = 0.3
"""Brokers that follow their controller show a change of any client within this time."""
READINGS_MAX = 5

Remember = Callable[[Mine], Awaitable[None]]
"""Stores these texts durably. It returns before brokers get a limit."""


async def enforce_beside_others(
    pool: BrokerPool, wanted: WantedLimits, ledger: LimitLedger, before: Mine, remember: Remember
) -> EnforcementResult:
    """Bring the wanted limits into force beside the limits of other clients.

    `before`: the limits that the status remembers as set by this operator; no other limit is lifted. Errors of brokers
    are in the result. Raises what `remember` raises.
    """
    now = mine_of(wanted.desired)
    if (count := len(now | before)) > LIMITS_MAX:
        # Limits that are lifted now make room for new ones.
        kept = replace(wanted, desired=those_of(wanted.desired, before))
        result = await enforce_beside_others(pool, kept, ledger, before, remember)
        ledger.kept |= keys_of(now - before)
        # Not as changed limits: a limit that was never set may belong to another client, and must not be lifted.
        ledger.read_all()
        return _too_many(result, count)
    mine = now | before
    if mine != before:
        await remember(mine)
    ours = keys_of(mine)
    pool, desired = await _with_others(pool, wanted, mine)
    # A changed limit that was never set may belong to another client.
    changed = frozenset(key for key in wanted.changed if key in ours)
    wanted = replace(wanted, desired=desired, changed=changed, ours=ours)
    result = await enforce(pool, wanted, ledger)
    states = {broker.state for broker in result.brokers}
    lifted = not result.failures and EnforcementState.ENFORCED in states and EnforcementState.LAGGING not in states
    # A broker may still set limits whose change it has not answered.
    awaited = those_with(mine, ledger.doubts.keys_awaited)
    left = now | awaited if lifted and not wanted.keep.all else mine
    left -= those_with(now - before, _never_set(result, ledger)) - awaited
    if mine != left:
        await remember(left)
    return result


def _never_set(result: EnforcementResult, ledger: LimitLedger) -> frozenset[LimitKey]:
    """Return the limits that brokers have refused for good and that no broker shows as wanted.

    The present value of such a limit may be of another client, and must not be lifted later.
    """
    refused = {key for failure in result.failures if is_refusal(failure.error) for key in failure.action.keys}
    return frozenset(refused).intersection(*ledger.lacked().values())


def _too_many(result: EnforcementResult, count: int) -> EnforcementResult:
    detail = (
        f"the quotas need {count} limits, and the operator can store {LIMITS_MAX}; new limits wait until quotas"
        " are deleted"
    )
    lagging = (
        replace(broker, state=EnforcementState.LAGGING, detail=detail, enforced_at_s=None)
        if broker.state is EnforcementState.ENFORCED
        else broker
        for broker in result.brokers
    )
    return replace(result, brokers=tuple(lagging))


@dataclass(frozen=True, slots=True)
class _Reading:
    """The brokers' answers about the shared key."""

    answers: Mapping[int, tuple[ConfigSynonym, ...] | Unreachable]

    def values(self, source: ConfigSource) -> list[str]:
        layers = [one for answer in self.answers.values() if isinstance(answer, tuple) for one in answer]
        return [one.value for one in layers if one.source is source and one.value is not None]

    @property
    def defaults(self) -> dict[int, str | None]:
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        return {
            broker_id: next((one.value for one in answer if one.source is source), None)
            for broker_id, answer in self.answers.items()
            if isinstance(answer, tuple)
        }

    @property
    def overrides(self) -> Overrides:
        """The entries of all clients.

        If brokers differ, the default that most of them show counts: a broker may have stopped following its
        controller.
        """
        counted = Counter(self.defaults.values()).most_common(1)
        default = counted[0][0] if counted else None
        own, files = ConfigSource.DYNAMIC_BROKER_CONFIG, ConfigSource.STATIC_BROKER_CONFIG
        return Overrides(default, self.values(own), self.values(files))


async def _with_others(pool: BrokerPool, wanted: WantedLimits, mine: Mine) -> tuple[BrokerPool, DesiredLimits]:
    """Return the limits with the entries of other clients, and the brokers that have shown these entries.

    A broker that has not shown them would overwrite them. Brokers show a change late, so the key is written only after
    two equal readings.
    """
    addresses = overridden(mine)
    if not addresses:
        return pool, wanted.desired
    before, desired = None, wanted.desired
    for _ in range(READINGS_MAX):
        reading = await _read(pool)
        desired = beside_others(wanted.desired, addresses, reading.overrides)
        value, defaults = desired.configs.get(COUNT_PER_IP_OVERRIDES), reading.defaults
        if defaults == before or all(default == value for default in defaults.values()):
            return pool.barring(reading.answers), desired
        before = defaults
        await asyncio.sleep(SHOWN_AFTER_S)
    moving = f"another client is changing {COUNT_PER_IP_OVERRIDES}"
    return pool.barring({broker.broker_id: Unreachable(broker.broker_id, moving) for broker in pool.brokers}), desired


async def _read(pool: BrokerPool) -> _Reading:
    async def read(broker: BrokerAddress, handle: BrokerHandle) -> tuple[ConfigSynonym, ...]:
        configs = await handle.describe_broker_configs(broker.broker_id, [COUNT_PER_IP_OVERRIDES])
        found = configs.get(COUNT_PER_IP_OVERRIDES)
        return found.synonyms if found is not None else ()

    return _Reading(await pool.ask_each(read))


@dataclass(slots=True)
class _Written:
    """The limits that the status last got; None before it got any. A status that was read may be older."""

    mine: Mine | None = None


class ExternalLimits:
    """Enforces the wanted limits beside those of other clients, and remembers those that it has set on each cluster."""

    def __init__(self, context: ReconcileContext) -> None:
        self._context = context
        self._written = ByCluster(_Written)

    async def enforce(
        self, cluster: BrokerCluster, pool: BrokerPool, wanted: WantedLimits, ledger: LimitLedger
    ) -> EnforcementResult:
        """Bring the wanted limits into force on a cluster's brokers in one pass.

        Raises what `ReconcileContext.remember` raises.
        """
        written = self._written.of(cluster)

        async def remember(mine: Mine) -> None:
            await self._context.remember(cluster, {LIMITS_SET: sorted(mine)})
            written.mine = mine

        before = frozenset(cluster.status.limits_set or ()) if written.mine is None else written.mine
        return await enforce_beside_others(pool, wanted, ledger, before, remember)

    def forget(self, key: ClusterKey) -> None:
        self._written.forget(key)
