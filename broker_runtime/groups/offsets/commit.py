"""OffsetCommit: which commits are accepted, and the records that they write. Pure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from uuid import UUID

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import Committer, Group
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue
from broker_runtime.groups.room import check_room_for_group
from broker_runtime.groups.state import GroupsState

Commits = Sequence[GroupRecord]
_FIRST_THAT_KNOWS_GROUP_ID_NOT_FOUND = 9
_TIME_MAX_MS = 2**63 - 1
"""The latest time that fits into a record: a retention may be endless."""


class OffsetToCommit(NamedTuple):
    """One partition of an OffsetCommit. Without a topic id, the topic that has the name now is meant."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: UUID | None = None


def commit(
    state: GroupsState,
    environment: GroupEnvironment,
    keep_session: Callable[[Group, Committer], None],
    committer: Committer,
    group_id: str,
    offsets: Sequence[OffsetToCommit],
    retention_ms: int = -1,
) -> tuple[Commits, Sequence[ErrorCode]]:
    """Return the records and an error code for each of `offsets`, in their order.

    Raises KafkaError if the committer may not commit at all. `keep_session` is called if it may: in the classic
    protocol, the commit of a member counts as its heartbeat. `retention_ms` is the retention that clients of
    OffsetCommit 2 to 4 may ask for, or -1.
    """
    topics, longest = environment.image.topics, environment.config.offset_metadata_max_bytes

    def id_of(each: OffsetToCommit) -> UUID | None:
        if each.topic_id is not None:
            return each.topic_id
        topic = topics.get(each.topic)
        return None if topic is None else topic.id

    def is_too_long(each: OffsetToCommit) -> bool:
        return each.metadata is not None and _java_length(each.metadata) > longest

    group = state.groups.get(group_id)
    if group is not None:
        group.check_commit(committer, ((id_of(each), each.partition) for each in offsets if not is_too_long(each)))
        keep_session(group, committer)
    elif committer.generation_or_epoch >= 0:
        raise _no_such_group(committer, group_id)
    else:
        check_room_for_group(state, environment, group_id)
    now_ms = environment.now_ms()
    expires_ms = None if retention_ms < 0 else min(now_ms + retention_ms, _TIME_MAX_MS)
    records, codes = [], []
    for each in offsets:
        if is_too_long(each):
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        value = OffsetCommitValue(each.offset, each.leader_epoch, each.metadata or "", now_ms, expires_ms, id_of(each))
        records.append(GroupRecord(OffsetCommitKey(group_id, each.topic, each.partition), value))
        codes.append(ErrorCode.NONE)
    return records, codes


def _no_such_group(committer: Committer, group_id: str) -> KafkaError:
    """Return the error for a commit with a generation to a group that does not exist.

    The client was a member once. Older clients only know the error for a generation that is not theirs any more.
    """
    if committer.api_version >= _FIRST_THAT_KNOWS_GROUP_ID_NOT_FOUND:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return KafkaError(
        ErrorCode.ILLEGAL_GENERATION,
        f"group {group_id} does not exist; the commit has generation {committer.generation_or_epoch}",
    )


def _java_length(text: str) -> int:
    """Return the number of UTF-16 code units, which Kafka compares with the limit."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
