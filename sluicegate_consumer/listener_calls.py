"""Calls the methods of the application's listener, one after the other, and notes what it was notified of."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from sluicegate_consumer.errors import CallbackFailedError
from sluicegate_consumer.listener import Listener
from sluicegate_consumer.record import TopicPartition

log = logging.getLogger(__name__)

Tell = Callable[[frozenset[TopicPartition]], Awaitable[None]]
"""A method of the listener."""


class ListenerCalls:
    """The calls of the listener, one at a time, and the partitions that the listener knows to be assigned.

    `assigned`, `revoked` and `lost` call a method of the listener. `next` runs them after the previous call.
    """

    def __init__(self, listener: Listener, timeout_s: float, on_failed: Callable[[], None]) -> None:
        """`on_failed` is called when a call has failed; `failure` is its error."""
        self.failure: BaseException | None = None
        self._listener = listener
        self._timeout_s = timeout_s
        self._on_failed = on_failed
        self._last: asyncio.Task[None] | None = None
        self._told: frozenset[TopicPartition] = frozenset()
        """The partitions that the listener was notified of."""

    def next(self, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Run `work` when the previous call has ended.

        If the returned task is cancelled meanwhile, the previous call is cancelled, too.
        """
        before = self._last

        async def in_turn() -> None:
            if before is not None:
                try:
                    await asyncio.wait([before])
                except asyncio.CancelledError:
                    before.cancel()
                    await asyncio.wait([before])
                    raise
            await work()

        self._last = asyncio.create_task(in_turn())
        self._last.add_done_callback(self._has_ended)
        return self._last

    def _has_ended(self, call: asyncio.Task[None]) -> None:
        if not call.cancelled() and call.exception() is not None:
            self.failure = call.exception()
            self._on_failed()

    async def cancel(self) -> None:
        """Cancel the calls that have not ended, and wait for their end."""
        last, self._last = self._last, None
        if last is not None:
            last.cancel()
            await asyncio.wait([last])

    async def assigned(self, partitions: frozenset[TopicPartition]) -> None:
        self._told = partitions
        await self._call(self._listener.assigned, partitions)

    async def revoked(self) -> None:
        """Call `revoked` of the listener once for each assignment."""
        told, self._told = self._told, frozenset()
        if told:
            await self._call(self._listener.revoked, told)

    async def lost(self) -> None:
        """Call `lost` of the listener for the assignment that was not revoked, unless the listener has failed."""
        told, self._told = self._told, frozenset()
        if told and self.failure is None:
            await self._call(self._listener.lost, told)

    async def _call(self, method: Tell, partitions: frozenset[TopicPartition]) -> None:
        deadline = asyncio.timeout(self._timeout_s)
        try:
            async with deadline:
                await method(partitions)
        except Exception as error:
            if not deadline.expired():
                raise CallbackFailedError(f"the listener of the consumer has failed: {error!r}") from error
            log.warning(
                "the listener took more than callback_timeout_s=%s s; the consumer continues without it",
                self._timeout_s,
            )
