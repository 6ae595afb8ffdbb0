"""OffsetDelete and DeleteGroups: what may be deleted, and what is deleted with it."""

from collections.abc import Sequence

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.classic.group import APPLIERS, ClassicGroup
from broker_runtime.groups.classic.loading import loaded
from broker_runtime.groups.offsets.delete import CHUNK, delete, delete_group
from broker_runtime.groups.records import (
    ClassicMember,
    GroupMetadataKey,
    GroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)
from broker_runtime.groups.state import GroupsState
from tests.support.groups.classic_coordinator import ClassicCoordinator
from tests.support.groups.consumer_groups import refused

SUBSCRIBED_TO_ORDERS = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"


def state_of(protocol_type: str = "", members: bool = False, offsets: int = 2) -> GroupsState:
    """A group `g` with offsets of topics `orders` and `clicks`."""
    state = GroupsState(APPLIERS, ClassicGroup)
    if protocol_type:
        member = ClassicMember("m", None, "c", "/h", 60_000, 10_000, SUBSCRIBED_TO_ORDERS, b"")
        protocol, leader = ("range", "m") if members else (None, None)
        of_group = GroupMetadataValue(protocol_type, 3, protocol, leader, 1, (member,) if members else ())
        state.apply(GroupRecord(GroupMetadataKey("g"), of_group), state.next_offset)
    loaded(state, ClassicCoordinator(state=state))
    for topic in ("orders", "clicks"):
        for partition in range(offsets):
            key = OffsetCommitKey("g", topic, partition)
            state.apply(GroupRecord(key, OffsetCommitValue(1, -1, "", 1)), state.next_offset)
    return state


def apply(state: GroupsState, records: Sequence[GroupRecord]) -> None:
    for record in records:
        state.apply(record, state.next_offset)


def test_offsets_of_a_group_without_members() -> None:
    for state in (state_of(), state_of("consumer"), state_of("connect")):
        records, codes = delete(state, "g", [("orders", 1), ("orders", 7), ("clicks", 0)])
        assert codes == [ErrorCode.NONE] * 3
        assert records == [
            GroupRecord(OffsetCommitKey("g", "orders", 1), None),
            GroupRecord(OffsetCommitKey("g", "clicks", 0), None),
        ]
        apply(state, records)
        assert set(state.offsets.of("g")) == {("orders", 0), ("clicks", 1)}


def test_topics_that_members_read_keep_their_offsets() -> None:
    records, codes = delete(state_of("consumer", members=True), "g", [("orders", 0), ("clicks", 0)])
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert records == [GroupRecord(OffsetCommitKey("g", "clicks", 0), None)]


def test_deleting_offsets_of_another_protocols_active_group_is_rejected() -> None:
    with refused(ErrorCode.NON_EMPTY_GROUP):
        delete(state_of("connect", members=True), "g", [("clicks", 0)])


def test_a_group_that_is_not_there() -> None:
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        delete(state_of(), "other", [("orders", 0)])
    with refused(ErrorCode.GROUP_ID_NOT_FOUND):
        delete_group(state_of(), "other")


def test_a_group_with_members_is_not_deleted() -> None:
    with refused(ErrorCode.NON_EMPTY_GROUP):
        delete_group(state_of("consumer", members=True), "g")


def test_a_group_goes_with_its_offsets() -> None:
    for state in (state_of(), state_of("consumer"), state_of("consumer", offsets=0)):
        records, remains = delete_group(state, "g")
        assert not remains
        assert records[-1] == GroupRecord(GroupMetadataKey("g"), None)
        apply(state, records)
        assert (state.groups, state.offsets.count) == ({}, 0)


def test_a_group_with_very_many_offsets_goes_in_chunks() -> None:
    state = state_of("consumer", offsets=CHUNK)
    records, remains = delete_group(state, "g")
    assert (len(records), remains) == (CHUNK, True)
    apply(state, records)
    assert "g" in state.groups
    records, remains = delete_group(state, "g")
    assert (len(records), remains) == (CHUNK + 1, False)
    apply(state, records)
    assert (state.groups, state.offsets.count) == ({}, 0)
