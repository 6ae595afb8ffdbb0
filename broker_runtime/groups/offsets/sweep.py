"""Scans of all offsets of a partition, for expired offsets and for offsets of deleted topics. Pure.

A partition may have hundreds of thousands of offsets. A sweep therefore consists of many decisions, each about a
bounded chunk; commits, joins and leaves are decided between them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from uuid import UUID

from broker_runtime.groups.group import OffsetRetention
from broker_runtime.groups.offsets.delete import CHUNK, tombstone
from broker_runtime.groups.pending_offsets import Partition
from broker_runtime.groups.records import GroupRecord, OffsetCommitValue
from broker_runtime.groups.state import GroupsState

_Step = Sequence[GroupRecord]
"""The result of one check: the tombstones that belong together."""
_Judge = Callable[[Partition, OffsetCommitValue], bool]
"""Whether to delete this committed offset of a partition."""
_JudgeOf = Callable[[str], _Judge | None]
"""Returns the judge of a group in its current state; None if none of its offsets is to be deleted."""
_STAYS: _Step = ()


class Sweep:
    """One scan of all groups and offsets that exist when the scan begins.

    Call `decide` until it returns that nothing is left to check.
    """

    def __init__(self, steps: "Callable[[GroupsState, Sweep], Iterator[_Step]]") -> None:
        self._begin = steps
        self._steps: Iterator[_Step] | None = None
        self.chunk = 0
        self.decided: set[tuple[str, int]] = set()
        """Offsets of the current group that have a tombstone in this chunk."""

    def begin_anew(self) -> None:
        """Start over with the current state, because the log has refused a chunk."""
        self._steps = None

    def decide(self, state: GroupsState) -> tuple[Sequence[GroupRecord], bool]:
        """Return the tombstones of the next chunk, and whether more is left to check."""
        if self._steps is None:
            self._steps = self._begin(state, self)
        self.chunk += 1
        self.decided.clear()
        steps = list(islice(self._steps, CHUNK))
        return [record for step in steps for record in step], len(steps) == CHUNK


def expired(retention_ms: int, now_ms: int) -> Sweep:
    """Return the sweep that deletes expired offsets, and groups without members and offsets.

    The key offsets.retention.minutes sets when offsets expire. An offset stays while a transaction may replace it, and
    so does the group.
    """

    def steps(state: GroupsState, sweep: Sweep) -> Iterator[_Step]:
        def judge_of(group_id: str) -> _Judge | None:
            group = state.groups.get(group_id)
            retention = None if group is None else group.offset_retention()
            if retention is None:
                return None
            expires = _expiry(retention, retention_ms, now_ms)
            return lambda at, value: expires(at, value) and not state.pending.is_unstable(group_id, at)

        for group_id in list(state.groups):
            yield from _offsets(state, sweep, group_id, judge_of)
            yield _end(state, sweep, group_id)

    return Sweep(steps)


def topics_deleted(topics: Mapping[str, UUID]) -> Sweep:
    """Return the sweep that deletes the offsets of deleted topics.

    So a new topic of the same name starts without offsets. `topics` has the ids of the deleted topics by name. Offsets
    that were committed for another topic of the name stay. The pending offsets of open transactions are deleted, too.
    """

    def is_gone(topic: str, value: OffsetCommitValue) -> bool:
        gone = topics.get(topic)
        return gone is not None and value.is_of(gone)

    def steps(state: GroupsState, sweep: Sweep) -> Iterator[_Step]:
        def judge_of(group_id: str) -> _Judge:
            # A tombstone would also delete what an open transaction commits for a new topic of the name.
            return lambda at, value: (
                is_gone(at[0], value) and all(is_gone(at[0], each) for each in state.pending.values_of(group_id, at))
            )

        for group_id in state.offsets.groups():
            yield from _offsets(state, sweep, group_id, judge_of)
        for group_id in list(state.pending.groups()):
            yield from _pending(state, group_id, is_gone)

    return Sweep(steps)


def _pending(state: GroupsState, group_id: str, is_gone: Callable[[str, OffsetCommitValue], bool]) -> Iterator[_Step]:
    """Yield a tombstone for each partition of the group that has only pending offsets, all for deleted topics."""
    for at in list(state.pending.of(group_id)):
        values = list(state.pending.values_of(group_id, at))
        goes = values and at not in state.offsets.of(group_id) and all(is_gone(at[0], value) for value in values)
        yield (tombstone(group_id, *at),) if goes else _STAYS


def _offsets(state: GroupsState, sweep: Sweep, group_id: str, judge_of: _JudgeOf) -> Iterator[_Step]:
    """Yield for each offset of the group its tombstone, or nothing if it stays."""
    sweep.decided.clear()
    judged, goes = -1, None
    for at in list(state.offsets.of(group_id)):
        if judged != sweep.chunk:
            judged, goes = sweep.chunk, judge_of(group_id)
        if goes is None:
            return
        value = state.offsets.of(group_id).get(at)
        if value is not None and goes(at, value):
            sweep.decided.add(at)
            yield (tombstone(group_id, *at),)
        else:
            yield _STAYS


def _end(state: GroupsState, sweep: Sweep, group_id: str) -> _Step:
    """Return the tombstones of the group itself, if it has no members, no offsets and no pending offsets.

    Offsets that are deleted in this chunk do not count.
    """
    group = state.groups.get(group_id)
    if group is None or not group.is_empty or not sweep.decided.issuperset(state.offsets.of(group_id)):
        return _STAYS
    if state.pending.of(group_id):
        return _STAYS
    return group.tombstones()


def _expiry(retention: OffsetRetention, retention_ms: int, now_ms: int) -> _Judge:
    def goes(at: Partition, value: OffsetCommitValue) -> bool:
        if at[0] in retention.subscribed:
            return False
        if value.expire_timestamp_ms is not None:
            return now_ms >= value.expire_timestamp_ms
        base_ms = value.commit_timestamp_ms if retention.base_ms is None else retention.base_ms
        return now_ms - base_ms >= retention_ms

    return goes
