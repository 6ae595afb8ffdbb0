"""Groups of the classic protocol in virtual time: waits, their lengths, and the answers to all members."""

from dataclasses import replace

import pytest

from broker_runtime.config.keys.broker import BrokerConfig
from broker_runtime.coordination.seam import in_one_go
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.classic.group import APPLIERS, ClassicGroup
from broker_runtime.groups.classic.heartbeats import keep_session
from broker_runtime.groups.classic.joining import join
from broker_runtime.groups.classic.loading import loaded
from broker_runtime.groups.classic.portions import PORTION
from broker_runtime.groups.classic.requests import LeavingMember, SyncRequest
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.classic.syncing import sync
from broker_runtime.groups.consumer.classic_members import CLASSIC_MEMBERS
from broker_runtime.groups.group import Committer
from broker_runtime.groups.record_codec import encode
from broker_runtime.groups.records import ClassicProtocol, GroupMetadataValue, GroupRecord
from broker_runtime.groups.state import GroupsState
from tests.support.groups.classic_coordinator import (
    GROUP,
    OTHER_TOPIC,
    RANGE,
    START_MS,
    ClassicCoordinator,
    error_of,
    join_request,
    told,
)
from tests.support.oracles.circles import no_circles

IN_PROGRESS, UNKNOWN = ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID
FENCED, NONE = ErrorCode.FENCED_INSTANCE_ID, ErrorCode.NONE


def test_a_member_gets_an_id_joins_waits_for_others_and_has_its_assignment() -> None:
    at = ClassicCoordinator()
    given = told(at.join())
    assert (given.error, given.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "client-1")
    joining = at.join("client-1")
    at.advance(2.999)
    assert error_of(joining) is None
    at.advance(0.001)
    answer = told(joining)
    assert (answer.error, answer.generation, answer.leader, answer.protocol) == (NONE, 1, "client-1", "range")
    assert (answer.protocol_type, answer.skip_assignment) == ("consumer", False)
    assert [(each.member_id, each.metadata) for each in answer.members] == [("client-1", RANGE[0].metadata)]
    assert at.log == []
    syncing = at.sync("client-1", assignments={"client-1": b"all"})
    assert (told(syncing).error, told(syncing).assignment) == (NONE, b"all")
    assert (at.group.state_name, len(at.log)) == ("Stable", 1)
    assert at.group.topics == frozenset({"t"})


def test_each_newcomer_puts_the_first_rebalance_off_and_the_longest_rebalance_timeout_ends_it() -> None:
    at = ClassicCoordinator()
    first = at.join(told(at.join()).member_id, rebalance_timeout_ms=10_000)
    for _ in range(5):
        at.advance(1.99)
        at.joined(rebalance_timeout_ms=10_000)
    assert error_of(first) is None
    at.advance(0.06)
    assert error_of(first) is NONE
    assert len(told(first).members) == 6


def test_old_versions_join_without_asking_for_an_id() -> None:
    at = ClassicCoordinator()
    joining = at.join(needs_known_id=False)
    at.advance(3.0)
    assert told(joining).member_id == "client-1"


def test_an_id_that_is_not_used_expires_and_is_waited_for_until_then() -> None:
    at = ClassicCoordinator()
    (member_id,) = at.stable()
    at.join(session_timeout_ms=6_000)
    rejoining = at.join(member_id)
    at.advance(5.999)
    assert error_of(rejoining) is None
    at.advance(0.002)
    assert told(rejoining).generation == 2
    assert not at.group.members.pending_ids


def test_a_second_member_makes_the_first_join_again() -> None:
    at = ClassicCoordinator()
    (first,) = at.stable()
    second = at.joined()
    assert at.beat(first) is IN_PROGRESS
    joining = at.join(first)
    answer = told(joining)
    assert (answer.generation, answer.leader) == (2, first)
    assert {each.member_id for each in answer.members} == {first, second}
    assert at.beat(first) is NONE, "the assignment is waited for, and the member is alive"
    follower = at.sync(second)
    assert error_of(follower) is None
    assert told(at.sync(first, assignments={first: b"1", second: b"2"})).assignment == b"1"
    assert told(follower).assignment == b"2"


def test_a_member_without_a_part_of_the_assignment_gets_an_empty_one() -> None:
    at = ClassicCoordinator()
    first, second = at.stable(members=2)
    at.leave(LeavingMember("nobody"))
    at.join(first)
    told(at.join(second))
    follower = at.sync(second)
    at.sync(first, assignments={"somebody else": b"x"})
    assert told(follower).assignment == b""


