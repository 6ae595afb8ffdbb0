"""The records ready for delivery, by stream: the interface between fetching and iterators."""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from time import monotonic
from typing import Self

from sluicegate_consumer.errors import CorruptRecordsError
from sluicegate_consumer.reading import PartitionReader
from sluicegate_consumer.record import Record


class Flow:
    """The state of delivery for waiting iterators: whether records may be delivered, and how the consumer ended."""

    def __init__(self, now: Callable[[], float] = monotonic) -> None:
        self.now = now
        """Clock in seconds, the same as the event loop's."""
        self.error: Exception | None = None
        self.ended = False
        self.held = False
        """The application is first being notified of its partitions."""
        self._leased_until_s = 0.0
        self._waiting: set[asyncio.Future[None]] = set()

    def lease_until(self, time_s: float) -> None:
        """Allow the delivery of records until `time_s`.

        After that time another consumer may own the partitions. A call of the coordinator extends the time.
        """
        self._leased_until_s = time_s
        self.wake()

    @property
    def may_deliver(self) -> bool:
        return not self.held and self.now() < self._leased_until_s

    def wake(self) -> None:
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def changed(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)

    def fail(self, error: Exception) -> None:
        if self.error is None and not self.ended:
            self.error = error
        self.wake()

    def end(self) -> None:
        self.ended = True
        self.wake()

    def check(self) -> None:
        """Raise the consumer's error, or StopAsyncIteration after it has been closed."""
        if self.error is not None:
            raise self.error
        if self.ended:
            raise StopAsyncIteration


class StreamQueue:
    """The partitions of one stream that have records. Each delivers one batch in turn."""

    def __init__(self) -> None:
        self._ready: deque[PartitionReader] = deque()

    def put(self, reader: PartitionReader) -> None:
        if not reader.queued:
            reader.queued = True
            self._ready.append(reader)

    def next_record(self) -> Record | None:
        ready = self._ready
        while ready:
            reader = ready[0]
            if not reader.dropped:
                record = reader.next_record()
                if record is not None:
                    return record
            ready.popleft()
            reader.queued = False
            if reader.has_more and not reader.dropped:
                self.put(reader)
        return None


class Stream:
    """An async iterator over the records of one stream, or of several in turn."""

    def __init__(self, queues: Sequence[StreamQueue], flow: Flow, slice_s: float, *, acknowledge: bool) -> None:
        self._queues = queues
        self._flow = flow
        self._slice_s = slice_s
        self._acknowledge = acknowledge
        self._last: Record | None = None
        self._slice_ends_s = 0.0
        self._next_queue = 0

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        """Return the next record. Raises the error of the consumer; ends when that is closed."""
        self._acknowledge_last()
        if self._flow.now() > self._slice_ends_s:
            # Without a pause, an application with enough records would never let pings be answered.
            await asyncio.sleep(0)
            self._slice_ends_s = self._flow.now() + self._slice_s
        while True:
            record = self._take()
            if record is not None:
                if self._acknowledge:
                    self._last = record
                return record
            await self._flow.changed()
            self._slice_ends_s = self._flow.now() + self._slice_s

    async def take_many(self, records_max: int) -> list[Record]:
        """Return records of the stream, at least one. Asking for the next records acknowledges none of them."""
        found = [await anext(self)]
        self._last = None
        while len(found) < records_max and (record := self._take()) is not None:
            found.append(record)
        return found

    def _take(self) -> Record | None:
        flow = self._flow
        flow.check()
        if not flow.may_deliver:
            return None
        queues = self._queues
        for _ in queues:
            self._next_queue = (self._next_queue + 1) % len(queues)
            try:
                record = queues[self._next_queue].next_record()
            except CorruptRecordsError as error:
                # The next call must not return the records after the corrupt ones.
                flow.fail(error)
                raise
            if record is not None:
                return record
        return None

    def _acknowledge_last(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            last.acknowledge()
