"""Records in batches of bounded size. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")
KeyValue = tuple[bytes | None, bytes | None]
"""The key and the value of a record, as stored in a log."""

FRAME_BYTES_MAX = 128
"""Upper bound for the size of a batch of one record, without its key and value, in bytes."""


class Batches(Generic[T]):
    """Batches of records with their encodings.

    A batch has at most `bytes_max`, or one larger record; no batch is empty.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._size = 0
        self.all: list[list[tuple[T, KeyValue]]] = []

    def add(self, record: T, encoded: KeyValue) -> None:
        key, value = encoded
        added = len(key or b"") + len(value or b"")
        if not self.all or self._size + added > self._bytes_max:
            self.all.append([])
            self._size = 0
        self.all[-1].append((record, encoded))
        self._size += added


def in_batches(
    records: Iterable[T], encode: Callable[[T], KeyValue], bytes_max: int
) -> Iterator[list[tuple[T, KeyValue]]]:
    """Yield the batches that `Batches` makes of the records and their encodings, one by one."""
    batches: Batches[T] = Batches(bytes_max)
    for record in records:
        batches.add(record, encode(record))
        if len(batches.all) > 1:
            yield batches.all.pop(0)
    yield from batches.all
