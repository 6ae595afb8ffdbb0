"""Read the limits of each broker, and change limits on brokers: dynamic configuration and client quotas.

Brokers answer from their own view, never from that of the controller. Other modules compare limits and decide on
changes.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import STRAGGLER_S, BrokerPool, NoBrokerError, Unreachable
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.errors import (
    FencedError,
    KafkaAdminError,
    KafkaApiError,
    UnsupportedApiError,
    is_refusal,
)
from sluicegate_operator.kafka_admin.quotas import requests
from sluicegate_operator.kafka_admin.views import Configs, ConfigSource
from sluicegate_operator.planning.limits.connection_groups import CLUSTER
from sluicegate_operator.planning.limits.limits import (
    IP,
    Action,
    Entity,
    LimitKey,
    ObservedLimits,
    QuotaKey,
    SetBrokerConfigs,
    SetQuota,
)
from sluicegate_operator.planning.listeners.listeners import LISTENERS, listener_ports

SINGLES_MIN, SINGLES_SHARE = 8, 40
"""Limits up to which entities are read one by one.

A request for one entity costs about as much as 40 entities in the answer to a request for all.
"""
SINGLES_AT_A_TIME = 2
"""Number of concurrent requests to each broker: a hundred brokers are queried in the same event loop iteration."""

STRAGGLER_A_QUOTA_S = 0.0001
"""Seconds for each client quota that a broker may take longer than the others.

They apply to a broker whose whole configuration is read.
"""
TIMED_OUT = "REQUEST_TIMED_OUT"
"""Error code in a broker's answer if the broker's controller has not answered."""

Unanswered = Callable[[int, Iterable[LimitKey]], None]
"""Function that is called with a broker and limits whose change the broker has received and not answered."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A change that was not made, with the error of the broker or of the connection."""

    action: Action
    error: KafkaAdminError | NoBrokerError


@dataclass(frozen=True, slots=True)
class Questions:
    """The limits to read from each broker.

    `asked` None is all limits of a broker. `total`: how many client quotas there may be.
    """

    asked: Mapping[int, frozenset[LimitKey] | None]
    total: int
    entity_types: tuple[str, ...]
    listeners: bool = False