def test_a_member_that_does_not_rejoin_in_time_is_removed() -> None:
    at = ClassicCoordinator()
    first, second = at.stable(members=2, session_timeout_ms=100_000)
    rejoining = at.join(first)
    at.advance(59.999)
    assert error_of(rejoining) is None
    at.advance(0.001)
    assert [each.member_id for each in told(rejoining).members] == [first]
    assert at.beat(second) is UNKNOWN


def test_a_leader_that_does_not_join_again_is_followed_by_one_who_has() -> None:
    at = ClassicCoordinator()
    first, second, third = at.stable(members=3, session_timeout_ms=100_000)
    at.leave(LeavingMember(second))
    rejoining = at.join(third)
    at.advance(60.0)
    assert told(rejoining).leader == third
    assert at.beat(first) is UNKNOWN


def test_a_session_without_heartbeats_ends() -> None:
    at = ClassicCoordinator()
    first, second = at.stable(members=2)
    for _ in range(3):
        at.advance(5.0)
        assert at.beat(first) in (NONE, IN_PROGRESS)
    assert second not in at.group.members.by_id
    assert told(at.join(first)).generation == 2


def test_a_commit_keeps_the_session_of_a_member() -> None:
    at = ClassicCoordinator()
    (member_id,) = at.stable()
    for _ in range(3):
        at.advance(9.0)
        keep_session(at, at.group, Committer(member_id, 1))
        keep_session(at, at.group, Committer("nobody", 1))
    assert at.beat(member_id) is NONE


def test_when_the_last_session_ends_the_group_is_empty_and_says_so_in_the_log() -> None:
    at = ClassicCoordinator()
    at.stable()
    at.advance(10.0)
    value = at.log[-1].value
    assert isinstance(value, GroupMetadataValue)
    assert (at.group.state_name, value.generation, value.members, value.leader) == ("Empty", 2, (), None)
    assert (value.protocol_type, value.protocol) == ("consumer", None)
    assert value.current_state_timestamp_ms == START_MS + round(at.timers.now_s * 1000)
    assert not list(at.timers.timers.take_due(1e9)), "nothing is left to wait for"


def test_a_member_waiting_in_join_group_needs_no_heartbeats() -> None:
    at = ClassicCoordinator()
    first, second = at.stable(members=2)
    rejoining = at.join(first)
    for _ in range(6):
        at.advance(5.0)
        at.beat(second)
    assert error_of(rejoining) is None
    told(at.join(second))
    follower = at.sync(second)
    at.advance(9.0)
    at.beat(first)
    at.advance(9.0)
    told(at.sync(first, assignments={}))
    assert error_of(follower) is NONE
    at.advance(9.0)
    assert at.beat(second) is NONE, "its session began anew with its assignment"


def test_a_new_member_is_given_up_after_five_minutes_of_waiting() -> None:
    at = ClassicCoordinator()
    at.stable(session_timeout_ms=1_800_000, rebalance_timeout_ms=1_000_000)
    joining = at.join(told(at.join()).member_id)
    at.advance(299.999)
    assert error_of(joining) is None
    at.advance(0.001)
    assert (told(joining).error, told(joining).member_id) == (UNKNOWN, "")


def test_a_member_that_does_not_sync_is_removed_after_the_rebalance_timeout() -> None:
    at = ClassicCoordinator()
    came = [at.joined(session_timeout_ms=100_000) for _ in range(3)]
    at.advance(9.0)
    leader, follower, silent = came
    syncing = at.sync(follower)
    at.sync(leader, assignments={})
    assert error_of(syncing) is NONE
    at.advance(60.0)
    assert silent not in at.group.members.by_id
    assert at.group.state is ClassicState.PREPARING_REBALANCE


def test_a_leader_that_never_syncs_is_removed_and_the_others_begin_again() -> None:
    at = ClassicCoordinator()
    leader, follower = (at.joined(session_timeout_ms=100_000) for _ in range(2))
    at.advance(9.0)
    syncing = at.sync(follower)
    at.advance(60.0)
    assert error_of(syncing) is IN_PROGRESS
    answer = told(at.join(follower))
    assert (answer.leader, len(answer.members), at.beat(leader)) == (follower, 1, UNKNOWN)


def test_a_rebalance_during_the_sync_fails_pending_syncs() -> None:
    at = ClassicCoordinator()
    leader, follower = (at.joined() for _ in range(2))
    at.advance(9.0)
    syncing = at.sync(follower)
    at.joined()
    assert error_of(syncing) is IN_PROGRESS
    assert error_of(at.sync(leader, assignments={})) is IN_PROGRESS


