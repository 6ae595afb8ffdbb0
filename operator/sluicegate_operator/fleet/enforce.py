"""The quota path: look at the limits of every broker, change what differs, read back until every broker enforces them.

Used by the Kubernetes and the local fleet alike. What differs and what to do about it is decided by planning.quotas;
nothing here restarts a broker, and one that is down is named in the result while the others are done. Times are those
of the event loop's clock.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TypeVar

from sluicegate_operator.fleet.asking import BrokerPool, NoBrokerError, Unreachable
from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, KafkaApiError
from sluicegate_operator.kafka_admin.views import Configs, ConfigSource
from sluicegate_operator.planning.held_limits import hold
from sluicegate_operator.planning.listeners import LISTENERS, listener_ports
from sluicegate_operator.planning.quotas import (
    Action,
    Closing,
    DesiredLimits,
    ObservedLimits,
    SetBrokerConfigs,
    SetIpQuota,
    TargetKey,
    diff_quotas,
    while_open,
)

FIRST_PAUSE_S = 0.005
LONGEST_PAUSE_S = 0.1

Some = TypeVar("Some", SetBrokerConfigs, SetIpQuota)


class EnforcementState(StrEnum):
    """How far one broker is with the limits."""

    ENFORCED = "Enforced"
    LAGGING = "Lagging"
    UNREACHABLE = "Unreachable"


@dataclass(frozen=True, slots=True)
class BrokerEnforcement:
    """`detail` says why not; `observed` is what the broker said last, None when it said nothing."""

    broker_id: int
    state: EnforcementState
    detail: str = ""
    enforced_at_s: float | None = None
    observed: ObservedLimits | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A change that was not made, in the words of whoever did not make it."""

    action: Action
    error: KafkaAdminError | NoBrokerError


@dataclass(frozen=True, slots=True)
class Enforcement:
    """What is wanted and within which time: `started_at_s` is when the operator learned of it, `deadline_s` how long
    brokers may take to show it. `released`: targets whose quota is gone, see diff_quotas. `hold`: see held_limits.
    `closing`: what is wanted as well while brokers have certain listeners open."""

    desired: DesiredLimits
    started_at_s: float
    deadline_s: float = 5.0
    released: Collection[TargetKey] = ()
    hold: bool = False
    closing: tuple[Closing, ...] = ()


@dataclass(frozen=True, slots=True)
class EnforcementResult:
    """`changes` is what was found to differ, so it is empty when the resync finds no drift. `desired` is what was
    wanted in the end: with what is held, and what counts until a listener is closed."""

    brokers: tuple[BrokerEnforcement, ...]
    started_at_s: float
    changes: tuple[Action, ...] = ()
    failures: tuple[Failure, ...] = ()
    desired: DesiredLimits = field(default_factory=DesiredLimits)

    @property
    def enforced(self) -> int:
        return sum(broker.state is EnforcementState.ENFORCED for broker in self.brokers)

    @property
    def is_complete(self) -> bool:
        return self.enforced == len(self.brokers) and not self.failures

    @property
    def lagging(self) -> tuple[BrokerEnforcement, ...]:
        return tuple(broker for broker in self.brokers if broker.state is not EnforcementState.ENFORCED)

    @property
    def enforced_at_s(self) -> float | None:
        """When the last broker was seen to enforce everything; None while one does not."""
        times = [broker.enforced_at_s for broker in self.brokers if broker.enforced_at_s is not None]
        return max(times) if times and self.is_complete else None

    @property
    def took_s(self) -> float | None:
        return None if self.enforced_at_s is None else self.enforced_at_s - self.started_at_s

    @property
    def observed(self) -> Mapping[int, ObservedLimits]:
        """Of the brokers that answered: what planning.quotas.lagging_brokers takes."""
        return {broker.broker_id: broker.observed for broker in self.brokers if broker.observed is not None}


async def enforce(pool: BrokerPool, wanted: Enforcement) -> EnforcementResult:
    """The whole path once. Raises nothing that a broker can cause: the result says what went wrong where."""
    seen = await observe_limits(pool)
    answers = {broker_id: limits for broker_id, limits in seen.items() if isinstance(limits, ObservedLimits)}
    wanted = replace(wanted, desired=while_open(wanted.desired, wanted.closing, answers))
    if wanted.hold:
        wanted = replace(wanted, desired=hold(wanted.desired, answers))
    actions = diff_quotas(wanted.desired, answers, wanted.released)
    pool = pool.doubting(seen)
    failures = await apply_actions(pool, actions)
    brokers = await read_back_until_enforced(pool, wanted, actions, failures)
    return EnforcementResult(brokers, wanted.started_at_s, tuple(actions), failures, wanted.desired)


