"""Query the brokers of one cluster: all at once, each with its own timeout, or any one that answers.

A slow or unreachable broker never delays the others, and a missing answer is a value, not an exception.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.kafka_admin.client import AdminClient, BrokerHandle
from sluicegate_operator.kafka_admin.errors import AdminConnectionError, AdminTimeoutError, KafkaAdminError

Answer = TypeVar("Answer")
Question = Callable[[BrokerAddress, BrokerHandle], Awaitable[Answer]]

ASK_TIMEOUT_S = 2.0
DOWN_TIMEOUT_S = 0.25
"""Timeout in seconds for a broker that is not ready.

Such a broker may still answer; a ready one gets the full timeout.
"""
STRAGGLER_S = 0.3
"""Seconds that other brokers' answers wait for a broker that is ready but silent, such as a frozen one."""


def serving_brokers(wanted: Iterable[int], pool: "BrokerPool | None") -> tuple[int, ...]:
    """Return the ids of wanted brokers, and of brokers to be removed that still serve clients."""
    serving = (broker.broker_id for broker in pool.brokers if broker.up) if pool is not None else ()
    return tuple(sorted({*wanted, *serving}))


class NoBrokerError(Exception):
    """No broker of the cluster could be reached. The message has the cause for each broker."""


@dataclass(frozen=True, slots=True)
class Unreachable:
    """A broker that did not answer; `reason` is for users."""

    broker_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class BrokerPool:
    """The brokers of one cluster, and the client that keeps the connections to them."""

    admin: AdminClient
    brokers: tuple[BrokerAddress, ...]
    ask_timeout_s: float = ASK_TIMEOUT_S

    def handle(self, broker: BrokerAddress) -> BrokerHandle:
        return self.admin.broker(broker.host, broker.port)

    def only(self, broker_id: int) -> "BrokerPool":
        return replace(self, brokers=tuple(broker for broker in self.brokers if broker.broker_id == broker_id))

    def doubting(self, answers: Mapping[int, object]) -> "BrokerPool":
        """Return a pool that queries the brokers without an answer last, and with a short timeout."""
        silent = {broker_id for broker_id, answer in answers.items() if isinstance(answer, Unreachable)}
        return replace(self, brokers=tuple(replace(b, up=b.up and b.broker_id not in silent) for b in self.brokers))

    def barring(self, answers: Mapping[int, object]) -> "BrokerPool":
        """Return a pool that does not query the brokers without an answer.

        The limits that these brokers should have depend on their answer.
        """
        why = {broker_id: answer.reason for broker_id, answer in answers.items() if isinstance(answer, Unreachable)}
        return replace(self, brokers=tuple(replace(b, barred=why.get(b.broker_id, b.barred)) for b in self.brokers))

    async def ask(self, broker: BrokerAddress, question: Question[Answer]) -> Answer | Unreachable:
        if broker.barred:
            return Unreachable(broker.broker_id, broker.barred)
        timeout_s = self.ask_timeout_s if broker.up else min(DOWN_TIMEOUT_S, self.ask_timeout_s)
        try:
            async with asyncio.timeout(timeout_s):
                return await question(broker, self.handle(broker))
        except TimeoutError:
            return Unreachable(broker.broker_id, f"no answer within {timeout_s:g} s")
        except KafkaAdminError as error:
            return Unreachable(broker.broker_id, str(error))

    async def ask_each(
        self,
        question: Question[Answer],
        brokers: Iterable[BrokerAddress] | None = None,
        straggler_s: float = STRAGGLER_S,
    ) -> dict[int, Answer | Unreachable]:
        """Return the brokers' answers by broker id. After the first answer, other brokers have `straggler_s` left."""
        asked = self.brokers if brokers is None else tuple(brokers)
        tasks = {broker.broker_id: asyncio.create_task(self.ask(broker, question)) for broker in asked}
        try:
            await _answered(tasks.values(), straggler_s)
            late = f"no answer within {straggler_s:g} s after another broker's"
            return {
                broker_id: task.result() if task.done() else Unreachable(broker_id, late)
                for broker_id, task in tasks.items()
            }
        finally:
            for task in tasks.values():
                task.cancel()
            await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def ask_any(self, question: Question[Answer]) -> Answer:
        """Return the first answer of any broker; a refusal (KafkaApiError) counts as an answer. Raises NoBrokerError.

        Use it only for requests that may be executed twice. A broker that did not answer may have executed the request.
        After STRAGGLER_S the next broker gets the request as well, while the first may still execute it.
        """
        reasons: list[str] = []
        waiting = sorted(self.brokers, key=lambda broker: (not broker.up, self.handle(broker).is_away))
        asked: set[asyncio.Task[Answer]] = set()
        try:
            while waiting or asked:
                if waiting:
                    asked.add(asyncio.create_task(self._patiently(waiting.pop(0), question)))
                patience_s = STRAGGLER_S if waiting else None
                done, asked = await asyncio.wait(asked, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    error = task.exception()
                    if error is None or not isinstance(error, _NoAnswerError):
                        return task.result()
                    reasons.append(str(error))
        finally:
            for task in asked:
                task.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        raise NoBrokerError("; ".join(reasons) or "the cluster has no brokers")

    async def _patiently(self, broker: BrokerAddress, question: Question[Answer]) -> Answer:
        """Query one broker. Raises _NoAnswerError, and refusals of the broker."""
        if broker.barred:
            raise _NoAnswerError(broker.barred)
        try:
            async with asyncio.timeout(self.ask_timeout_s):
                return await question(broker, self.handle(broker))
        except (AdminConnectionError, AdminTimeoutError) as error:
            raise _NoAnswerError(str(error)) from error
        except TimeoutError:
            late = f"broker {broker.broker_id}: no answer within {self.ask_timeout_s:g} s"
            raise _NoAnswerError(late) from None


class _NoAnswerError(Exception):
    """The broker did not answer; the next one may."""


async def _answered(tasks: Iterable[asyncio.Task[Answer | Unreachable]], straggler_s: float) -> None:
    """Wait until all are done, or one has answered and the others have had `straggler_s`."""
    loop = asyncio.get_running_loop()
    pending, until_s = set(tasks), None
    while pending:
        timeout_s = None if until_s is None else max(0.0, until_s - loop.time())
        done, pending = await asyncio.wait(pending, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return
        if until_s is None and not all(isinstance(task.result(), Unreachable) for task in done):
            until_s = loop.time() + straggler_s