def test_an_assignment_refused_by_the_log_is_dropped_and_the_group_continues() -> None:
    at = ClassicCoordinator()
    leader, follower = (at.joined() for _ in range(2))
    at.advance(9.0)
    syncing = at.sync(follower)
    at.log_refuses = True
    with pytest.raises(KafkaError):
        at.sync(leader, assignments={follower: b"x"})
    at.advance(0.0)
    assert error_of(syncing) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert (at.group.state_name, at.log) == ("PreparingRebalance", [])
    at.log_refuses = False
    at.join(leader)
    assert told(at.join(follower)).generation == 2
    syncing = at.sync(follower)
    at.sync(leader, assignments={follower: b"y"})
    assert told(syncing).assignment == b"y"


def test_a_group_whose_end_the_log_refuses_is_empty_all_the_same() -> None:
    at = ClassicCoordinator()
    (member_id,) = at.stable()
    at.log_refuses = True
    with pytest.raises(KafkaError):
        at.leave(LeavingMember(member_id))
    at.log_refuses = False
    assert at.group.is_empty
    assert len(at.stable()) == 1


def test_a_follower_may_rejoin_its_generation_unless_its_topics_changed() -> None:
    at = ClassicCoordinator()
    leader, follower = at.stable(members=2)
    again = told(at.join(follower))
    assert (again.generation, again.leader, again.members, at.group.state_name) == (1, leader, (), "Stable")
    assert told(at.sync(follower)).assignment == b"to " + follower.encode()
    changed = at.join(follower, protocols=OTHER_TOPIC)
    assert (error_of(changed), at.group.state_name) == (None, "PreparingRebalance")
    told(at.join(leader))
    assert at.group.topics == frozenset({"t", "u"})


def test_a_leader_that_joins_again_always_rebalances() -> None:
    at = ClassicCoordinator()
    leader, follower = at.stable(members=2)
    assert error_of(at.join(leader)) is None
    assert at.beat(follower) is IN_PROGRESS


def test_a_second_join_of_a_member_answers_the_first_with_an_error() -> None:
    at = ClassicCoordinator()
    leader, follower = at.stable(members=2)
    first, second = at.join(leader), at.join(leader)
    assert (error_of(first), error_of(second)) == (IN_PROGRESS, None)
    at.join(follower)
    assert error_of(second) is NONE


def test_the_protocol_that_most_like_best_of_those_that_all_speak() -> None:
    at = ClassicCoordinator()
    a, b, c = (ClassicProtocol(name, RANGE[0].metadata) for name in "abc")
    for protocols in ((a, b, c), (b, c), (c, b)):
        at.joined(protocols=protocols)
    at.advance(12.0)
    assert at.group.protocol == "b"
    refused = told(at.join(protocols=(a,)))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert told(at.join(protocols=(b,), protocol_type="connect")).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_leaving() -> None:
    at = ClassicCoordinator()
    first, second = at.stable(members=2)
    pending = told(at.join()).member_id
    nobody, gone = LeavingMember("nobody"), LeavingMember(second)
    assert at.leave(nobody, gone, LeavingMember(pending)) == (UNKNOWN, NONE, NONE)
    assert at.beat(first) is IN_PROGRESS
    assert at.leave(LeavingMember(second)) == (UNKNOWN,)
    assert told(at.join(first)).generation == 2


def test_a_pending_join_fails_when_its_member_leaves() -> None:
    at = ClassicCoordinator()
    first, second = at.stable(members=2)
    joining = at.join(first)
    assert at.leave(LeavingMember(first)) == (NONE,)
    assert error_of(joining) is UNKNOWN
    assert told(at.join(second)).leader == second


@pytest.mark.parametrize("leads", [True, False])
@pytest.mark.parametrize("skips", [True, False])
def test_a_static_member_that_starts_again_takes_its_assignment_over(leads: bool, skips: bool) -> None:
    at = ClassicCoordinator()
    ids = [told_id(at, instance) for instance in ("one", "two")]
    at.advance(9.0)
    follower = at.sync(ids[1])
    at.sync(ids[0], assignments={each: each.encode() for each in ids})
    told(follower)
    old = ids[0] if leads else ids[1]
    answer = told(at.join(group_instance_id="one" if leads else "two", can_skip_assignment=skips))
    assert (answer.error, answer.generation, at.group.state_name) == (NONE, 1, "Stable")
    assert answer.skip_assignment is (leads and skips)
    assert len(answer.members) == (2 if leads and skips else 0)
    assert answer.leader == (answer.member_id if leads and skips else ids[0])
    assert told(at.sync(answer.member_id)).assignment == old.encode()
    assert at.beat(old, instance_id="one" if leads else "two") is FENCED
    assert at.beat(old) is UNKNOWN
    assert at.group.leader == (answer.member_id if leads else ids[0])
    replayed = GroupsState(APPLIERS, ClassicGroup)
    replayed.apply(at.log[-1], 0)
    again = replayed.groups[GROUP]
    assert isinstance(again, ClassicGroup)
    assert again.members.static == at.group.members.static


