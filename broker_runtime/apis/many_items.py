"""Coroutines that read requests about very many items, and pack their answers, in slices (`broker_runtime.slices`).

A request may name a hundred thousand partitions, each of them an object or two for some microseconds. Its connection is
muted until its answer is there, whatever else has its turns meanwhile.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from broker_runtime.apis.call import Call
from broker_runtime.steps import drain
from broker_runtime.wire.header import prefix
from broker_runtime.wire.messages import check_size
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Reply

T = TypeVar("T")

ITEMS_OF_A_TURN = 500
"""A slice ends after so many items, whatever the time."""
_BYTES_OF_AN_ITEM = 64


class Pace:
    """Of one request: its coroutine waits for its next slice when the one that it has is over."""

    __slots__ = ("_left", "_slices", "_stop_s", "limits")

    def __init__(self, call: Call) -> None:
        self.limits = call.limits
        self._slices = slices = call.slices
        self._stop_s = slices.first_ends_s()
        self._left = ITEMS_OF_A_TURN

    async def item(self, weight: int = 1) -> None:
        """Count an item as `weight` items, and wait for the next slice when this one is over."""
        self._left -= weight
        if self._left <= 0 or self._slices.now() >= self._stop_s:
            await self.turn()

    async def turn(self) -> None:
        """Wait for the next slice."""
        self._stop_s = await self._slices.turn()
        self._left = ITEMS_OF_A_TURN

    async def drain(self, items: deque[Any]) -> None:
        """Empty the deque in slices."""
        await self._slices.finish(drain(items))


class Packed:
    """What an answer is made of, in order. It stays in pieces: to join them all would be a long turn of its own."""

    __slots__ = ("_left", "_pace", "_pieces", "_size", "_waiting")

    def __init__(self, pace: Pace, *parts: bytes) -> None:
        self._pace = pace
        self._left = ITEMS_OF_A_TURN
        self._pieces: list[bytes] = []
        self._size = 0
        self._waiting = list(parts)

    async def add(self, *parts: bytes) -> None:
        """Others have their turn when the slice is over. Raises ResponseTooLargeError."""
        weight = 0
        for part in parts:
            self._waiting.append(part)
            weight += 1 + len(part) // _BYTES_OF_AN_ITEM
        self._left -= weight
        if self._left <= 0:
            self._left = ITEMS_OF_A_TURN
            self._join()
        await self._pace.item(weight)

    async def add_all(self, other: "Packed") -> None:
        """Everything of another one."""
        for piece in other.pieces():
            await self.add(piece)

    def pieces(self) -> Sequence[bytes]:
        """All of it; nothing is added any more."""
        self._join()
        return self._pieces

    def reply(self, call: Call) -> Reply:
        """The response of this body."""
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
    """A reader of the same that is valid for longer than the handler's call. Raises RequestTooLargeError."""
    check_size(call.api.name, reader.left, reader.limits)
    return reader.kept(call.connection.keep_frame)


async def read_names(reader: RequestReader, pace: Pace) -> deque[str]:
    """An array of texts that may not be null: each of them once, in their order. `emptied` goes through them."""
    names: dict[str, None] = {}
    for _ in range(reader.array_length()):
        names[reader.string()] = None
        await pace.item()
    return deque(names)


def emptied(items: deque[T]) -> Iterator[T]:
    """Each of them in its order, and it is let go of: to free a hundred thousand at once is a long turn, too."""
    while items:
        yield items.popleft()


def slices(items: deque[T], size: int) -> Iterator[Sequence[T]]:
    """The same in slices; of nothing one that is empty: somebody is to be asked all the same."""
    rest = emptied(items)
    yield list(islice(rest, size))
    while some := list(islice(rest, size)):
        yield some
