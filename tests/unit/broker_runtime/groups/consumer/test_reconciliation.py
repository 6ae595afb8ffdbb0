"""The steps of one member towards its target (KIP-848), one by one."""

from uuid import UUID

from broker_runtime.groups.consumer.reconciliation import Goal, reconcile
from broker_runtime.groups.consumer.state.member import ConsumerMember, MemberState
from broker_runtime.groups.records import Assignment, ConsumerGroupCurrentMemberAssignmentValue
from broker_runtime.slicing.steps import at_once

A, B = UUID(int=1), UUID(int=2)
STABLE, UNREVOKED, UNRELEASED = MemberState


def member(state: MemberState, epoch: int, assigned: Assignment, pending: Assignment | None = None) -> ConsumerMember:
    current = ConsumerGroupCurrentMemberAssignmentValue(epoch, epoch - 1, state, assigned, pending or {})
    return ConsumerMember("m", current=current)


def goal(epoch: int, target: Assignment, taken: Assignment | None = None, unsubscribed: UUID | None = None) -> Goal:
    others = taken or {}
    return Goal(
        epoch,
        target,
        lambda topic: topic != unsubscribed,
        lambda topic, indexes: [index for index in indexes if index not in others.get(topic, ())],
    )


def step(
    before: ConsumerMember, towards: Goal, owned: Assignment | None = None, subscription_changed: bool = False
) -> tuple[MemberState, int, Assignment, Assignment]:
    current = at_once(reconcile(before, towards, owned, subscription_changed)).current
    state = MemberState(current.state)
    return state, current.member_epoch, current.assigned_partitions, current.partitions_pending_revocation


def test_a_stable_member_in_the_targets_epoch_stays_the_object_that_it_is() -> None:
    before = member(STABLE, 4, {A: (0, 1)})
    assert at_once(reconcile(before, goal(4, {B: (0,)}), None, subscription_changed=False)) is before


def test_free_partitions_are_taken_at_once() -> None:
    assert step(member(STABLE, 4, {A: (0,)}), goal(5, {A: (0, 1), B: (2,)})) == (STABLE, 5, {A: (0, 1), B: (2,)}, {})


def test_partitions_that_others_own_are_waited_for_in_the_targets_epoch() -> None:
    waiting = step(member(STABLE, 4, {A: (0,)}), goal(5, {A: (0, 1, 2)}, taken={A: (1,)}))
    assert waiting == (UNRELEASED, 5, {A: (0, 2)}, {})
    before = member(UNRELEASED, 5, {A: (0, 2)})
    assert step(before, goal(5, {A: (0, 1, 2)}, taken={A: (1,)}))[:3] == (UNRELEASED, 5, {A: (0, 2)})
    assert step(before, goal(5, {A: (0, 1, 2)})) == (STABLE, 5, {A: (0, 1, 2)}, {})


def test_a_revoking_member_keeps_its_epoch_and_gets_no_new_partitions() -> None:
    before = member(STABLE, 4, {A: (0, 1)})
    assert step(before, goal(5, {A: (0, 3)})) == (UNREVOKED, 4, {A: (0,)}, {A: (1,)})
    assert step(before, goal(5, {A: (0, 3)}), owned={A: (0, 1)}) == (UNREVOKED, 4, {A: (0,)}, {A: (1,)})


def test_a_member_that_already_released_the_partitions_advances_at_once() -> None:
    assert step(member(STABLE, 4, {A: (0, 1)}), goal(5, {A: (0, 3)}), owned={A: (0,)}) == (STABLE, 5, {A: (0, 3)}, {})


def test_giving_up_ends_when_the_member_says_that_it_owns_the_rest_only() -> None:
    before = member(UNREVOKED, 4, {A: (0,)}, {A: (1,)})
    assert at_once(reconcile(before, goal(5, {A: (0,)}), None, subscription_changed=False)) is before
    assert at_once(reconcile(before, goal(5, {A: (0,)}), {A: (0, 1)}, subscription_changed=False)) is before
    assert step(before, goal(6, {A: (0,), B: (1,)}), owned={A: (0,)}) == (STABLE, 6, {A: (0,), B: (1,)}, {})


def test_giving_up_goes_on_where_a_later_target_takes_more() -> None:
    before = member(UNREVOKED, 4, {A: (0, 2)}, {A: (1,)})
    assert step(before, goal(6, {A: (0,)}), owned={A: (0, 2)}) == (UNREVOKED, 4, {A: (0,)}, {A: (2,)})


def test_partitions_that_a_member_just_revoked_are_free_for_it() -> None:
    before = member(UNREVOKED, 4, {A: (0,)}, {A: (1,)})
    assert step(before, goal(6, {A: (0, 1)}, taken={A: (1,)}), owned={A: (0,)}) == (STABLE, 6, {A: (0, 1)}, {})


def test_partitions_of_an_unsubscribed_topic_are_neither_assigned_nor_kept() -> None:
    before = member(STABLE, 4, {A: (0,), B: (0,)})
    assert step(before, goal(5, {A: (0,), B: (0, 1)}, unsubscribed=B)) == (UNREVOKED, 4, {A: (0,)}, {B: (0,)})
    assert step(before, goal(4, {A: (0,), B: (0,)}, unsubscribed=B), subscription_changed=True) == (
        UNREVOKED,
        4,
        {A: (0,)},
        {B: (0,)},
    )


def test_a_revoking_member_revokes_more_when_it_unsubscribes() -> None:
    before = member(UNREVOKED, 4, {A: (0,), B: (0,)}, {A: (1,)})
    changed = step(before, goal(5, {A: (0,)}, unsubscribed=B), owned={A: (0, 1), B: (0,)}, subscription_changed=True)
    assert changed == (UNREVOKED, 4, {A: (0,)}, {A: (1,), B: (0,)})


def test_unsubscribed_partitions_that_are_not_owned_are_dropped_without_revocation() -> None:
    before = member(STABLE, 4, {A: (0,), B: (0,)})
    changed = step(before, goal(4, {}, unsubscribed=B), owned={A: (0,)}, subscription_changed=True)
    assert changed == (STABLE, 4, {A: (0,)}, {})


def test_the_previous_epoch_is_the_one_that_the_member_was_in() -> None:
    moved = at_once(reconcile(member(STABLE, 4, {}), goal(9, {A: (0,)}), None, subscription_changed=False))
    assert (moved.current.previous_member_epoch, moved.epoch) == (4, 9)
