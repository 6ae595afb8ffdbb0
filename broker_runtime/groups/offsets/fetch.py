"""OffsetFetch. Pure; it changes nothing."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from broker_runtime.groups.group import Committer
from broker_runtime.groups.records import OffsetCommitValue
from broker_runtime.groups.state import GroupsState


class FetchedOffset(NamedTuple):
    """One partition; the offset is -1 if none is committed."""

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
    """Return the committed offsets of `partitions`, which name topics by their names, in the same order.

    A group that does not exist has no offsets, which is not an error. Raises KafkaError if the member may not fetch.
    `topic_ids` has the ids of existing topics. An offset that was committed for another topic of the same name is left
    out, even if no coordinator could delete it with its topic. A request for stable offsets changes nothing, because
    there are no transactions.
    """
    _check(state, member, group_id)
    offsets, known = state.offsets.of(group_id), topic_ids or {}
    return [_fetched(at[1], offsets.get(at), known.get(at[0])) for at in partitions]


def fetch_all(
    state: GroupsState, member: Committer, group_id: str
) -> Sequence[tuple[tuple[str, int], OffsetCommitValue]]:
    """Return a copy of all committed offsets: the caller reads it over many iterations of the event loop."""
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
