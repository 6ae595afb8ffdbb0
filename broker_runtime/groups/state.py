"""All groups of one partition of __consumer_offsets. Pure: everything durable in it comes of the partition's records.

Groups carry soft state beside it (who waits, in what state a rebalance is), which decisions change and a fail-over
loses, as in Apache Kafka.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from broker_runtime.groups.group import Group
from broker_runtime.groups.records import GroupRecord, Key, OffsetCommitKey, OffsetCommitValue
from broker_runtime.steps import Steps

Applier = Callable[["GroupsState", Any, Any], None]
"""Takes over one record: state, key, value or None. Raises ValueError where the record cannot be."""

SimpleGroup = Callable[[str], Group]
"""Makes the group of that id that only keeps offsets: an empty one of the classic protocol, without a protocol type."""


def _nothing(group: Group) -> None:
    """Nobody has timers of the groups yet: the log is still being read."""


def _no_simple_groups(group_id: str) -> Group:
    raise ValueError(f"offsets of {group_id} are committed, and nothing is told that makes the group")


class CommittedOffsets:
    """By group, then topic and partition."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[tuple[str, int], OffsetCommitValue]] = {}
        self.count = 0

    def of(self, group_id: str) -> Mapping[tuple[str, int], OffsetCommitValue]:
        return self._by_group.get(group_id, {})

    def groups(self) -> list[str]:
        return list(self._by_group)

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
    """Implements `coordination.seam.State` of GroupRecord."""

    def __init__(self, appliers: Mapping[type[Key], Applier], simple_group: SimpleGroup = _no_simple_groups) -> None:
        """`appliers` has one for each kind of key but OffsetCommitKey: those of `classic` and of `consumer`.

        `simple_group` is asked when an offset is applied before its group: nothing else says that a group is there that
        only keeps offsets, and a cleaned log may have offsets before their group. The appliers put another group in
        the place of such a one.
        """
        self.next_offset = 0
        self.groups: dict[str, Group] = {}
        """By id. A group that only keeps offsets stands here too."""
        self.offsets = CommittedOffsets()
        self.on_end: Callable[[Group], None] = _nothing
        """Called with each group that a tombstone has removed."""
        self.uncounted: list[Steps[None]] = []
        """What long records have left to be done in steps, group by group. A group that is read before does it at
        once."""
        self._appliers = appliers
        self._simple_group = simple_group

    def apply(self, record: GroupRecord, offset: int) -> None:
        """Raises ValueError where `offset` is below `next_offset`: a log that was cleaned leaves offsets out."""
        if offset < self.next_offset:
            raise ValueError(f"record {offset} of __consumer_offsets comes after {self.next_offset - 1}")
        if isinstance(record.key, OffsetCommitKey):
            assert record.value is None or isinstance(record.value, OffsetCommitValue)
            if record.value is not None and record.key.group_id not in self.groups:
                self.groups[record.key.group_id] = self._simple_group(record.key.group_id)
            self.offsets.apply(record.key, record.value)
        elif record.value is not None:
            self._appliers[type(record.key)](self, record.key, record.value)
        else:
            self._end(record.key)
        self.next_offset = offset + 1

    def _end(self, key: Key) -> None:
        """Apply a tombstone, which may remove the group."""
        before = self.groups.get(key.group_id)
        self._appliers[type(key)](self, key, None)
        if before is not None and key.group_id not in self.groups:
            self.on_end(before)
        self._keep_offsets(key.group_id)

    def count_the_rest(self) -> Steps[Sequence[GroupRecord]]:
        """Do in steps what the last records have left. Returns no records."""
        while self.uncounted:
            yield from self.uncounted.pop()
        return ()

    def _keep_offsets(self, group_id: str) -> None:
        """Of a group that ends and leaves offsets, as where it takes another protocol: they are a group, and expire."""
        if group_id not in self.groups and self.offsets.of(group_id):
            self.groups[group_id] = self._simple_group(group_id)
