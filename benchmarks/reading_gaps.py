"""How long partitions were not read when members came, left or failed, from what members have read. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple


class Read(NamedTuple):
    """A record, as it came to the application of a member; seconds of a clock that all processes share."""

    member: str
    partition: int
    offset: int
    at_s: float


class Pause(NamedTuple):
    """Between two records of a partition that were read one after the other."""

    before: Read
    after: Read

    @property
    def seconds(self) -> float:
        return self.after.at_s - self.before.at_s

    @property
    def moved(self) -> bool:
        """To another member."""
        return self.before.member != self.after.member


def progress(reads: Iterable[Read]) -> Mapping[int, Sequence[Read]]:
    """By the partition, in the order of time: records that nobody had read before."""
    found: dict[int, list[Read]] = {}
    for read in sorted(reads, key=lambda read: read.at_s):
        of_one = found.setdefault(read.partition, [])
        if not of_one or read.offset > of_one[-1].offset:
            of_one.append(read)
    return found


def pauses(reads: Iterable[Read], since_s: float, until_s: float) -> Mapping[int, Pause]:
    """By the partition, the longest that ends between these times; where it has moved, the longest in which it did."""
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
    """Each member reads as many partitions as the others, within one, and nobody else reads any."""
    readers: dict[int, set[str]] = {}
    for read in reads:
        readers.setdefault(read.partition, set()).add(read.member)
    if len(readers) < partitions or any(len(of_one) > 1 for of_one in readers.values()):
        return False
    owned = [sum(of_one == {member} for of_one in readers.values()) for member in members]
    return sum(owned) == partitions and max(owned) - min(owned) <= 1


def percentile(values: Sequence[float], part: float) -> float:
    """Nan of nothing."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * part), len(ordered) - 1)] if ordered else float("nan")
