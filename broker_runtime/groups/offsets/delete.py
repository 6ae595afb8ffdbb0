"""OffsetDelete and DeleteGroups. Pure."""

from collections.abc import Iterator, Sequence
from itertools import islice

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.group import CONSUMER, Group
from broker_runtime.groups.pending_offsets import Partition
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey
from broker_runtime.groups.state import GroupsState

CHUNK = 250
"""Maximum number of offsets that one decision reads or deletes: a millisecond or two, including their records."""


def delete(
    state: GroupsState, group_id: str, partitions: Sequence[tuple[str, int]]
) -> tuple[Sequence[GroupRecord], Sequence[ErrorCode]]:
    """Decide an OffsetDelete: return the tombstones, and an error code for each of `partitions`.

    A tombstone also removes the pending offsets of open transactions. Raises KafkaError if no offset of the group may
    be deleted. A group of consumers may have members: only offsets of topics that they subscribe to are kept. For other
    groups with members it is not known what they read (KIP-496).
    """
    group = _group(state, group_id)
    if not group.is_empty and group.protocol_type != CONSUMER:
        raise _not_empty(group_id)
    offsets, pending = state.offsets.of(group_id), state.pending
    records, codes = [], []
    for topic, partition in partitions:
        if group.is_subscribed_to(topic):
            codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
            continue
        codes.append(ErrorCode.NONE)
        if (topic, partition) in offsets or pending.is_unstable(group_id, (topic, partition)):
            records.append(tombstone(group_id, topic, partition))
    return records, codes


def delete_group(state: GroupsState, group_id: str) -> tuple[Sequence[GroupRecord], bool]:
    """Decide one chunk of a DeleteGroups: return its tombstones, and whether another chunk follows.

    Raises KafkaError if the group does not exist or has members. The group ends with the last of its offsets.
    """
    group = _group(state, group_id)
    if not group.is_empty:
        raise _not_empty(group_id)
    chosen = list(islice(_partitions(state, group_id), CHUNK + 1))
    records = [tombstone(group_id, topic, partition) for topic, partition in chosen[:CHUNK]]
    if len(chosen) > CHUNK:
        return records, True
    return [*records, *group.tombstones()], False


def _partitions(state: GroupsState, group_id: str) -> Iterator[Partition]:
    """Yield the partitions for which the group has committed offsets, then those with pending offsets only."""
    committed = state.offsets.of(group_id)
    yield from committed
    for at in state.pending.of(group_id):
        if at not in committed:
            yield at


def tombstone(group_id: str, topic: str, partition: int) -> GroupRecord:
    return GroupRecord(OffsetCommitKey(group_id, topic, partition), None)


def _group(state: GroupsState, group_id: str) -> Group:
    group = state.groups.get(group_id)
    if group is None:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
    return group


def _not_empty(group_id: str) -> KafkaError:
    return KafkaError(ErrorCode.NON_EMPTY_GROUP, f"Group {group_id} is not empty.")
