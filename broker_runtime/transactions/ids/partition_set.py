"""The partitions of a transaction: an immutable set of which very large ones are made, joined and read in steps. Pure.

Problem. A transaction may have a hundred thousand partitions. A frozenset of pairs takes 20 ms to make, and as long to
free, because each pair is an object. And the set changes with each request that adds partitions.

Idea. A bit mask for each topic. Two masks are joined by one operation, and a mask of many partitions is one object.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from broker_runtime.slicing.steps import Steps, at_once, pages
from broker_runtime.transactions.seam import TopicPartition

INDEX_MAX = (1 << 22) - 1
"""Highest number of a partition: a limit for the memory that one number in a damaged record takes."""
LONG = 1_000
"""Number of partitions above which work on all of them is done in steps."""
_OF_A_STEP = 128
_BITS = 8
_SHOWN = 20


class PartitionSet(Collection[TopicPartition]):
    """An immutable set of partitions. Owns a bit mask for each topic, which is never 0."""

    __slots__ = ("_count", "masks")

    def __init__(self, masks: Mapping[str, int], count: int) -> None:
        """`count` is the number of all bits that are set in `masks`."""
        self.masks = masks
        """The bit mask of each topic: bit `n` is set if partition `n` belongs to the set."""
        self._count = count

    @classmethod
    def of(cls, *places: TopicPartition) -> "PartitionSet":
        """Return the set of a few partitions."""
        return at_once(partition_set(places))

    def __len__(self) -> int:
        return self._count

    def __contains__(self, place: object) -> bool:
        if not isinstance(place, tuple):
            return False
        topic, index = place
        return index >= 0 and bool(self.masks.get(topic, 0) >> index & 1)

    def __iter__(self) -> Iterator[TopicPartition]:
        for topic, mask in self.masks.items():
            for index in indexes(mask):
                yield topic, index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PartitionSet) and self.masks == other.masks

    def __hash__(self) -> int:
        return hash(frozenset(self.masks.items()))

    def __repr__(self) -> str:
        more = ", ..." if self._count > _SHOWN else ""
        return f"PartitionSet.of({', '.join(map(repr, islice(self, _SHOWN)))}{more})"


NO_PARTITIONS = PartitionSet({}, 0)


def indexes(mask: int) -> Iterator[int]:
    """Yield the numbers of the partitions of a bit mask, in ascending order."""
    content = mask.to_bytes((mask.bit_length() + _BITS - 1) // _BITS, "little")
    for at, byte in enumerate(content):
        if byte:
            yield from (at * _BITS + bit for bit in range(_BITS) if byte >> bit & 1)


def mask_of(numbers: Iterable[int]) -> Steps[int]:
    """Return the bit mask of the numbers of partitions. Raises ValueError for an impossible number."""
    bits = bytearray()
    for some in pages(numbers, _OF_A_STEP):
        lowest, highest = min(some), max(some)
        if lowest < 0 or highest > INDEX_MAX:
            raise ValueError(f"a partition has the number {lowest if lowest < 0 else highest}")
        bits.extend(bytes(max(highest // _BITS + 1 - len(bits), 0)))
        for number in some:
            bits[number // _BITS] |= 1 << number % _BITS
        yield
    return int.from_bytes(bits, "little")


def partition_set(places: Iterable[TopicPartition]) -> Steps[PartitionSet]:
    """Return the set of the partitions. Raises ValueError for an impossible number of a partition."""
    by_topic: dict[str, list[int]] = {}
    for some in pages(places, _OF_A_STEP):
        for topic, index in some:
            by_topic.setdefault(topic, []).append(index)
        yield
    masks, count = dict[str, int](), 0
    while by_topic:
        topic, numbers = by_topic.popitem()
        masks[topic] = mask = yield from mask_of(numbers)
        count += mask.bit_count()
    return PartitionSet(masks, count)


def union(one: PartitionSet, other: PartitionSet) -> Steps[PartitionSet]:
    """Return the set of the partitions of both sets; `one` itself if it has all of them."""
    masks, count = dict(one.masks), len(one)
    for some in pages(other.masks.items(), _OF_A_STEP):
        for topic, mask in some:
            before = masks.get(topic, 0)
            masks[topic] = after = before | mask
            count += after.bit_count() - before.bit_count()
        yield
    return one if count == len(one) else PartitionSet(masks, count)
