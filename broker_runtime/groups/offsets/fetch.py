"""What OffsetFetch answers. Pure; nothing here changes anything."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from broker_runtime.groups.group import Committer
from broker_runtime.groups.records import OffsetCommitValue
from broker_runtime.groups.state import GroupsState


class FetchedOffset(NamedTuple):
    """One partition; an offset of -1 where nothing is committed."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""


def fetch(
    state: GroupsState,
    member: Committer,
    group_id: str,
    partitions: Sequence[tuple[str, int]],
    topic_ids: Mapping[str, UUID] | None = None,
) -> Sequence[FetchedOffset]:
    """Each of `partitions`, of topics by their names, in their order.

    A group that is not there has no offsets, and that is no error. Raises KafkaError where the member may not ask.
    `topic_ids` are those of the topics that exist: what was committed for another topic of the name is not theirs, also
    where a coordinator was not there to delete it with its topic. Whether stable offsets are asked for changes nothing:
    there are no transactions.
    """
    _check(state, member, group_id)
    offsets, known = state.offsets.of(group_id), topic_ids or {}
    return [_fetched(at[1], offsets.get(at), known.get(at[0])) for at in partitions]


def fetch_all(
    state: GroupsState, member: Committer, group_id: str
) -> Sequence[tuple[tuple[str, int], OffsetCommitValue]]:
    """Everything that the group has committed, as it is now: whoever asks looks at it over many turns."""
    _check(state, member, group_id)
    return list(state.offsets.of(group_id).items())


def _check(state: GroupsState, member: Committer, group_id: str) -> None:
    group = state.groups.get(group_id)
    if group is not None:
        group.check_fetch(member)


def _fetched(partition: int, value: OffsetCommitValue | None, topic_id: UUID | None) -> FetchedOffset:
    if value is None or (topic_id is not None and not value.is_of(topic_id)):
        return FetchedOffset(partition)
    return FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata)
