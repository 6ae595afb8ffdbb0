"""A group of the classic protocol as a value: the state from its record, allowed commits, expiry."""

import struct

import pytest

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.group import APPLIERS, ClassicGroup
from broker_runtime.groups.classic.loading import loaded
from broker_runtime.groups.classic.states import PREVIOUS, ClassicState
from broker_runtime.groups.group import Committer, Group, OffsetRetention
from broker_runtime.groups.records import ClassicMember, GroupMetadataKey, GroupMetadataValue, GroupRecord
from broker_runtime.groups.state import GroupsState
from tests.support.groups.classic_coordinator import ClassicCoordinator

KEY = GroupMetadataKey("g")


def subscription(*topics: str) -> bytes:
    names = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 1, len(topics)) + names + b"\xff\xff\xff\xff"


def member(member_id: str, *topics: str, instance: str | None = None) -> ClassicMember:
    return ClassicMember(member_id, instance, "client", "/127.0.0.1", 60_000, 10_000, subscription(*topics), b"owns")


def value(*members: ClassicMember, generation: int = 3, protocol_type: str = "consumer") -> GroupMetadataValue:
    leader = members[0].member_id if members else None
    return GroupMetadataValue(protocol_type, generation, "range" if members else None, leader, 1_000, members)


def replayed(*values: GroupMetadataValue | None) -> GroupsState:
    state = GroupsState(APPLIERS, ClassicGroup)
    for offset, each in enumerate(values):
        state.apply(GroupRecord(KEY, each), offset)
    return state


def taken_over(*values: GroupMetadataValue | None) -> GroupsState:
    """As `replayed`, after the coordinator has read its members' subscriptions."""
    coordinator = ClassicCoordinator(state=replayed(*values))
    loaded(coordinator.state, coordinator)
    coordinator.advance(0.0)
    return coordinator.state


def group_of(state: GroupsState) -> ClassicGroup:
    group = state.groups["g"]
    assert isinstance(group, ClassicGroup)
    return group


def test_it_is_a_group() -> None:
    group: Group = ClassicGroup("g")
    assert (group.group_id, group.state_name, group.protocol_type, group.is_empty) == ("g", "Empty", "", True)


def test_what_a_coordinator_that_takes_over_finds() -> None:
    group = group_of(replayed(value(member("a", "t"), member("b", "t", "u", instance="i"))))
    assert (group.state_name, group.generation, group.protocol, group.leader) == ("Stable", 3, "range", "a")
    assert group.members.static == {"i": "b"}
    assert group.members.by_id["b"].metadata("range") == subscription("t", "u")
    assert group.members.by_id["b"].assignment == b"owns"
    assert group.record([m.recorded("range", b"owns") for m in group.members.by_id.values()], 1_000).value == value(
        member("a", "t"), member("b", "t", "u", instance="i")
    )


def test_the_last_record_counts_also_where_the_members_are_the_same() -> None:
    group = group_of(taken_over(value(member("a", "t")), value(member("a", "u"), generation=4)))
    assert (group.generation, group.topics) == (4, frozenset({"u"}))


def test_without_members_it_is_empty_and_a_tombstone_ends_it() -> None:
    state = replayed(value(member("a", "t")), value(generation=4))
    assert (group_of(state).state_name, group_of(state).generation) == ("Empty", 4)
    for record in group_of(state).tombstones():
        state.apply(record, state.next_offset)
    assert state.groups == {}
    state.apply(GroupRecord(KEY, None), state.next_offset)


def test_applying_the_groups_own_record_keeps_pending_members() -> None:
    state = replayed(value(member("a", "t")))
    before = group_of(state)
    before.members.pending_ids["p"] = None
    state.apply(before.record([before.members.by_id["a"].recorded("range", b"new")], 2_000), 1)
    assert group_of(state) is before
    assert (before.members.by_id["a"].assignment, before.members.pending_ids) == (b"new", {"p": None})


def test_a_member_of_an_old_record_has_its_session_timeout_for_its_rebalance_timeout() -> None:
    old = ClassicMember("a", None, "client", "/127.0.0.1", -1, 10_000, subscription("t"), b"")
    assert group_of(replayed(value(old))).members.by_id["a"].rebalance_timeout_ms == 10_000


