"""OffsetFetch. Pure; it changes nothing."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.group import Committer
from broker_runtime.groups.pending_offsets import Partition
from broker_runtime.groups.records import OffsetCommitValue
from broker_runtime.groups.state import GroupsState


class FetchedOffset(NamedTuple):
    """The committed offset of one partition; -1 without a commit, or with an error."""

    partition: int
    offset: int = -1
    leader_epoch: int = -1
    metadata: str = ""
    code: ErrorCode = ErrorCode.NONE


def fetch(
    state: GroupsState,
    member: Committer,
    group_id: str,
    partitions: Sequence[tuple[str, int]],
    topic_ids: Mapping[str, UUID] | None = None,
    *,
    require_stable: bool = False,
) -> Sequence[FetchedOffset]:
    """Return the committed offsets of `partitions`, which name topics by their names, in the same order.

    A group that does not exist has no offsets, which is not an error. Raises KafkaError if the member may not fetch.
    `topic_ids` has the ids of existing topics. An offset that was committed for another topic of the same name is left
    out, even if no coordinator could delete it with its topic.

    If `require_stable` is set, a partition with a pending offset gets UNSTABLE_OFFSET_COMMIT, and the client asks again
    (KIP-447). Otherwise pending offsets are invisible.
    """
    _check(state, member, group_id)
    offsets, known = state.offsets.of(group_id), topic_ids or {}
    fetched = [_fetched(at[1], offsets.get(at), known.get(at[0])) for at in partitions]
    if require_stable and state.pending.of(group_id):
        for number, at in enumerate(partitions):
            if state.pending.is_unstable(group_id, at):
                fetched[number] = unstable(at[1])
    return fetched


def unstable(partition: int) -> FetchedOffset:
    """Return the answer for a partition whose committed offset an open transaction may replace."""
    return FetchedOffset(partition, code=ErrorCode.UNSTABLE_OFFSET_COMMIT)


def fetch_all(
    state: GroupsState, member: Committer, group_id: str, *, require_stable: bool = False
) -> Sequence[tuple[Partition, OffsetCommitValue | None]]:
    """Return a copy of all committed offsets of the group.

    If `require_stable` is set, an unstable offset is replaced by None. The caller reads the copy over many iterations
    of the event loop. Partitions with pending offsets only are left out, as in Apache Kafka.
    """
    _check(state, member, group_id)
    offsets: dict[Partition, OffsetCommitValue | None] = dict(state.offsets.of(group_id))
    if require_stable:
        offsets.update(dict.fromkeys(at for at in state.pending.of(group_id) if at in offsets))
    return list(offsets.items())


def _check(state: GroupsState, member: Committer, group_id: str) -> None:
    group = state.groups.get(group_id)
    if group is not None:
        group.check_fetch(member)


def _fetched(partition: int, value: OffsetCommitValue | None, topic_id: UUID | None) -> FetchedOffset:
    if value is None or (topic_id is not None and not value.is_of(topic_id)):
        return FetchedOffset(partition)
    return FetchedOffset(partition, value.offset, value.leader_epoch, value.metadata)
