"""A consumer for applications without an event loop: runs a `Consumer` in a thread."""

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine
from concurrent.futures import Future, wait
from types import TracebackType
from typing import Any, Self, TypeVar

from sluicegate_consumer.consumer import Consumer
from sluicegate_consumer.errors import ConsumerError
from sluicegate_consumer.record import Record, TopicPartition

T = TypeVar("T")


class SyncConsumer:
    """A blocking consumer of a push group. A function creates its `Consumer` in the thread of the event loop.

        with SyncConsumer(lambda: Consumer("localhost:9092", "billing", topics=["orders"])) as consumer:
            for record in consumer:
                handle(record)
                record.acknowledge()

    It is used by one thread, once. Listener methods run in the event loop's thread and use the Consumer created there:
    waiting for the SyncConsumer there would block forever. After an interrupt, iteration may continue without loss.
    """

    def __init__(self, make: Callable[[], Consumer]) -> None:
        self._make = make
        self._running: tuple[asyncio.AbstractEventLoop, Consumer] | None = None
        self._thread: threading.Thread | None = None
        self._taken: list[Record] = []
        """Records that were handed over, the next one last."""
        self._coming: Future[list[Record]] | None = None
        """The request for more records while it is pending, or the reason why there are no more."""
        self._last: Record | None = None

    def __enter__(self) -> Self:
        if self._thread is not None:
            raise ConsumerError("the consumer has been started already")
        loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=_run, args=(loop,), name="sluicegate-consumer", daemon=True)
        self._thread.start()
        try:
            self._running = loop, _call(loop, self._start())
        except BaseException:
            self._end(loop)
            raise
        return self

    async def _start(self) -> Consumer:
        consumer = self._make()
        await consumer.start()
        return consumer

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Deliver no more records, and leave the group once the coordinator has the last offsets."""
        self._check_thread()
        if self._running is not None:
            (loop, consumer), self._running = self._running, None
            try:
                _call(loop, consumer.close())
            finally:
                self._end(loop)

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        loop.call_soon_threadsafe(loop.stop)
        if self._thread is not None:
            self._thread.join()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        """Return the next record. Raises ConsumerError if the consumer cannot continue."""
        self._check_thread()
        loop, consumer = self._in_use()
        if self._last is not None and consumer.acknowledges:
            self._last.acknowledge()
        try:
            while True:
                while self._taken:
                    record = self._taken[-1]
                    wanted = consumer.may_deliver(record)
                    if not wanted and record.is_current:
                        wanted = _call(loop, consumer.has_still(record))
                    self._taken.pop()
                    if wanted:
                        self._last = record
                        return record
                self._take_many(loop, consumer)
        except StopAsyncIteration:
            raise StopIteration from None

    def _take_many(self, loop: asyncio.AbstractEventLoop, consumer: Consumer) -> None:
        if self._coming is None:
            self._coming = asyncio.run_coroutine_threadsafe(consumer.take_many(), loop)
        wait([self._coming])
        self._taken = self._coming.result()[::-1]
        self._coming = None

    def commit(self) -> None:
        """Commit the acknowledged offsets of the consumer."""
        self._check_thread()
        loop, consumer = self._in_use()
        _call(loop, consumer.commit())

    @property
    def assignment(self) -> Collection[TopicPartition]:
        """Return the partitions that are read now."""
        return self._in_use()[1].assignment

    def _check_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise ConsumerError("the listener waited for its SyncConsumer; it must use the Consumer that it received")

    def _in_use(self) -> tuple[asyncio.AbstractEventLoop, Consumer]:
        if self._running is None:
            raise ConsumerError("the consumer was used before or after its `with` block")
        return self._running


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        loop.close()


def _call(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run_coroutine_threadsafe(work, loop).result()