def told_id(at: ClassicCoordinator, instance: str) -> str:
    at.join(group_instance_id=instance)
    return at.group.members.static[instance]


def test_a_static_member_that_starts_again_with_another_protocol_rebalances() -> None:
    at = ClassicCoordinator()
    a, b = (ClassicProtocol(name, RANGE[0].metadata) for name in "ab")
    at.join(group_instance_id="one", protocols=(a, b))
    at.advance(3.0)
    (member_id,) = at.group.members.by_id
    at.sync(member_id, assignments={})
    refused = told(at.join(group_instance_id="one", protocols=(ClassicProtocol("c", b""),)))
    assert refused.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    rejoined = told(at.join(group_instance_id="one", protocols=(b,)))
    assert (rejoined.generation, rejoined.protocol) == (2, "b")


def test_a_static_member_whose_join_waits_is_fenced_by_the_next() -> None:
    at = ClassicCoordinator()
    first = at.join(group_instance_id="one")
    second = at.join(group_instance_id="one")
    assert (error_of(first), error_of(second)) == (FENCED, None)
    at.advance(6.0)
    assert told(second).members[0].group_instance_id == "one"


def test_a_static_member_that_starts_again_while_the_assignment_is_waited_for_rebalances() -> None:
    at = ClassicCoordinator()
    ids = [told_id(at, instance) for instance in ("one", "two")]
    at.advance(9.0)
    syncing = at.sync(ids[1])
    assert error_of(at.join(group_instance_id="two")) is None
    assert (error_of(syncing), at.group.state_name) == (FENCED, "PreparingRebalance")


def test_a_static_member_that_does_not_join_again_stays_until_its_session_ends() -> None:
    at = ClassicCoordinator()
    ids = [told_id(at, instance) for instance in ("one", "two")]
    at.advance(9.0)
    at.sync(ids[1])
    at.sync(ids[0], assignments={})
    rejoining = at.join(ids[0], group_instance_id="one", rebalance_timeout_ms=5_000, protocols=RANGE)
    at.group.members.by_id[ids[1]].rebalance_timeout_ms = 5_000
    for _ in range(7):
        at.advance(8.0)
        at.beat(ids[1], instance_id="two")
    at.advance(8.0)
    assert [each.member_id for each in told(rejoining).members] == ids
    at.advance(10.0)
    assert list(at.group.members.static) == []


def test_an_administrator_has_a_static_member_go_by_its_name() -> None:
    at = ClassicCoordinator()
    told_id(at, "one")
    at.advance(3.0)
    assert at.leave(LeavingMember("", "two"), LeavingMember("", "one")) == (UNKNOWN, NONE)
    assert at.group.is_empty


