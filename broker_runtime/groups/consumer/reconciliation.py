"""A member's next step towards its target assignment. Pure.

A partition goes from one member to another in three steps: the first is told to give it up and keeps its epoch
(UNREVOKED_PARTITIONS), says by what it owns that it has done so, and only then the other, which waited in the epoch of
the target (UNRELEASED_PARTITIONS), is given it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.groups.consumer.member import NOTHING, ConsumerMember, MemberState
from broker_runtime.groups.records import Assignment


@dataclass(frozen=True, slots=True)
class Goal:
    """What one member is to reach, and what it may take on its way there."""

    epoch: int
    """Of the target assignment."""
    target: Assignment
    is_subscribed: Callable[[UUID], bool]
    """A member never gets, and gives up, what it does not ask for any more, whatever the target says."""
    is_free: Callable[[UUID, int], bool]
    """Whether nobody else owns the partition."""


def reconcile(
    member: ConsumerMember, goal: Goal, owned: Assignment | None, subscription_changed: bool
) -> ConsumerMember:
    """The member as it is now; the same object where it can take no step. `owned` is what it says it owns."""
    current = member.current
    if current.state == MemberState.STABLE and member.epoch == goal.epoch:
        return _without_unsubscribed(member, goal, owned) if subscription_changed else member
    if current.state == MemberState.UNREVOKED_PARTITIONS and _owns_any(owned, current.partitions_pending_revocation):
        return _without_unsubscribed(member, goal, owned) if subscription_changed else member
    return _towards(member, goal, owned)


def _towards(member: ConsumerMember, goal: Goal, owned: Assignment | None) -> ConsumerMember:
    had, own_pending = member.current.assigned_partitions, member.current.partitions_pending_revocation
    assigned: dict[UUID, tuple[int, ...]] = {}
    revoked: dict[UUID, tuple[int, ...]] = {}
    gained: dict[UUID, tuple[int, ...]] = {}
    unreleased = False
    for topic in {**had, **goal.target}:
        before = had.get(topic, ())
        target = goal.target.get(topic, ()) if goal.is_subscribed(topic) else ()
        if before == target:
            assigned[topic] = before
            continue
        wanted, has = set(target), set(before)
        _put(assigned, topic, [partition for partition in before if partition in wanted])
        _put(revoked, topic, [partition for partition in before if partition not in wanted])
        missing = [partition for partition in target if partition not in has]
        pending = own_pending.get(topic, ())
        free = [partition for partition in missing if partition in pending or goal.is_free(topic, partition)]
        unreleased = unreleased or len(free) < len(missing)
        _put(gained, topic, free)
    assigned = {topic: partitions for topic, partitions in assigned.items() if partitions}
    if revoked and _owns_any(owned, revoked):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoked)
    for topic, partitions in gained.items():
        assigned[topic] = tuple(sorted((*assigned.get(topic, ()), *partitions)))
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    # One object for both: a group has thousands of them.
    return _moved(member, state, goal.epoch, goal.target if assigned == goal.target else assigned, NOTHING)


def _without_unsubscribed(member: ConsumerMember, goal: Goal, owned: Assignment | None) -> ConsumerMember:
    """Where the member may not go on: it gives up at once what it no longer asks for."""
    had = member.current.assigned_partitions
    kept = {topic: partitions for topic, partitions in had.items() if goal.is_subscribed(topic)}
    if len(kept) == len(had):
        return member
    revoked = dict(member.current.partitions_pending_revocation)
    for topic, partitions in had.items():
        if topic not in kept:
            revoked[topic] = tuple(sorted({*revoked.get(topic, ()), *partitions}))
    if _owns_any(owned, revoked):
        return _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, revoked)
    state = MemberState(member.current.state)
    return _moved(member, state, member.epoch, kept, member.current.partitions_pending_revocation)


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Assignment, pending: Assignment
) -> ConsumerMember:
    moved = member.moved(state, epoch, assigned, pending)
    return member if moved == member else moved


def _put(into: dict[UUID, tuple[int, ...]], topic: UUID, partitions: list[int]) -> None:
    if partitions:
        into[topic] = tuple(partitions)


def _owns_any(owned: Assignment | None, partitions: Assignment) -> bool:
    """A member that has not said what it owns may own them all."""
    if owned is None:
        return True
    return any(not set(partitions.get(topic, ())).isdisjoint(held) for topic, held in owned.items())