async def read_limits(
    pool: BrokerPool, questions: Questions, brokers: Iterable[BrokerAddress] | None = None
) -> dict[int, ObservedLimits | Unreachable]:
    async def read(broker: BrokerAddress, handle: BrokerHandle) -> ObservedLimits:
        # Both answers are the broker's own view: the controller may be ahead of it.
        asked = questions.asked[broker.broker_id]
        quotas, configs = await asyncio.gather(
            _quotas(handle, asked, questions), _configs(broker, handle, asked, questions)
        )
        listeners = configs.get(LISTENERS)
        return ObservedLimits(
            default=config_layer(configs, ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
            own=config_layer(configs, ConfigSource.DYNAMIC_BROKER_CONFIG),
            quotas=quotas,
            listeners=frozenset(listener_ports(listeners.value)) if listeners is not None else None,
        )

    return await pool.ask_each(read, brokers, STRAGGLER_S + questions.total * STRAGGLER_A_QUOTA_S)


async def _configs(
    broker: BrokerAddress, handle: BrokerHandle, asked: frozenset[LimitKey] | None, questions: Questions
) -> Configs:
    if asked is None:
        return await handle.describe_broker_configs(broker.broker_id)
    keys = sorted(key for key in asked if isinstance(key, str))
    # To Kafka, an empty list of keys means every key.
    return (
        await handle.describe_broker_configs(broker.broker_id, [*keys, LISTENERS])
        if keys or questions.listeners
        else {}
    )


async def _quotas(
    handle: BrokerHandle, asked: frozenset[LimitKey] | None, questions: Questions
) -> dict[QuotaKey, float]:
    entities = None if asked is None else {key[0] for key in asked if not isinstance(key, str)}
    if entities is not None and len(entities) <= max(SINGLES_MIN, questions.total // SINGLES_SHARE):
        left = iter(entities)
        at_a_time = min(len(entities), SINGLES_AT_A_TIME)
        answers = await asyncio.gather(*(_single_quotas(handle, left) for _ in range(at_a_time)))
    else:
        # Entities of groups may have an address as well, so only entities of addresses are read strictly.
        all_of = (handle.describe_quotas(kind, strict=kind == IP) for kind in questions.entity_types)
        answers = await asyncio.gather(*all_of)
    return {key: value for answer in answers for key, value in answer.items()}


async def _single_quotas(handle: BrokerHandle, left: Iterator[Entity]) -> Mapping[QuotaKey, float]:
    """Read the entities one after the other. `left` has those that no task has read yet; several tasks share it."""
    found: dict[QuotaKey, float] = {}
    for entity in left:
        found |= await handle.describe_quotas_of(entity)
    return found


async def observe_limits(
    pool: BrokerPool, keys: Collection[str] | None = None
) -> dict[int, ObservedLimits | Unreachable]:
    """Return the limits that each broker reports.

    Without `keys` the result has each broker's whole dynamic configuration and the rates of all addresses, also limits
    that no quota wants.
    """
    asked = None if keys is None else frozenset(keys)
    return await read_limits(pool, Questions({broker.broker_id: asked for broker in pool.brokers}, 0, (IP,)))


def config_layer(configs: Configs, source: ConfigSource) -> dict[str, str]:
    """Return the values that one layer of the configuration sets.

    The synonyms of a listener's key include the broker-wide key, which is another key.
    """
    return {
        entry.name: synonym.value
        for entry in configs.values()
        for synonym in entry.synonyms
        if synonym.source is source and synonym.name == entry.name and synonym.value is not None
    }


async def apply_actions(
    pool: BrokerPool, actions: Sequence[Action], unanswered: Unanswered = lambda broker_id, keys: None
) -> tuple[Failure, ...]:
    """Make all changes of limits at once. Return the changes that could not be made.

    `unanswered` is called for brokers that may still make a change, also if another broker has made it. A change for
    the whole cluster goes through any broker, so a broker that is down does not matter. Only the broker itself removes
    its override.
    """
    quotas = {action.key: action for action in actions if isinstance(action, SetQuota)}
    work = [_alter_configs(pool, action, unanswered) for action in actions if isinstance(action, SetBrokerConfigs)]
    if quotas:
        work.append(_alter_quotas(pool, quotas, unanswered))
    return tuple(failure for failures in await asyncio.gather(*work) for failure in failures)


@contextmanager
def _doubted(
    broker: BrokerAddress, handle: BrokerHandle, keys: Iterable[LimitKey], unanswered: Unanswered
) -> Iterator[None]:
    """Call `unanswered` after one change unless this broker has answered it.

    A broker that answered only the second request counts as unanswered. So does one that was cancelled because another
    broker has answered.
    """
    repeated, answered = handle.repeated, False
    try:
        yield
        answered = True
    except KafkaApiError as answer:
        answered = answer.name != TIMED_OUT
        raise
    except (FencedError, UnsupportedApiError):
        answered = True
        raise
    finally:
        if not answered or handle.repeated != repeated:
            unanswered(broker.broker_id, keys)


async def _alter_configs(pool: BrokerPool, action: SetBrokerConfigs, unanswered: Unanswered) -> list[Failure]:
    """Alter the configuration.

    If a broker refuses the keys together, each is sent alone: one bad value stops no other.
    """
    through = pool if action.broker_id is None else pool.only(action.broker_id)
    change = ConfigChange(action.set, action.delete)

    async def alter(broker: BrokerAddress, handle: BrokerHandle) -> None:
        with _doubted(broker, handle, action.keys, unanswered):
            await handle.incremental_alter_configs(action.broker_id, change)

    try:
        await through.ask_any(alter)
    except KafkaApiError as error:
        singles = [replace(action, set={key: value}, delete=()) for key, value in action.set.items()]
        singles += [replace(action, set={}, delete=(key,)) for key in action.delete]
        if len(singles) == 1:
            return [Failure(action, error)]
        return [failure for single in singles for failure in await _alter_configs(pool, single, unanswered)]
    except (KafkaAdminError, NoBrokerError) as error:
        return [Failure(action, error)]
    return []


async def _alter_quotas(
    pool: BrokerPool, actions: Mapping[QuotaKey, SetQuota], unanswered: Unanswered
) -> list[Failure]:
    """Alter quotas, with one timeout for each request: thousands of limits need many requests.

    A controller of an earlier release refuses a connection group with a rate of the cluster. The group is then sent
    without that key, because a limit of each broker is stricter than none.
    """
    left = {key: action.value for key, action in actions.items()}
    failures: list[Failure] = []
    for page in list(requests(left)):
        try:
            refused = await _alter_page(pool, page, unanswered)
            if rest := _without_cluster(page, refused):
                again = await _alter_page(pool, rest, unanswered)
                refused = {key: error for key, error in refused.items() if key not in rest} | dict(again)
        except (KafkaAdminError, NoBrokerError) as error:
            return failures + [Failure(actions[key], error) for key in left]
        failures += [Failure(actions[key], error) for key, error in refused.items()]
        for key in page:
            del left[key]
    return failures


def _without_cluster(
    page: Mapping[QuotaKey, float | None], refused: Mapping[QuotaKey, KafkaApiError]
) -> dict[QuotaKey, float | None]:
    """Return the other values of the refused groups that would have a rate of the cluster."""
    of_cluster = {
        entity
        for (entity, name), error in refused.items()
        if name == CLUSTER and page[entity, name] is not None and is_refusal(error)
    }
    return {key: value for key, value in page.items() if key[0] in of_cluster and key[1] != CLUSTER}


async def _alter_page(
    pool: BrokerPool, page: Mapping[QuotaKey, float | None], unanswered: Unanswered
) -> Mapping[QuotaKey, KafkaApiError]:
    async def alter(broker: BrokerAddress, handle: BrokerHandle) -> Mapping[QuotaKey, KafkaApiError]:
        with _doubted(broker, handle, page, unanswered):
            refused = await handle.alter_quotas(page)
        if late := [key for key, error in refused.items() if error.name == TIMED_OUT]:
            unanswered(broker.broker_id, late)
        return refused

    return await pool.ask_any(alter)
