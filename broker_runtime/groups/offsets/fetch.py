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


FetchedTopics = Sequence[tuple[str, Sequence[FetchedOffset]]]


def fetch(
    state: GroupsState,
    member: Committer,
    group_id: str,
    topics: Sequence[tuple[str, Sequence[int]]] | None,
    topic_ids: Mapping[str, UUID] | None = None,
) -> FetchedTopics:
    """The partitions of `topics` in their order, or of all topics with an offset where it is None.

    A group that is not there has no offsets, and that is no error. Raises KafkaError where the member may not ask.
    `topic_ids` are those of `topics` that exist: what was committed for another topic of the name is not theirs, also
    where a coordinator was not there to delete it with its topic. Whether stable offsets are asked for changes nothing:
    there are no transactions.
    """
    group = state.groups.get(group_id)
    if group is not None:
        group.check_fetch(member)
    offsets = state.offsets.of(group_id)
    if topics is None:
        return _all(offsets)
    known = topic_ids or {}
    return [
        (topic, [_fetched(partition, offsets.get((topic, partition)), known.get(topic)) for partition in partitions])
        for topic, partitions in topics
    ]


def _all(offsets: Mapping[tuple[str, int], OffsetCommitValue]) -> FetchedTopics:
    found: dict[str, list[FetchedOffset]] = {}
    for (topic, partition), value in offsets.items():
        found.setdefault(topic, []).append(_fetched(partition, value))
    return list(found.items())


def _fetched(partition: int, value: OffsetCommitValue | None, topic_id: UUID | None = None) -> FetchedOffset:
    if value is None or (topic_id is not None and value.topic_id not in (None, topic_id)):
        return FetchedOffset(partition)
    return FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata)
