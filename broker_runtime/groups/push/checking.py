"""Compares committed offsets with the ends of logs before consumers start at them. Pure.

A log that has lost records (an unclean election, a copy that was restored) may end before the offset that a group has
committed. The group then continues at the truncation. A consumer that started at the committed offset would apply its
`auto_offset_rest`, and read everything again or skip new records.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from uuid import UUID

from msgspec import structs

from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.push.offsets import epoch_of
from broker_runtime.groups.push.state.calls import PushEnvironment
from broker_runtime.groups.push.state.decided import NOTHING, Decided
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.push.state.log_ends import Ends, Partition
from broker_runtime.groups.push.state.ownership import Plan
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey
from broker_runtime.groups.state import GroupsState

log = logging.getLogger(__name__)

_CHECK = "check"
_CHUNK = 250
"""Partitions of one decision, which takes a millisecond."""


def check_committed(
    group: PushGroup,
    environment: PushEnvironment,
    planned: Plan,
    is_wanted: Callable[[GroupsState], bool],
    then: GroupTimer,
) -> None:
    """Correct the offsets of all planned partitions in chunks, then decide `then`.

    Stops when `is_wanted` returns False.
    """
    _Check(group, environment, planned, is_wanted, then).begin()


class _Check:
    def __init__(
        self,
        group: PushGroup,
        environment: PushEnvironment,
        planned: Plan,
        is_wanted: Callable[[GroupsState], bool],
        then: GroupTimer,
    ) -> None:
        self._group = group
        self._environment = environment
        self._is_wanted = is_wanted
        self._then = then
        self._rest = _partitions(planned)
        self._pending = 1
        """Number of pending answers of other leaders, plus 1 until all are asked."""
        self._corrected = 0

    def begin(self) -> None:
        self._next(self._take_chunk)

    def _next(self, action: GroupTimer) -> None:
        # Each action has its own key. One that the log refuses is tried again and does not delay others.
        self._environment.timers.continue_with((self._group.group_id, _CHECK, object()), action)

    def _take_chunk(self, state: GroupsState) -> Decided:
        if not self._is_wanted(state):
            return NOTHING
        some = list(islice(self._rest, _CHUNK))
        if not some:
            return self._one_less(state)
        known, others = self._environment.ends.known_ends(self._questions(state, some))
        if others:
            self._pending += 1
            self._environment.ends.ask_ends(others, lambda told: partial(self._correct, told, self._one_less))
        self._next(partial(self._correct, known, self._take_chunk))
        return NOTHING

    def _questions(self, state: GroupsState, some: Iterable[tuple[Partition, UUID]]) -> dict[Partition, int]:
        committed, topics = state.offsets.of(self._group.group_id), self._environment.image.topics
        asked = {}
        for at, topic_id in some:
            value, topic = committed.get(at), topics.get(at[0])
            if value is None or topic is None or topic.id != topic_id or not value.is_of(topic_id):
                continue
            if at[1] in topic.partitions:
                asked[at] = epoch_of(value, topic.partitions[at[1]].leader_epoch)
        return asked

    def _correct(self, ends: Ends, and_then: GroupTimer, state: GroupsState) -> tuple[Sequence[GroupRecord], None]:
        if not self._is_wanted(state):
            return NOTHING
        records = list(self._corrections(ends, state))
        self._next(and_then)
        return records, None

    def _corrections(self, ends: Ends, state: GroupsState) -> Iterator[GroupRecord]:
        group_id = self._group.group_id
        committed, now_ms = state.offsets.of(group_id), self._environment.now_ms()
        for at, end in ends.items():
            value = committed.get(at)
            if value is None or value.offset <= end.offset:
                continue
            if not self._corrected:
                what = "group %.100r: offset %d of %s-%d lies beyond the end of its log; the group continues at %d"
                log.warning(what, group_id, value.offset, *at, end.offset)
            self._corrected += 1
            corrected = structs.replace(
                value, offset=end.offset, leader_epoch=end.leader_epoch, metadata="", commit_timestamp_ms=now_ms
            )
            yield GroupRecord(OffsetCommitKey(group_id, *at), corrected)

    def _one_less(self, state: GroupsState) -> Decided:
        if not self._is_wanted(state):
            return NOTHING
        self._pending -= 1
        if self._pending:
            return NOTHING
        if self._corrected > 1:
            log.warning(
                "group %.100r: %d offsets beyond the end of a log were corrected", self._group.group_id, self._corrected
            )
        self._next(self._then)
        return NOTHING


def _partitions(planned: Plan) -> Iterator[tuple[Partition, UUID]]:
    for threads in planned.ownership.values():
        for assignment in threads.values():
            for topic_id, partitions in assignment.items():
                for partition in partitions:
                    yield (planned.names[topic_id], partition), topic_id
