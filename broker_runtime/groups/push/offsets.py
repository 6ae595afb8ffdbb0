"""The offsets that consumers send with their answers, and the commits that follow from them. Pure.

A committed offset never decreases, with one exception: it lies beyond the end of its log (`log_ends`). The log has then
lost records, or a consumer has sent a wrong offset to an earlier version of the broker. An offset beyond the end of its
log is not committed. If a leader does not answer the question for the end of its log, the consumer's offset is
accepted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.push.state.log_ends import End, Ends, Partition
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue
from broker_runtime.groups.state import GroupsState

_EPOCH_UNKNOWN = -1


class Consumed(NamedTuple):
    """The offset of the next record that a consumer would read."""

    topic: str
    partition: int
    offset: int


def note(member: PushMember, told: Iterable[Consumed]) -> None:
    """Keep the offsets that the consumer reported for its assigned partitions.

    An offset below 0 means that the consumer has not read anything yet.
    """
    member.offsets_sent += 1
    for topic, partition, offset in told:
        key = (topic, partition)
        if offset < 0:
            member.consumed.pop(key, None)
        elif key in member.assigned:
            member.consumed[key] = offset


class _Change(NamedTuple):
    """An offset of a consumer that differs from the committed one."""

    at: Partition
    topic_id: UUID
    offset: int
    before: OffsetCommitValue | None
    leader_epoch: int
    """The current leader epoch."""


def _changes(
    state: GroupsState, environment: GroupEnvironment, group_id: str, members: Iterable[PushMember]
) -> Iterator[_Change]:
    """Yield the offsets that differ from the committed ones.

    Offsets of a deleted topic, and of an earlier topic of the same name, are left out.
    """
    committed, topics = state.offsets.of(group_id), environment.image.topics
    for member in members:
        for at, offset in member.consumed.items():
            topic = topics.get(at[0])
            if topic is None or topic.id != member.assigned[at] or at[1] not in topic.partitions:
                continue
            before = committed.get(at)
            if before is not None and not before.is_of(topic.id):
                before = None
            if before is None or before.offset != offset:
                yield _Change(at, topic.id, offset, before, topic.partitions[at[1]].leader_epoch)


def questions(
    state: GroupsState, environment: GroupEnvironment, group: PushGroup, members: Iterable[PushMember]
) -> dict[Partition, int]:
    """Return the leader epochs whose end offsets are needed to commit the offsets of these consumers, by partition."""
    return {
        each.at: each.leader_epoch
        if each.before is None or each.before.offset < each.offset
        else epoch_of(each.before, each.leader_epoch)
        for each in _changes(state, environment, group.group_id, members)
    }


def epoch_of(committed: OffsetCommitValue, leader_epoch: int) -> int:
    """Return the leader epoch of the committed offset; the current leader epoch if the commit has none."""
    return leader_epoch if committed.leader_epoch < 0 else committed.leader_epoch


def uncommitted(
    state: GroupsState, environment: GroupEnvironment, group: PushGroup, members: Iterable[PushMember], ends: Ends
) -> Sequence[GroupRecord]:
    """Return the records that commit the offsets of these consumers, without offsets that are committed already."""
    now_ms = environment.now_ms()
    records = []
    for change in _changes(state, environment, group.group_id, members):
        end = ends.get(change.at)
        offset = _to_commit(change, end)
        if offset is not None:
            epoch = _EPOCH_UNKNOWN if end is None or offset > end.offset else end.leader_epoch
            value = OffsetCommitValue(offset, epoch, "", now_ms, None, change.topic_id)
            records.append(GroupRecord(OffsetCommitKey(group.group_id, *change.at), value))
    return records


def _to_commit(change: _Change, end: End | None) -> int | None:
    """Return the offset to commit; None if the committed offset stays."""
    offset, before = change.offset, change.before
    is_void = before is not None and end is not None and before.offset > end.offset
    if before is not None and offset < before.offset and not is_void:
        return None
    if before is not None and end is not None and offset < before.offset and end.leader_epoch != change.leader_epoch:
        # The end of an older epoch is where the log was truncated. The consumer may have read records written later.
        return offset
    if end is None or offset <= end.offset:
        return offset
    return end.offset if is_void else None


def beyond_ends(
    state: GroupsState, environment: GroupEnvironment, group: PushGroup, member: PushMember, ends: Ends
) -> Mapping[Partition, int]:
    """Return the offsets of this consumer that are not committed because their logs end before them."""
    return {
        each.at: each.offset
        for each in _changes(state, environment, group.group_id, (member,))
        if (end := ends.get(each.at)) is not None
        and each.offset > end.offset
        and (each.before is None or each.before.offset < each.offset)
    }
