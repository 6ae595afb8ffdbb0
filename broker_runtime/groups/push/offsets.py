"""Offsets that consumers tell with their answers, and what of them is written. They never go back. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.push.group import PushGroup
from broker_runtime.groups.push.member import PushMember
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue
from broker_runtime.groups.state import GroupsState

_LEADER_EPOCH_UNKNOWN = -1


class Consumed(NamedTuple):
    """The offset of the next record that a consumer would take."""

    topic: str
    partition: int
    offset: int


def note(member: PushMember, told: Iterable[Consumed]) -> None:
    """Of partitions that it was not told to read it knows nothing; below 0 is that it has read nothing yet."""
    for topic, partition, offset in told:
        key = (topic, partition)
        if key in member.assigned and offset > member.consumed.get(key, -1):
            member.consumed[key] = offset


def uncommitted(
    state: GroupsState, environment: GroupEnvironment, group: PushGroup, members: Iterable[PushMember]
) -> Sequence[GroupRecord]:
    """The records of what is not committed yet: until the log has taken them they are wanted again.

    Of a topic that is gone nothing is written, and of another that was made under its name since nothing is known.
    """
    return list(_uncommitted(state, environment, group.group_id, members))


def _uncommitted(
    state: GroupsState, environment: GroupEnvironment, group_id: str, members: Iterable[PushMember]
) -> Iterator[GroupRecord]:
    committed, topics, now_ms = state.offsets.of(group_id), environment.image.topics, environment.now_ms()
    for member in members:
        for (name, partition), offset in member.consumed.items():
            before, topic = committed.get((name, partition)), topics.get(name)
            if topic is None or topic.id != member.assigned[name, partition]:
                continue
            if before is None or before.offset < offset or not before.is_of(topic.id):
                value = OffsetCommitValue(offset, _LEADER_EPOCH_UNKNOWN, "", now_ms, None, topic.id)
                yield GroupRecord(OffsetCommitKey(group_id, name, partition), value)
