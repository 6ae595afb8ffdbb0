"""Offsets of a segment whose batches cannot be read, between others that can. Pure (decision 46)."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError

_FIRST_OFFSET = attrgetter("first_offset")


class DamagedRange(NamedTuple):
    """Offsets from `first_offset` up to `next_offset` that cannot be read.

    They lie in the bytes from `position` up to `end` of the file. `position` and `end` are equal if a file is lost or
    ends too early.
    """

    first_offset: int
    next_offset: int
    position: int
    end: int
    reason: str


def range_at(ranges: Sequence[DamagedRange], offset: int) -> DamagedRange | None:
    """Return the range with `offset`, or None if it lies outside of all ranges. `ranges` are in order."""
    if not ranges:
        return None
    number = bisect_right(ranges, offset, key=_FIRST_OFFSET) - 1
    return ranges[number] if number >= 0 and offset < ranges[number].next_offset else None


def stretches(ranges: Sequence[DamagedRange], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """Yield (begin, end) of the readable bytes from the position `start` up to `stop`. `ranges` are in order."""
    for damaged in ranges:
        if damaged.end <= start:
            continue
        if damaged.position >= stop:
            break
        if start < damaged.position:
            yield start, damaged.position
        start = damaged.end
    if start < stop:
        yield start, stop


def unreadable(path: Path, damaged: DamagedRange) -> KafkaError:
    """Return the error of a read that begins in the damaged range."""
    offsets = f"offsets {damaged.first_offset} to {damaged.next_offset - 1}"
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"{offsets} of {path} are damaged: {damaged.reason}")
