"""Coroutines that read requests about very many items, and pack their answers, in slices (`slicing.slices`).

A request may name a hundred thousand partitions, each of which costs an object or two and some microseconds. Its
connection is muted until it is answered. Other work runs between the slices.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from broker_runtime.apis.request.call import Call
from broker_runtime.slicing.steps import drain
from broker_runtime.wire.encoding.reader import RequestReader
from broker_runtime.wire.header import prefix
from broker_runtime.wire.messages import check_size
from broker_runtime.wire.reply import Reply

T = TypeVar("T")

ITEMS_PER_SLICE = 500
"""Maximum number of items in a slice of time. The slice ends after them, however much of its time is left."""
_BYTES_OF_AN_ITEM = 64


class Pace:
    """The time slices of one long request.

    The request's coroutine waits for the next slice when the current one has ended.
    """

    __slots__ = ("_left", "_slices", "_stop_s", "limits")

    def __init__(self, call: Call) -> None:
        self.limits = call.completion.limits
        self._slices = slices = call.completion.slices
        self._stop_s = slices.first_ends_s()
        self._left = ITEMS_PER_SLICE

    async def item(self, weight: int = 1) -> None:
        """Count an item as `weight` items, and wait for the next slice if the current one has ended."""
        self._left -= weight
        if self._left <= 0 or self._slices.now() >= self._stop_s:
            await self.next_slice()

    async def next_slice(self) -> None:
        """Wait for the request's next time slice."""
        self._stop_s = await self._slices.next_slice()
        self._left = ITEMS_PER_SLICE

    async def drain(self, items: deque[Any]) -> None:
        """Empty the deque in time slices."""
        await self._slices.finish(drain(items))


class Packed:
    """The pieces of a long answer to a client, in order.

    They are not joined, because joining a long answer would block the event loop.
    """

    __slots__ = ("_left", "_pace", "_pieces", "_size", "_waiting")

    def __init__(self, pace: Pace, *parts: bytes) -> None:
        self._pace = pace
        self._left = ITEMS_PER_SLICE
        self._pieces: list[bytes] = []
        self._size = 0
        self._waiting = list(parts)

    async def add(self, *parts: bytes) -> None:
        """Append parts, and wait for the next slice if the current one has ended. Raises ResponseTooLargeError."""
        weight = 0
        for part in parts:
            self._waiting.append(part)
            weight += 1 + len(part) // _BYTES_OF_AN_ITEM
        self._left -= weight
        if self._left <= 0:
            self._left = ITEMS_PER_SLICE
            self._join()
        await self._pace.item(weight)

    async def add_all(self, other: "Packed") -> None:
        """Append all pieces of `other` to this answer."""
        for piece in other.pieces():
            await self.add(piece)

    def pieces(self) -> Sequence[bytes]:
        """Return all pieces of the answer. Nothing may be added afterwards."""
        self._join()
        return self._pieces

    def reply(self, call: Call) -> Reply:
        """Return the response whose body consists of these pieces."""
        pieces = self.pieces()
        return (prefix(call.correlation_id, self._size, call.flexible), *pieces)

    def _join(self) -> None:
        if self._waiting:
            piece = b"".join(self._waiting)
            self._waiting.clear()
            self._size += len(piece)
            self._pace.limits.check_response(self._size)
            self._pieces.append(piece)


def kept(reader: RequestReader, call: Call) -> RequestReader:
    """Return a reader of the same request that stays valid after the handler returns. Raises RequestTooLargeError."""
    check_size(call.api.name, reader.left, reader.limits)
    return reader.kept(call.connection.keep_frame)


async def read_names(reader: RequestReader, pace: Pace) -> deque[str]:
    """Read an array of non-null strings from a request. Return each string once, in order, as a deque for `emptied`."""
    names: dict[str, None] = {}
    for _ in range(reader.array_length()):
        names[reader.string()] = None
        await pace.item()
    return deque(names)


def emptied(items: deque[T]) -> Iterator[T]:
    """Yield and remove each item in order, because freeing a hundred thousand at once would block the event loop."""
    while items:
        yield items.popleft()


def chunks(items: deque[T], size: int) -> Iterator[Sequence[T]]:
    """Yield and remove the items in chunks of `size`.

    Without items, yields one empty chunk, so that the coordinator is asked even for an empty request.
    """
    rest = emptied(items)
    yield list(islice(rest, size))
    while some := list(islice(rest, size)):
        yield some
