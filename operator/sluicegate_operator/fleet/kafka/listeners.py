"""Read which listeners brokers have open, and set which they should have.

A slow or unreachable broker delays no other broker, and its missing answer is a value.
"""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kafka.asking import BrokerPool, NoBrokerError, Unreachable
from sluicegate_operator.kafka_admin.client import BrokerHandle
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.errors import KafkaAdminError, KafkaApiError
from sluicegate_operator.planning.listeners.listeners import (
    ListenersChange,
    OpenListeners,
    asked_keys,
    change_to,
    differing,
    one_by_one,
    open_listeners,
    with_one,
)


async def ask_listeners(pool: BrokerPool, names: Collection[str]) -> dict[int, OpenListeners]:
    """Return the open listeners by broker id. A broker that does not answer is left out.

    `names`: listeners whose trusted proxies are read as well.
    """
    keys = asked_keys(sorted(names))

    async def read(broker: BrokerAddress, handle: BrokerHandle) -> OpenListeners:
        found = await handle.describe_broker_configs(broker.broker_id, keys)
        return open_listeners({name: entry.value for name, entry in found.items()}, broker.host)

    answers = await pool.ask_each(read)
    return {broker_id: seen for broker_id, seen in answers.items() if not isinstance(seen, Unreachable)}


@dataclass(frozen=True, slots=True)
class ListenerOutcome:
    """The outcome of changes of one broker's listeners.

    `refused`: the broker's message by listener name; `changed`: changed listeners.
    """

    changed: tuple[str, ...] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


async def set_listeners(
    pool: BrokerPool, now: Mapping[int, OpenListeners], wanted: Mapping[int, OpenListeners]
) -> dict[int, ListenerOutcome]:
    """Set the listeners of brokers whose listeners differ. Errors of brokers are in the result.

    Other brokers are left out. A broker that does not answer counts as unchanged.
    """
    todo = [b for b in pool.brokers if b.broker_id in now and differing(now[b.broker_id], wanted[b.broker_id])]
    told = await asyncio.gather(*(_set(pool.only(b.broker_id), b, now[b.broker_id], wanted[b.broker_id]) for b in todo))
    return {broker.broker_id: one for broker, one in zip(todo, told, strict=True)}


async def _set(pool: BrokerPool, broker: BrokerAddress, now: OpenListeners, wanted: OpenListeners) -> ListenerOutcome:
    names = one_by_one(now, wanted)
    try:
        refusal = await _alter(pool, broker, change_to(now, wanted, broker.host))
        if not refusal:
            return ListenerOutcome(names)
        if len(names) == 1:
            return ListenerOutcome(refused={names[0]: refusal})
        changed, refused = [], {}
        for name in names:
            target = with_one(now, wanted, name)
            if refusal := await _alter(pool, broker, change_to(now, target, broker.host)):
                refused[name] = refusal
            else:
                changed.append(name)
                now = target
    except (KafkaAdminError, NoBrokerError):
        # The broker is read again in a moment, and until then is reported without them.
        return ListenerOutcome()
    return ListenerOutcome(tuple(changed), refused)


async def _alter(pool: BrokerPool, broker: BrokerAddress, change: ListenersChange | None) -> str:
    """Change the listeners. Return the broker's refusal, empty if it succeeded. Raises errors that may pass."""
    if change is None:
        return ""
    request = ConfigChange(set=change.set, delete=change.delete)
    try:
        await pool.ask_any(lambda _, handle: handle.incremental_alter_configs(broker.broker_id, request))
    except KafkaApiError as error:
        if error.retriable:
            raise
        return str(error)
    return ""