async def observe_limits(
    pool: BrokerPool, keys: Collection[str] | None = None, brokers: Iterable[BrokerAddress] | None = None
) -> dict[int, ObservedLimits | Unreachable]:
    """What each broker itself says. Without `keys` its whole dynamic configuration, also limits that nobody wants."""

    async def look(broker: BrokerAddress, handle: BrokerHandle) -> ObservedLimits:
        # Both of the broker's own view: the controller may be ahead of it.
        rates = await handle.describe_ip_quotas()
        # No keys at all would mean every key to Kafka.
        asked = None if keys is None else [*keys, LISTENERS]
        configs = {} if keys is not None and not keys else await handle.describe_broker_configs(broker.broker_id, asked)
        listeners = configs.get(LISTENERS)
        return ObservedLimits(
            default=config_layer(configs, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            own=config_layer(configs, ConfigSource.DYNAMIC_BROKER_CONFIG),
            ip_rates=rates,
            listeners=frozenset(listener_ports(listeners.value)) if listeners is not None else None,
        )

    return await pool.ask_each(look, brokers)


def config_layer(configs: Configs, source: ConfigSource) -> dict[str, str]:
    """What one layer sets. The synonyms of a listener's key name the broker-wide key as well, which is another key."""
    return {
        entry.name: synonym.value
        for entry in configs.values()
        for synonym in entry.synonyms
        if synonym.source is source and synonym.name == entry.name and synonym.value is not None
    }


async def apply_actions(pool: BrokerPool, actions: Sequence[Action]) -> tuple[Failure, ...]:
    """Makes all changes at once, in as few requests as possible, and says which could not be made.

    What holds for the whole cluster goes through any broker, so a broker that is down does not matter; the override of
    one broker only that broker takes away.
    """
    rates = [action for action in actions if isinstance(action, SetIpQuota)]
    work = [_apply(rates, partial(_alter_rates, pool))]
    for action in actions:
        if isinstance(action, SetBrokerConfigs):
            work.append(_apply(_by_key(action), partial(_alter_configs, pool, action.broker_id)))
    return tuple(failure for failures in await asyncio.gather(*work) for failure in failures)


def _by_key(action: SetBrokerConfigs) -> list[SetBrokerConfigs]:
    single = [SetBrokerConfigs(action.broker_id, {key: value}) for key, value in action.set.items()]
    return single + [SetBrokerConfigs(action.broker_id, {}, (key,)) for key in action.delete]


async def _apply(actions: Sequence[Some], send: Callable[[Sequence[Some]], Awaitable[None]]) -> list[Failure]:
    """All in one request; one by one when that is refused, so that one bad value does not hold up the others."""
    if not actions:
        return []
    try:
        await send(actions)
    except KafkaApiError as error:
        if len(actions) == 1:
            return [Failure(actions[0], error)]
    except (KafkaAdminError, NoBrokerError) as error:
        return [Failure(action, error) for action in actions]
    else:
        return []
    return [failure for action in actions for failure in await _apply([action], send)]


async def _alter_configs(pool: BrokerPool, broker_id: int | None, actions: Sequence[SetBrokerConfigs]) -> None:
    change = ConfigChange(
        set={key: value for action in actions for key, value in action.set.items()},
        delete=[key for action in actions for key in action.delete],
    )
    through = pool if broker_id is None else pool.only(broker_id)
    await through.ask_any(lambda _, handle: handle.incremental_alter_configs(broker_id, change))


async def _alter_rates(pool: BrokerPool, actions: Sequence[SetIpQuota]) -> None:
    rates = {action.ip: action.rate for action in actions}
    await pool.ask_any(lambda _, handle: handle.alter_ip_quotas(rates))


async def read_back_until_enforced(
    pool: BrokerPool, wanted: Enforcement, changed: Sequence[Action] = (), failed: Sequence[Failure] = ()
) -> tuple[BrokerEnforcement, ...]:
    """Asks every broker until it enforces what is wanted, cannot be reached, or the deadline passes.

    Only the wanted and the `changed` keys are asked for, which is ten times faster than all of them. What `failed` is
    not waited for.
    """
    keys = set(wanted.desired.configs)
    for action in changed:
        if isinstance(action, SetBrokerConfigs):
            keys.update(action.set, action.delete)
    until_s = asyncio.get_running_loop().time() + wanted.deadline_s
    look = _ReadBack(pool, wanted, sorted(keys), _steps([failure.action for failure in failed]), until_s)
    return tuple(await asyncio.gather(*(look.at(broker) for broker in pool.brokers)))


@dataclass(frozen=True, slots=True)
class _ReadBack:
    pool: BrokerPool
    wanted: Enforcement
    keys: Sequence[str]
    failed: frozenset[str]
    until_s: float

    async def at(self, broker: BrokerAddress) -> BrokerEnforcement:
        loop = asyncio.get_running_loop()
        pause_s = FIRST_PAUSE_S
        while True:
            seen = (await observe_limits(self.pool, self.keys, [broker]))[broker.broker_id]
            if isinstance(seen, Unreachable):
                return BrokerEnforcement(broker.broker_id, EnforcementState.UNREACHABLE, seen.reason)
            missing = diff_quotas(self.wanted.desired, {broker.broker_id: seen}, self.wanted.released)
            now_s = loop.time()
            if not missing:
                return BrokerEnforcement(
                    broker.broker_id, EnforcementState.ENFORCED, enforced_at_s=now_s, observed=seen
                )
            if now_s >= self.until_s or _steps(missing) <= self.failed:
                detail = "; ".join(sorted(_steps(missing)))
                return BrokerEnforcement(broker.broker_id, EnforcementState.LAGGING, detail, observed=seen)
            await asyncio.sleep(min(pause_s, self.until_s - now_s))
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)


def _steps(actions: Iterable[Action]) -> frozenset[str]:
    """What is still to be changed, each key and address for itself, in words for people."""
    steps = []
    for action in actions:
        if isinstance(action, SetIpQuota):
            whose = "the default of all addresses" if action.ip is None else f"address {action.ip}"
            steps.append(
                f"{whose} has a rate to lift" if action.rate is None else f"{whose} has not got rate {action.rate:g}"
            )
            continue
        level = "" if action.broker_id is None else f"broker {action.broker_id}'s own "
        steps += [f"{level}{key} is not {value}" for key, value in action.set.items()]
        steps += [f"{level}{key} is still set" for key in action.delete]
    return frozenset(steps)
