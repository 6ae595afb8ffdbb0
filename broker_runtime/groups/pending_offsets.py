"""Offsets that producers have committed in transactions which are not ended yet (KIP-98, KIP-447). Pure.

Problem. A producer commits the offsets that it has consumed together with the records that it has produced. Until its
transaction is committed, no client may see them; once it is aborted, they never count.

Idea. The log has the offsets in transactional batches, and a marker where the transaction ends. The offsets wait here,
by producer id, until the marker is applied. A producer has at most one open transaction in a partition, so the id
identifies the transaction. Ten thousand producers may have a pending offset for the same partition. So a record that
replaces or removes them all changes only what is kept of the partition, and their own entries are read when they end.

Invariants:

- A later record of the same partition of the group wins, even if the transaction of the earlier one ends later. So a
  load from a compacted log, which has only the later record, gives the same state.
- A tombstone removes the pending offsets of all producers, as it removes the committed one.
- A partition is unstable as long as one producer has a pending offset for it, even if a later commit has replaced it.

Tests: tests/unit/broker_runtime/groups/test_pending_offsets.py.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from broker_runtime.groups.records import OffsetCommitKey, OffsetCommitValue
from broker_runtime.slicing.steps import Steps

Partition = tuple[str, int]
"""A topic and the number of a partition."""
_OFFSETS_OF_A_STEP = 32


class _Pending(NamedTuple):
    """A pending offset, and the offset of its record in the log."""

    value: OffsetCommitValue
    at: int


@dataclass(slots=True)
class _Unstable:
    """A partition of a group with pending offsets."""

    producers: set[int] = field(default_factory=set)
    """Ids of the producers that have one."""
    replaced_at: int = -1
    """Offset of the last record in the log that replaces the pending offsets of earlier records."""


class PendingOffsets:
    """The pending offsets of one partition of __consumer_offsets. False if there are none."""

    __slots__ = ("_by_producer", "_unstable")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[OffsetCommitKey, _Pending]] = {}
        """Pending offsets by producer id. One whose partition does not name the producer was removed."""
        self._unstable: dict[str, dict[Partition, _Unstable]] = {}
        """The partitions with pending offsets, by group, then by topic and partition."""

    def __bool__(self) -> bool:
        return bool(self._unstable)

    def groups(self) -> Iterable[str]:
        """Return the ids of the groups with pending offsets."""
        return self._unstable.keys()

    def of(self, group_id: str) -> Iterable[Partition]:
        """Return the partitions for which the group has pending offsets. Each of them is unstable."""
        return self._unstable.get(group_id, {}).keys()

    def is_unstable(self, group_id: str, at: Partition) -> bool:
        """Return whether a producer has a pending offset of the group for the partition."""
        return at in self._unstable.get(group_id, ())

    def count_of(self, producer_id: int) -> int:
        """Return the number of pending offsets of a producer, including those that were removed."""
        return len(self._by_producer.get(producer_id, ()))

    def values_of(self, group_id: str, at: Partition) -> Iterator[OffsetCommitValue]:
        """Yield the pending offsets of the group for the partition that no later record has replaced."""
        key = OffsetCommitKey(group_id, *at)
        unstable = self._find(key)
        if unstable is not None:
            for producer_id in unstable.producers:
                pending = self._by_producer[producer_id][key]
                if pending.at > unstable.replaced_at:
                    yield pending.value

    def add(self, producer_id: int, key: OffsetCommitKey, value: OffsetCommitValue, at: int) -> None:
        """Add the pending offset whose record is at offset `at` of the log. It replaces the producer's earlier one."""
        self._by_producer.setdefault(producer_id, {})[key] = _Pending(value, at)
        partitions = self._unstable.setdefault(key.group_id, {})
        partitions.setdefault((key.topic, key.partition), _Unstable()).producers.add(producer_id)

    def replace(self, key: OffsetCommitKey, at: int) -> None:
        """Note that the offset committed by the record at offset `at` replaces the pending ones of earlier records."""
        unstable = self._find(key)
        if unstable is not None:
            unstable.replaced_at = max(unstable.replaced_at, at)

    def remove(self, key: OffsetCommitKey) -> None:
        """Remove the pending offsets of all producers for this partition of the group."""
        if self._find(key) is not None:
            self._forget(key)

    def end(self, producer_id: int, commit: Callable[[OffsetCommitKey, OffsetCommitValue], None] | None) -> Steps[None]:
        """End the transaction of a producer, in steps.

        `commit` is called with each offset that now counts; None aborts the transaction.
        """
        # Each offset is removed here: freeing a hundred thousand at the end would be one long step.
        ended = self._by_producer.pop(producer_id, {})
        while ended:
            key, pending = ended.popitem()
            unstable = self._find(key)
            if unstable is not None and producer_id in unstable.producers:
                unstable.producers.remove(producer_id)
                if not unstable.producers:
                    self._forget(key)
                if commit is not None and pending.at > unstable.replaced_at:
                    unstable.replaced_at = pending.at
                    commit(key, pending.value)
            if len(ended) % _OFFSETS_OF_A_STEP == 0:
                yield

    def take_apart(self) -> list[Any]:
        """Remove all pending offsets, and return what has them."""
        parts = [self._by_producer, self._unstable]
        self._by_producer, self._unstable = {}, {}
        return parts

    def _find(self, key: OffsetCommitKey) -> _Unstable | None:
        return self._unstable.get(key.group_id, {}).get((key.topic, key.partition))

    def _forget(self, key: OffsetCommitKey) -> None:
        partitions = self._unstable[key.group_id]
        del partitions[key.topic, key.partition]
        if not partitions:
            del self._unstable[key.group_id]
