"""Requests about very many items: they are read, and their answers are packed, some items at a time.

A request of a megabyte may name a hundred thousand partitions, each of them an object or two for some microseconds.
Its connection is muted until its answer is there, whatever else has its turns meanwhile.
"""

import asyncio
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from broker_runtime.apis.call import Call
from broker_runtime.errors import ProtocolError
from broker_runtime.wire.header import prefix
from broker_runtime.wire.messages import REQUEST_BYTES_MAX
from broker_runtime.wire.reader import RequestReader
from broker_runtime.wire.reply import Reply

T = TypeVar("T")

ITEMS_OF_A_TURN = 500
"""Read or packed: about a millisecond."""
_BYTES_OF_AN_ITEM = 64


class Pace:
    """Of one request: others have their turn after so many of its items."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = ITEMS_OF_A_TURN

    async def item(self, weight: int = 1) -> None:
        """One has been dealt with, which took as long as `weight` usual ones."""
        self._left -= weight
        if self._left <= 0:
            self._left = ITEMS_OF_A_TURN
            await asyncio.sleep(0)


class Packed:
    """What an answer is made of, in order. It stays in pieces: to join them all would be a long turn of its own."""

    __slots__ = ("_left", "_pieces", "_waiting")

    def __init__(self, *parts: bytes) -> None:
        self._left = ITEMS_OF_A_TURN
        self._pieces: list[bytes] = []
        self._waiting = list(parts)

    async def add(self, *parts: bytes) -> None:
        """Others have their turn after so many parts; of long ones after fewer."""
        for part in parts:
            self._waiting.append(part)
            self._left -= 1 + len(part) // _BYTES_OF_AN_ITEM
        if self._left <= 0:
            self._left = ITEMS_OF_A_TURN
            self._join()
            await asyncio.sleep(0)

    async def add_all(self, other: "Packed") -> None:
        await self.add(*other.pieces())

    def pieces(self) -> Sequence[bytes]:
        """All of it; nothing is added any more."""
        self._join()
        return self._pieces

    def reply(self, call: Call) -> Reply:
        """The response of this body."""
        pieces = self.pieces()
        return (prefix(call.correlation_id, sum(map(len, pieces)), call.flexible), *pieces)

    def _join(self) -> None:
        if self._waiting:
            self._pieces.append(b"".join(self._waiting))
            self._waiting.clear()


def kept(reader: RequestReader, bytes_max: int = REQUEST_BYTES_MAX) -> RequestReader:
    """A reader of the same that is valid for longer than the handler's call. Raises ProtocolError."""
    if reader.left > bytes_max:
        raise ProtocolError(
            "too-large", f"a request of {reader.left} bytes; ask in several requests of at most {bytes_max}"
        )
    return RequestReader(memoryview(reader.rest()), 0, reader.flexible)


async def read_names(reader: RequestReader, pace: Pace) -> Collection[str]:
    """An array of texts that may not be null: each of them once, in their order."""
    names: dict[str, None] = {}
    for _ in range(reader.array_length()):
        names[reader.string()] = None
        await pace.item()
    return names


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
