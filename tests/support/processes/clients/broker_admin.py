"""Administration from a test's own thread: the operator's admin client, one call at a time."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from sluicegate_operator.kafka_admin.client import AdminClient, BrokerHandle
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.planning.limits.limits import ip_rate
from tests.support.processes.broker_process import BrokerProcess

T = TypeVar("T")

PATIENCE_S = 60.0
"""Default time-out. What tests await takes seconds at most; a machine that is busy may take many more."""
PAUSE_S = 0.01
"""Pause between two checks: this process has clients whose threads want to run."""


def ask(broker: BrokerProcess, question: Callable[[BrokerHandle], Awaitable[T]]) -> T:
    """The answer of exactly this broker, over a separate connection to the PLAINTEXT listener."""

    async def run() -> T:
        async with AdminClient([(broker.host, broker.port())], request_timeout_s=30) as client:
            return await question(client.broker(broker.host, broker.port()))

    return asyncio.run(run())


def set_default_config(broker: BrokerProcess, key: str, value: str | None) -> None:
    """Set a dynamic broker configuration of the whole cluster; None removes it."""
    change = ConfigChange(delete=[key]) if value is None else ConfigChange(set={key: value})
    ask(broker, lambda handle: handle.incremental_alter_configs(None, change))


def set_ip_rates(broker: BrokerProcess, rates: Mapping[str | None, float | None]) -> None:
    ask(broker, lambda handle: handle.alter_quotas({ip_rate(address): rate for address, rate in rates.items()}))


def effective_config(broker: BrokerProcess, key: str) -> str | None:
    """The configuration in force on this broker; None when the key is not set at all."""
    entry = ask(broker, lambda handle: handle.describe_broker_configs(broker.node_id, [key])).get(key)
    return None if entry is None else entry.value


def until(condition: Callable[[], bool], what: str, timeout_s: float = PATIENCE_S) -> None:
    deadline, pause = time.monotonic() + timeout_s, threading.Event()
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}")
        pause.wait(PAUSE_S)
