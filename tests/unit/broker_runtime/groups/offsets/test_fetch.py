"""The answers of OffsetFetch about named topics, and about all."""

from uuid import UUID

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.consumer.state.group import APPLIERS
from broker_runtime.groups.group import Committer
from broker_runtime.groups.offsets.fetch import FetchedOffset, fetch, fetch_all
from broker_runtime.groups.records import (
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupRecord,
    OffsetCommitKey,
    OffsetCommitValue,
)
from broker_runtime.groups.state import GroupsState
from tests.support.groups.consumer_groups import refused

NOBODY = Committer()
OLD, NEW = UUID(int=1), UUID(int=2)


def committed() -> GroupsState:
    state = GroupsState(APPLIERS, ClassicGroup)
    for partition, value in ((0, OffsetCommitValue(42, 7, "half", 1)), (2, OffsetCommitValue(9, -1, "", 1, None, OLD))):
        state.apply(GroupRecord(OffsetCommitKey("g", "orders", partition), value), state.next_offset)
    state.apply(GroupRecord(OffsetCommitKey("g", "clicks", 1), OffsetCommitValue(5, -1, "", 1)), state.next_offset)
    return state


def test_partitions_in_the_order_that_they_are_named_in() -> None:
    asked = [("orders", 2), ("orders", 1), ("orders", 0), ("nope", 0)]
    assert fetch(committed(), NOBODY, "g", asked) == [
        FetchedOffset(2, 9),
        FetchedOffset(1, -1, -1, ""),
        FetchedOffset(0, 42, 7, "half"),
        FetchedOffset(0),
    ]


def test_fetch_all_returns_a_snapshot() -> None:
    state = committed()
    found = fetch_all(state, NOBODY, "g")
    state.apply(GroupRecord(OffsetCommitKey("g", "orders", 0), None), state.next_offset)
    assert [(at, value and value.offset) for at, value in found] == [
        (("orders", 0), 42),
        (("orders", 2), 9),
        (("clicks", 1), 5),
    ]


def test_a_group_that_is_not_there_has_no_offsets() -> None:
    assert fetch(committed(), Committer("m", 5), "other", [("orders", 0)]) == [FetchedOffset(0)]
    assert fetch_all(committed(), NOBODY, "other") == []


def test_offsets_committed_for_an_earlier_topic_of_the_name_are_not_returned() -> None:
    state = committed()
    asked = [("orders", 0), ("orders", 2)]
    assert fetch(state, NOBODY, "g", asked, {"orders": OLD}) == fetch(state, NOBODY, "g", asked)
    # Commits without an id count for any topic of the name.
    assert fetch(state, NOBODY, "g", asked, {"orders": NEW}) == [FetchedOffset(0, 42, 7, "half"), FetchedOffset(2)]


def test_a_member_must_be_one() -> None:
    state = committed()
    state.apply(GroupRecord(ConsumerGroupMetadataKey("g"), ConsumerGroupMetadataValue(3)), state.next_offset)
    assert fetch(state, NOBODY, "g", [("orders", 0)]) == [FetchedOffset(0, 42, 7, "half")]
    stranger = Committer("m", 3)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        fetch(state, stranger, "g", [("orders", 0)])
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        fetch_all(state, stranger, "g")