def test_a_full_group_takes_nobody() -> None:
    at = ClassicCoordinator(BrokerConfig(group_max_size=2))
    _, follower = at.stable(members=2)
    turned_away = told(at.join())
    assert (turned_away.error, turned_away.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert told(at.join(follower)).error is NONE


def test_ids_that_are_given_count_too() -> None:
    at = ClassicCoordinator(BrokerConfig(group_max_size=2))
    assert [told(at.join()).error for _ in range(3)] == [
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.MEMBER_ID_REQUIRED,
        ErrorCode.GROUP_MAX_SIZE_REACHED,
    ]


def test_a_group_that_is_larger_than_it_may_be_by_now_turns_its_last_away() -> None:
    before = ClassicCoordinator()
    ids = before.stable(members=3)
    at = ClassicCoordinator(BrokerConfig(group_max_size=2))
    at.state.apply(before.log[-1], 0)
    loaded(at.state, at)
    assert at.group.state_name == "PreparingRebalance"
    first, second, third = (at.join(each) for each in ids)
    assert error_of(third) is ErrorCode.GROUP_MAX_SIZE_REACHED
    at.advance(60.0)
    assert {each.member_id for each in told(first).members} == set(ids[:2])
    assert error_of(second) is NONE


def test_after_a_failover_members_continue_and_a_silent_one_is_removed() -> None:
    before = ClassicCoordinator()
    first, second = before.stable(members=2)
    at = ClassicCoordinator()
    at.state.apply(before.log[-1], 0)
    loaded(at.state, at)
    at.advance(9.0)
    assert at.beat(first, 1) is NONE
    assert told(at.sync(first)).assignment == b"to " + first.encode()
    at.advance(1.0)
    assert second not in at.group.members.by_id
    assert at.beat(first) is IN_PROGRESS


def test_a_session_ends_only_in_the_group_that_it_was_of() -> None:
    at = ClassicCoordinator()
    at.join()
    at.state.groups[GROUP] = ClassicGroup(GROUP)
    at.advance(100.0)
    assert at.group.is_empty


@pytest.mark.parametrize("late", [True, False])
def test_thousands_of_joins_are_answered_in_portions_and_a_newcomer_causes_no_second_join(late: bool) -> None:
    at = ClassicCoordinator()
    given = [told(at.join()).member_id for _ in range(450)]
    joins = [at.join(each) for each in given]
    while not joins[0].result:
        at.timers.now_s += 3.0
        for _, action in at.timers.timers.take_due(at.timers.now_s):
            in_one_go(action(at.state))
        at.outbox.flush()
    answered = sum(join.result is not None for join in joins)
    assert answered == PORTION + 1
    if late:
        at.join(needs_known_id=False)
        assert at.group.state is ClassicState.PREPARING_REBALANCE
        for member_id, join in zip(given, joins, strict=True):
            if join.result is not None:
                at.join(member_id)
    at.advance(0.0)
    assert all(told(join).error is NONE for join in joins)
    assert {told(join).generation for join in joins} == ({1, 2} if late else {1})
    assert (at.group.state_name, at.group.topics) == ("CompletingRebalance", frozenset({"t"}))


@pytest.mark.parametrize("interrupted", [True, False])
def test_the_assignment_of_thousands_is_packed_in_portions_and_written_as_if_at_once(interrupted: bool) -> None:
    at = ClassicCoordinator()
    came = [told(at.join(needs_known_id=True)).member_id for _ in range(250)]
    for member_id in came:
        at.join(member_id)
    at.advance(6.0)
    follower = at.sync(came[1])
    parts = tuple((member_id, member_id.encode()) for member_id in came)
    records, leader = sync(at.state, at, SyncRequest(GROUP, came[0], 1, assignments=parts), CLASSIC_MEMBERS)
    assert records == ()
    if interrupted:
        records, _ = in_one_go(join(at.state, at, join_request(needs_known_id=False), CLASSIC_MEMBERS))
        assert records == ()
    at.advance(0.0)
    if interrupted:
        assert (error_of(leader), error_of(follower), at.log) == (IN_PROGRESS, IN_PROGRESS, [])
        return
    assert (told(leader).assignment, told(follower).assignment) == (came[0].encode(), came[1].encode())
    (record,) = at.log
    assert isinstance(record.value, GroupMetadataValue)
    assert encode(record) == encode(GroupRecord(record.key, replace(record.value, packed_members=None)))


def test_a_text_that_no_record_has_room_for_is_refused_before_anybody_waits() -> None:
    at = ClassicCoordinator()
    for wrong in ({"group_instance_id": "i" * 8_001}, {"protocols": (ClassicProtocol("p" * 8_001, b""),)}):
        assert told(at.join(**wrong)).error is ErrorCode.INVALID_REQUEST
    assert at.state.groups == {}


def test_oversized_protocols_and_assignments_are_rejected() -> None:
    at = ClassicCoordinator(BrokerConfig(sluicegate_group_member_bytes_max=22))
    half = ClassicProtocol("a", bytes(10))
    assert told(at.join(protocols=(half, half, ClassicProtocol("b", b"")))).error is ErrorCode.INVALID_REQUEST
    (member_id,) = at.stable(protocols=(half, half))
    assert error_of(at.sync(member_id, assignments={member_id: bytes(23)})) is ErrorCode.INVALID_REQUEST
    assert at.group.state is ClassicState.STABLE


def answer_thousands() -> None:
    at = ClassicCoordinator()
    joins = [at.join(told(at.join()).member_id) for _ in range(3 * PORTION)]
    at.advance(6.0)
    assert all(join.result is not None for join in joins)
    at.timers.timers.clear()


def test_portions_that_are_over_keep_nothing() -> None:
    with no_circles():
        answer_thousands()
