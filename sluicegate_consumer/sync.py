"""A consumer for applications without an event loop: the other one, run in a thread."""

import asyncio
import threading
from collections.abc import Callable, Collection, Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

from sluicegate_consumer.consumer import Consumer
from sluicegate_consumer.errors import ConsumerError
from sluicegate_consumer.record import Record, TopicPartition

T = TypeVar("T")


class SyncConsumer:
    """Made by a function, which is called in the thread of the event loop:

        with SyncConsumer(lambda: Consumer("localhost:9092", "billing", topics=["orders"])) as consumer:
            for record in consumer:
                handle(record)
                record.acknowledge()

    Iterated over by one thread. Methods of the listener are called in the event loop's.
    """

    def __init__(self, make: Callable[[], Consumer]) -> None:
        self._make = make
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="sluicegate-consumer", daemon=True)
        self._consumer: Consumer | None = None
        self._taken: list[Record] = []
        """What has been handed over, the next one last."""
        self._last: Record | None = None

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._loop.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._consumer = self._call(self._start())
        except BaseException:
            self._end_loop()
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
        """As of `Consumer`. It may be called by another thread, too: the iteration ends then."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            self._call(consumer.close())
            self._end_loop()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        """Raises ConsumerError where the consumer cannot go on."""
        consumer = self._running()
        if self._last is not None and consumer.acknowledges:
            self._last.acknowledge()
        while True:
            while self._taken:
                record = self._taken.pop()
                if consumer.may_deliver(record):
                    self._last = record
                    return record
            try:
                self._taken = self._call(consumer.take_many())[::-1]
            except StopAsyncIteration:
                raise StopIteration from None

    def _running(self) -> Consumer:
        if self._consumer is None:
            raise ConsumerError("the consumer is used before `with`, or after it")
        return self._consumer

    @property
    def assignment(self) -> Collection[TopicPartition]:
        """What is read now."""
        return self._running().assignment
