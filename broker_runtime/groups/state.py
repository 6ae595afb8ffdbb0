"""All groups of one partition of __consumer_offsets. Pure: its durable part is computed from the partition's records.

Groups also have soft state (pending requests, the phase of a rebalance). Decisions change it, and a fail-over loses it,
as in Apache Kafka.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker_runtime.groups.group import Group
from broker_runtime.groups.pending_offsets import PendingOffsets
from broker_runtime.groups.records import (
    GroupRecord,
    Key,
    KeyOfGroup,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingOffsetValue,
    TransactionEndKey,
    TransactionEndValue,
)
from broker_runtime.slicing.steps import Steps, at_once

Applier = Callable[["GroupsState", Any, Any], None]
"""A function that applies one record: state, key, value or None.

It raises ValueError if the record is invalid in this state.
"""

SimpleGroup = Callable[[str], Group]
"""A function that creates a group that only keeps offsets.

That is an empty group of the classic protocol without a protocol type.
"""


_ENDED_AT_ONCE_MAX = 32
"""Number of offsets of an ended transaction that are applied together with its marker."""


def _nothing(group: Group) -> None:
    """Default of `GroupsState.on_end` while the log is read: groups have no timers yet."""


def _no_simple_groups(group_id: str) -> Group:
    raise ValueError(f"offsets of group {group_id} are committed, but nothing creates the group")


class CommittedOffsets:
    """Committed offsets by group, then by topic and partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[tuple[str, int], OffsetCommitValue]] = {}
        self.count = 0

    def of(self, group_id: str) -> Mapping[tuple[str, int], OffsetCommitValue]:
        return self._by_group.get(group_id, {})

    def groups(self) -> list[str]:
        return list(self._by_group)

    def take_apart(self) -> list[Any]:
        """Remove all offsets, and return what has them."""
        by_group, self._by_group, self.count = self._by_group, {}, 0
        return [by_group]

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None) -> None:
        of_group = self._by_group.setdefault(key.group_id, {})
        before = len(of_group)
        if value is None:
            of_group.pop((key.topic, key.partition), None)
            if not of_group:
                del self._by_group[key.group_id]
        else:
            of_group[key.topic, key.partition] = value
        self.count += len(of_group) - before


class GroupsState:
    """The groups and offsets of one partition of __consumer_offsets.

    Implements `coordination.seam.State` of GroupRecord.
    """

    def __init__(self, appliers: Mapping[type[Key], Applier], simple_group: SimpleGroup = _no_simple_groups) -> None:
        """Create the state of an empty partition.

        `appliers` has one for each type of key that names a group, except OffsetCommitKey: those of `classic`,
        `consumer` and `push`.

        `simple_group` creates the group if an offset is applied before its group. No record announces a group that only
        keeps offsets, and a compacted log may have offsets before their group. The appliers later replace such a group.
        """
        self.next_offset = 0
        self.groups: dict[str, Group] = {}
        """Groups by id, including those that only keep offsets."""
        self.offsets = CommittedOffsets()
        self.pending = PendingOffsets()
        self.on_end: Callable[[Group], None] = _nothing
        """Called with each group that a tombstone has removed."""
        self.uncounted: list[Steps[None]] = []
        """Work that records have left to do in steps: the counts of long records, group by group, and the offsets of
        large transactions that have ended. If a group is read earlier, it counts at once."""
        self._appliers = appliers
        self._simple_group = simple_group

    def take_apart(self) -> list[Any]:
        """Remove all groups and offsets, and return what has them, to be freed in steps."""
        groups, self.groups = self.groups, {}
        return [groups, *self.offsets.take_apart(), *self.pending.take_apart()]

    def apply(self, record: GroupRecord, offset: int) -> None:
        """Apply a record of the log to the groups. Raises ValueError if `offset` is below `next_offset`.

        Offsets may have gaps, because a compacted log leaves records out.
        """
        if offset < self.next_offset:
            raise ValueError(f"record {offset} of __consumer_offsets follows record {self.next_offset - 1}")
        key, value = record
        if isinstance(key, OffsetCommitKey):
            if isinstance(value, PendingOffsetValue):
                self._simple_if_absent(key.group_id)
                self.pending.add(value.producer_id, key, value.commit, offset)
            else:
                assert value is None or isinstance(value, OffsetCommitValue)
                self._apply_offset(key, value, offset)
        elif isinstance(key, TransactionEndKey):
            assert isinstance(value, TransactionEndValue)
            self._end_transaction(key.producer_id, value)
        elif value is not None:
            self._appliers[type(key)](self, key, value)
        else:
            self._end(key)
        self.next_offset = offset + 1

    def _apply_offset(self, key: OffsetCommitKey, value: OffsetCommitValue | None, offset: int) -> None:
        if value is not None:
            self._simple_if_absent(key.group_id)
        self.offsets.apply(key, value)
        if self.pending:
            if value is None:
                self.pending.remove(key)
            else:
                self.pending.replace(key, offset)

    def _end_transaction(self, producer_id: int, end: TransactionEndValue) -> None:
        """Apply a marker: commit the pending offsets of the producer, or drop them. Many offsets take steps."""

        def commit(key: OffsetCommitKey, value: OffsetCommitValue) -> None:
            self._simple_if_absent(key.group_id)
            self.offsets.apply(key, value)

        is_long = self.pending.count_of(producer_id) > _ENDED_AT_ONCE_MAX
        steps = self.pending.end(producer_id, commit if end.is_commit else None)
        if is_long:
            self.uncounted.append(steps)
        else:
            at_once(steps)

    def _simple_if_absent(self, group_id: str) -> None:
        if group_id not in self.groups:
            self.groups[group_id] = self._simple_group(group_id)

    def _end(self, key: KeyOfGroup) -> None:
        """Apply a tombstone, which may remove the group."""
        before = self.groups.get(key.group_id)
        self._appliers[type(key)](self, key, None)
        if before is not None and key.group_id not in self.groups:
            self.on_end(before)
        self._keep_offsets(key.group_id)

    def count_the_rest(self) -> Steps[Sequence[GroupRecord]]:
        """Finish, in steps, the work that the last applied records have left. Returns no records."""
        while self.uncounted:
            yield from self.uncounted.pop()
        return ()

    def _keep_offsets(self, group_id: str) -> None:
        """Keep the offsets, also the pending ones, of a group that ends or changes its protocol.

        They become an empty group, so that they expire normally.
        """
        if group_id not in self.groups and (self.offsets.of(group_id) or self.pending.of(group_id)):
            self.groups[group_id] = self._simple_group(group_id)
