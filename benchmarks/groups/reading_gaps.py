"""Computes how long partitions were not read when members came, left or failed, from the members' reads. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Read(NamedTuple):
    """A record when the application of a member received it.

    `at_s` is the time in seconds of a clock that all processes share.
    """

    member: str
    partition: int
    offset: int
    at_s: float


class Pause(NamedTuple):
    """The time between two consecutive reads in a partition."""

    before: Read
    after: Read

    @property
    def seconds(self) -> float:
        return self.after.at_s - self.before.at_s

    @property
    def moved(self) -> bool:
        """Whether another member read the second record."""
        return self.before.member != self.after.member


def progress(reads: Iterable[Read]) -> Mapping[int, Sequence[Read]]:
    """Return, by partition and in the order of time, the records that were read for the first time."""
    found: dict[int, list[Read]] = {}
    for read in sorted(reads, key=lambda read: read.at_s):
        of_one = found.setdefault(read.partition, [])
        if not of_one or read.offset > of_one[-1].offset:
            of_one.append(read)
    return found


def pauses(reads: Iterable[Read], since_s: float, until_s: float) -> Mapping[int, Pause]:
    """Return, by partition, the longest pause that ends between these times.

    If the partition moved to another member, the longest pause in which it moved.
    """
    found = {}
    for partition, of_one in progress(reads).items():
        each = [Pause(before, after) for before, after in pairwise(of_one) if since_s < after.at_s <= until_s]
        if each:
            found[partition] = max(each, key=lambda pause: (pause.moved, pause.seconds))
    return found


def read_twice(reads: Collection[Read]) -> int:
    return len(reads) - sum(map(len, progress(reads).values()))


def first_read_s(reads: Iterable[Read], member: str) -> float:
    return min(read.at_s for read in reads if read.member == member)


def shared(reads: Iterable[Read], members: Collection[str], partitions: int) -> bool:
    """Return whether the members read equally many partitions, within one, and these are all partitions."""
    readers: dict[int, set[str]] = {}
    for read in reads:
        readers.setdefault(read.partition, set()).add(read.member)
    if len(readers) < partitions or any(len(of_one) > 1 for of_one in readers.values()):
        return False
    owned = [sum(of_one == {member} for of_one in readers.values()) for member in members]
    return sum(owned) == partitions and max(owned) - min(owned) <= 1


def percentile(values: Sequence[float], part: float) -> float:
    """Return the percentile; NaN if there are no values."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else float("nan")
