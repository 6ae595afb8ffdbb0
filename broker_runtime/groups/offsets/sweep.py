"""Looking at every offset of a partition: what has expired, and what belongs to topics that are gone. Pure.

A partition may have hundreds of thousands of offsets, so a sweep is many decisions, each of a bounded slice.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import islice

from broker_runtime.groups.group import OffsetRetention
from broker_runtime.groups.offsets.delete import SLICE, tombstone
from broker_runtime.groups.records import GroupRecord, OffsetCommitValue
from broker_runtime.groups.state import GroupsState

_Judge = Callable[[str, int, OffsetCommitValue], bool]
"""Whether that offset of a topic's partition goes."""


class Sweep:
    """One look at everything that was there when it began; `decide` until it says that nothing remains."""

    def __init__(self, steps: "Callable[[GroupsState, Sweep], Iterator[GroupRecord | None]]") -> None:
        self._begin = steps
        self._steps: Iterator[GroupRecord | None] | None = None
        self.decided: set[tuple[str, int]] = set()
        """Offsets of the group in turn that have a tombstone in this slice."""

    def decide(self, state: GroupsState) -> tuple[Sequence[GroupRecord], bool]:
        """The tombstones of the next slice, and whether there is more to look at."""
        if self._steps is None:
            self._steps = self._begin(state, self)
        self.decided.clear()
        looked_at = list(islice(self._steps, SLICE))
        return [record for record in looked_at if record is not None], len(looked_at) == SLICE


def expired(retention_ms: int, now_ms: int) -> Sweep:
    """Offsets that are kept no longer (offsets.retention.minutes), and groups of which nothing remains."""

    def steps(state: GroupsState, sweep: Sweep) -> Iterator[GroupRecord | None]:
        for group_id in list(state.groups):
            group = state.groups.get(group_id)
            if group is None:
                continue
            retention = group.offset_retention()
            if retention is None:
                yield None
                continue
            yield from _offsets(state, sweep, group_id, _expiry(retention, retention_ms, now_ms))
            group = state.groups.get(group_id)
            if group is not None and group.is_empty and sweep.decided.issuperset(state.offsets.of(group_id)):
                yield from group.tombstones()

    return Sweep(steps)


def topics_deleted(topics: Collection[str]) -> Sweep:
    """The offsets of topics that are gone: a topic made later under the name begins anew."""

    def steps(state: GroupsState, sweep: Sweep) -> Iterator[GroupRecord | None]:
        for group_id in state.offsets.groups():
            yield from _offsets(state, sweep, group_id, lambda topic, _partition, _value: topic in topics)

    return Sweep(steps)


def _offsets(state: GroupsState, sweep: Sweep, group_id: str, goes: _Judge) -> Iterator[GroupRecord | None]:
    """Each offset of the group: its tombstone, or None where it stays. Others may commit between two slices."""
    sweep.decided.clear()
    offsets: Mapping[tuple[str, int], OffsetCommitValue] = state.offsets.of(group_id)
    for topic, partition in list(offsets):
        value = state.offsets.of(group_id).get((topic, partition))
        if value is not None and goes(topic, partition, value):
            sweep.decided.add((topic, partition))
            yield tombstone(group_id, topic, partition)
        else:
            yield None


def _expiry(retention: OffsetRetention, retention_ms: int, now_ms: int) -> _Judge:
    def goes(topic: str, _partition: int, value: OffsetCommitValue) -> bool:
        if topic in retention.subscribed:
            return False
        if value.expire_timestamp_ms is not None:
            return now_ms >= value.expire_timestamp_ms
        base_ms = value.commit_timestamp_ms if retention.base_ms is None else retention.base_ms
        return now_ms - base_ms >= retention_ms

    return goes
