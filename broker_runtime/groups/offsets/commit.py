"""OffsetCommit and TxnOffsetCommit: which commits are accepted, and the records that they write. Pure."""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple
from uuid import UUID

from broker_runtime.coordination.seam import TransactionalBatch, TransactionalProducer, TransactionEnd
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import Committer, Group
from broker_runtime.groups.records import (
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
    PendingOffsetValue,
    TransactionEndKey,
    TransactionEndValue,
)
from broker_runtime.groups.room import check_room_for_group
from broker_runtime.groups.state import GroupsState
from kafka_bytes.control import Marker

Commits = Sequence[GroupRecord]
_FIRST_THAT_KNOWS_GROUP_ID_NOT_FOUND = 9
_TIME_MAX_MS = 2**63 - 1
"""The latest time that fits into a record: a retention may be endless."""


class OffsetToCommit(NamedTuple):
    """The offset that an OffsetCommit request commits for one partition.

    Without a topic id, the offset is for the topic that has the name now.
    """

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
    group = state.groups.get(group_id)
    if group is not None:
        group.check_commit(committer, _named(offsets, environment))
        keep_session(group, committer)
    elif committer.generation_or_epoch >= 0:
        raise _no_such_group(committer, group_id)
    else:
        check_room_for_group(state, environment, group_id)
    values, codes = _values(offsets, environment, retention_ms)
    return [GroupRecord(OffsetCommitKey(group_id, *at), value) for at, value in values], codes


def commit_in_transaction(
    state: GroupsState,
    environment: GroupEnvironment,
    committer: Committer,
    group_id: str,
    offsets: Sequence[OffsetToCommit],
    producer: TransactionalProducer,
) -> tuple[TransactionalBatch[GroupRecord], Sequence[ErrorCode]]:
    """Return the records of offsets that `producer` commits in its transaction, and an error code for each offset.

    Raises KafkaError if the committer may not commit at all. Unlike a plain commit, this is no heartbeat of a member.
    """
    group = state.groups.get(group_id)
    if group is not None:
        group.check_commit(committer, _named(offsets, environment), in_transaction=True)
    elif committer.generation_or_epoch >= 0:
        raise _group_is_gone(committer, group_id)
    else:
        check_room_for_group(state, environment, group_id)
    values, codes = _values(offsets, environment, -1)
    producer_id = producer.producer_id
    records = [
        GroupRecord(OffsetCommitKey(group_id, *at), PendingOffsetValue(producer_id, value)) for at, value in values
    ]
    return TransactionalBatch(records, producer), codes


def end_transaction(marker: Marker) -> TransactionEnd[GroupRecord]:
    """Return the record of a marker, which commits or drops the pending offsets of its producer."""
    end = GroupRecord(TransactionEndKey(marker.producer_id), TransactionEndValue(marker.is_commit))
    return TransactionEnd(end, marker)


def _named(offsets: Sequence[OffsetToCommit], environment: GroupEnvironment) -> Iterator[tuple[UUID | None, int]]:
    """Yield the partitions of the offsets that are accepted if the committer may commit."""
    longest = environment.config.offset_metadata_max_bytes
    return ((_id_of(each, environment), each.partition) for each in offsets if not _is_too_long(each, longest))


def _values(
    offsets: Sequence[OffsetToCommit], environment: GroupEnvironment, retention_ms: int
) -> tuple[list[tuple[tuple[str, int], OffsetCommitValue]], list[ErrorCode]]:
    """Return the value of each accepted offset by topic and partition, and an error code for each offset."""
    longest, now_ms = environment.config.offset_metadata_max_bytes, environment.now_ms()
    expires_ms = None if retention_ms < 0 else min(now_ms + retention_ms, _TIME_MAX_MS)
    values, codes = [], []
    for each in offsets:
        if _is_too_long(each, longest):
            codes.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
            continue
        topic_id = _id_of(each, environment)
        value = OffsetCommitValue(each.offset, each.leader_epoch, each.metadata or "", now_ms, expires_ms, topic_id)
        values.append(((each.topic, each.partition), value))
        codes.append(ErrorCode.NONE)
    return values, codes


def _id_of(each: OffsetToCommit, environment: GroupEnvironment) -> UUID | None:
    if each.topic_id is not None:
        return each.topic_id
    topic = environment.image.topics.get(each.topic)
    return None if topic is None else topic.id


def _is_too_long(each: OffsetToCommit, longest: int) -> bool:
    return each.metadata is not None and _java_length(each.metadata) > longest


def _no_such_group(committer: Committer, group_id: str) -> KafkaError:
    """Return the error for a commit with a generation to a group that does not exist.

    The client was a member once. Older clients only know the error for a generation that is not theirs any more.
    """
    if committer.api_version >= _FIRST_THAT_KNOWS_GROUP_ID_NOT_FOUND:
        return KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return _group_is_gone(committer, group_id)


def _group_is_gone(committer: Committer, group_id: str) -> KafkaError:
    return KafkaError(
        ErrorCode.ILLEGAL_GENERATION,
        f"group {group_id} does not exist; the commit has generation {committer.generation_or_epoch}",
    )


def _java_length(text: str) -> int:
    """Return the number of UTF-16 code units, which Kafka compares with the limit."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
