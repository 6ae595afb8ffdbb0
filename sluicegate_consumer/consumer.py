"""The consumer that an application uses."""

import asyncio
import logging
import os
import random
import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from sluicegate_consumer.brokers import Brokers
from sluicegate_consumer.config import Settings, addresses, identifier, topic_count
from sluicegate_consumer.errors import ConsumerError
from sluicegate_consumer.listener import Listener
from sluicegate_consumer.membership import Delivery, Membership
from sluicegate_consumer.record import Record, TopicPartition
from sluicegate_consumer.streams import Flow, Stream, StreamQueue
from sluicegate_consumer.wire.push import Registration

log = logging.getLogger(__name__)

_RESETS = {"earliest": "smallest", "latest": "largest"}
"""Offset resets: the names in the settings, which are Kafka's, and those of the protocol draft."""


class Consumer:
    """A consumer of a push group, which runs in one event loop.

        async with Consumer("localhost:9092", "billing", topics=["orders"]) as consumer:
            async for record in consumer:
                await handle(record)
                record.acknowledge()

    `topics` are names, or names with numbers of streams. `pattern` is an RE2 expression that matches whole names; with
    `!` before it, all other topics are read. Raises SettingsError.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        group_id: str,
        *,
        topics: Sequence[str] | Mapping[str, int] | None = None,
        pattern: str | None = None,
        streams: int = 1,
        listener: Listener | None = None,
        settings: Settings | None = None,
    ) -> None:
        self._settings = settings = settings or Settings()
        self.consumer_id = settings.consumer_id or _new_id()
        registration = Registration(
            identifier("group_id", group_id),
            self.consumer_id,
            topic_count(topics, pattern, streams),
            settings.auto_commit,
            _RESETS[settings.auto_offset_reset],
            round(settings.session_timeout_s * 1000),
        )
        if isinstance(topics, Mapping):
            streams = max(topics.values())
        self._flow = Flow()
        self._flow.fail(ConsumerError("the consumer has not been started: use `async with`, or `await start()`"))
        queues = [StreamQueue() for _ in range(streams)]
        self._brokers = Brokers(addresses(bootstrap_servers), settings)
        delivery = Delivery(queues, self._flow, listener or Listener())
        self._membership = Membership(registration, self._brokers, delivery, settings)
        self._all = self._stream(queues)
        self.streams: tuple[Stream, ...] = tuple(self._stream([queue]) for queue in queues)
        """Async iterators, one for each stream. Use either these or the iterator of the consumer itself."""
        self._running: asyncio.Task[None] | None = None

    def _stream(self, queues: Sequence[StreamQueue]) -> Stream:
        return Stream(queues, self._flow, self._settings.slice_s, acknowledge=self.acknowledges)

    async def start(self) -> None:
        """Start the consumer and return at once. The consumer looks for brokers until it is closed."""
        if self._running is not None or self._flow.ended:
            raise ConsumerError("the consumer has been started already, or closed")
        self._flow.error = None
        self._running = asyncio.create_task(self._membership.run())
        self._running.add_done_callback(self._has_ended)

    def _has_ended(self, running: asyncio.Task[None]) -> None:
        error = None if running.cancelled() else running.exception()
        if isinstance(error, Exception):
            self._flow.fail(error)

    async def close(self) -> None:
        """Deliver no more records, and leave the group once the coordinator has the last offsets.

        Iterators end. If the coordinator cannot be reached, this waits for one session at most. Raises
        CallbackFailedError if the listener fails, and AuthenticationError if brokers refuse the credentials meanwhile.
        """
        running = self._running
        self._flow.end()
        try:
            async with asyncio.timeout(self._settings.session_timeout_s):
                if running is not None and not running.done() and await self._membership.leave():
                    await asyncio.wait([running])
        except TimeoutError:
            log.warning("the coordinator has not confirmed the last offsets within a session")
        finally:
            if running is not None:
                running.cancel()
                await asyncio.wait([running])
            await self._brokers.close()
        error = None if running is None or running.cancelled() else running.exception()
        if error is not None and error is not self._flow.error:
            raise error

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Stream:
        return self._all

    async def __anext__(self) -> Record:
        """Return the next record of any stream. Raises ConsumerError if the consumer cannot continue."""
        return await anext(self._all)

    def acknowledge(self, record: Record) -> bool:
        """Acknowledge a record, so that its offset may be committed. Return False if its partition was revoked."""
        return record.acknowledge()

    async def commit(self) -> None:
        """Commit the acknowledged offsets, for `auto_commit=False`. `Listener.revoked` may call it.

        Raises CommitRefusedError; a retry may succeed. Raises AuthenticationError if the credentials are not accepted.
        """
        await self._membership.commit()

    async def take_many(self) -> list[Record]:
        """Return at least one record and all others that are ready, for callers that cannot wait for each.

        The call acknowledges none of them. Raises StopAsyncIteration after the consumer has been closed.
        """
        return await self._all.take_many(self._settings.sync_records_max)

    def may_deliver(self, record: Record) -> bool:
        """Return whether a record from `take_many` may still be delivered.

        Its partition may have been revoked.
        """
        return record.is_current and self._flow.may_deliver

    async def has_still(self, record: Record) -> bool:
        """Return `may_deliver` for the record once the answer is certain.

        A coordinator that was silent for too long may still call in time. Raises the errors of `take_many`.
        """
        while record.is_current and not self._flow.may_deliver:
            self._flow.check()
            await self._flow.changed()
        return record.is_current

    @property
    def acknowledges(self) -> bool:
        """Return whether a request for the next record acknowledges the previous one."""
        return self._settings.acknowledge == "automatic"

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are read now."""
        return self._membership.assignment.partitions


def _new_id() -> str:
    """Return an ID in the style of consumers at the time of the draft: host, process, and a unique number."""
    return f"{socket.gethostname()}-{os.getpid()}-{random.getrandbits(64):016x}"