@pytest.mark.parametrize(
    ("state", "committer", "error"),
    [
        (ClassicState.STABLE, Committer("a", 3), None),
        (ClassicState.PREPARING_REBALANCE, Committer("a", 3), None),
        (ClassicState.COMPLETING_REBALANCE, Committer("a", 3), ErrorCode.REBALANCE_IN_PROGRESS),
        (ClassicState.STABLE, Committer("a", 2), ErrorCode.ILLEGAL_GENERATION),
        (ClassicState.STABLE, Committer("a", -1), ErrorCode.ILLEGAL_GENERATION),
        (ClassicState.STABLE, Committer("x", 3), ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, Committer("", 3), ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, Committer("", -1), ErrorCode.UNKNOWN_MEMBER_ID),
        (ClassicState.STABLE, Committer("x", 3, "i"), ErrorCode.FENCED_INSTANCE_ID),
        (ClassicState.STABLE, Committer("", -1, "i"), ErrorCode.FENCED_INSTANCE_ID),
        (ClassicState.STABLE, Committer("a", 3, "other"), ErrorCode.UNKNOWN_MEMBER_ID),
    ],
)
def test_only_members_may_commit_to_a_group_with_members(
    state: ClassicState, committer: Committer, error: ErrorCode | None
) -> None:
    group = group_of(replayed(value(member("a", "t"), member("b", "t", instance="i"))))
    group.state = state
    if error is None:
        group.check_commit(committer)
        return
    with pytest.raises(KafkaError) as refused:
        group.check_commit(committer)
    assert refused.value.code is error


@pytest.mark.parametrize(
    ("committer", "error"),
    [
        (Committer("a", 3), None),
        (Committer("b", 3, "i"), None),
        (Committer(), None),
        (Committer("a", 2), ErrorCode.ILLEGAL_GENERATION),
        (Committer("a", -1), ErrorCode.ILLEGAL_GENERATION),
        (Committer("x", 3), ErrorCode.UNKNOWN_MEMBER_ID),
        (Committer("", 3), ErrorCode.UNKNOWN_MEMBER_ID),
        (Committer("x", 3, "i"), ErrorCode.FENCED_INSTANCE_ID),
    ],
)
@pytest.mark.parametrize("state", [ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE])
def test_a_commit_in_a_transaction_may_come_during_a_rebalance_or_from_a_client_without_an_id(
    state: ClassicState, committer: Committer, error: ErrorCode | None
) -> None:
    group = group_of(replayed(value(member("a", "t"), member("b", "t", instance="i"))))
    group.state = state
    if error is None:
        group.check_commit(committer, in_transaction=True)
        return
    with pytest.raises(KafkaError) as refused:
        group.check_commit(committer, in_transaction=True)
    assert refused.value.code is error


def test_any_client_without_a_generation_may_commit_to_an_empty_group() -> None:
    group = ClassicGroup("g")
    group.check_commit(Committer())
    group.check_commit(Committer("a", -1), in_transaction=True)
    with pytest.raises(KafkaError):
        group.check_commit(Committer("a", 0))
    with pytest.raises(KafkaError):
        group.check_commit(Committer("a", 0), in_transaction=True)
    group.check_fetch(Committer("a", 0))


def test_what_expires() -> None:
    assert ClassicGroup("g").offset_retention() == OffsetRetention(None)
    group = group_of(taken_over(value(member("a", "t"))))
    assert group.offset_retention() == OffsetRetention(None, frozenset({"t"}))
    group.enter(ClassicState.PREPARING_REBALANCE, 5_000)
    assert group.offset_retention() is None
    assert group_of(replayed(value())).offset_retention() == OffsetRetention(1_000)
    assert group_of(replayed(value(member("a", "t"), protocol_type="connect"))).offset_retention() is None


def test_is_subscribed_to_returns_whether_a_member_reads_the_topic() -> None:
    group = group_of(taken_over(value(member("a", "t"), member("b", "u"))))
    assert [group.is_subscribed_to(topic) for topic in ("t", "u", "v")] == [True, True, False]
    odd = ClassicMember("c", None, "client", "/127.0.0.1", 1, 1, b"\x00\x00\x00\x00\x00\x09", b"")
    assert group_of(taken_over(value(odd))).is_subscribed_to("v"), "nobody knows what it reads"
    assert not group_of(taken_over(value(odd, protocol_type="connect"))).is_subscribed_to("v")
    assert not ClassicGroup("g").is_subscribed_to("t")


@pytest.mark.parametrize("before", ClassicState)
@pytest.mark.parametrize("after", ClassicState)
def test_states_follow_each_other_as_the_table_says(before: ClassicState, after: ClassicState) -> None:
    group = ClassicGroup("g")
    group.state = before
    if before in PREVIOUS[after]:
        group.enter(after, 7)
        assert (group.state, group.previous_state, group.state_since_ms) == (after, before, 7)
    else:
        with pytest.raises(RuntimeError):
            group.enter(after, 7)
        assert group.state is before
