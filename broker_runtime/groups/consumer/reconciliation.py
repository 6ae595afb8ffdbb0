"""A member's next step towards its target assignment. Pure.

A partition goes from one member to another in three steps: the first is told to give it up and keeps its epoch
(UNREVOKED_PARTITIONS), says by what it owns that it has done so, and only then the other, which waited in the epoch of
the target (UNRELEASED_PARTITIONS), is given it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.groups.consumer.member import NOTHING, TOPICS_OF_A_STEP, ConsumerMember, MemberState
from broker_runtime.groups.records import Assignment
from broker_runtime.steps import Steps, chosen


@dataclass(frozen=True, slots=True)
class Goal:
    """What one member is to reach, and what it may take on its way there."""

    epoch: int
    """Of the target assignment."""
    target: Assignment
    is_subscribed: Callable[[UUID], bool]
    """A member never gets, and gives up, what it does not ask for any more, whatever the target says."""
    free: Callable[[UUID, Sequence[int]], Sequence[int]]
    """Those of a topic's partitions that nobody else owns."""


def reconcile(
    member: ConsumerMember, goal: Goal, owned: Assignment | None, subscription_changed: bool
) -> Steps[ConsumerMember]:
    """The member as it is now; the same object where it can take no step. `owned` is what it says it owns."""
    current = member.current
    waits = current.state == MemberState.STABLE and member.epoch == goal.epoch
    if not waits and current.state == MemberState.UNREVOKED_PARTITIONS:
        waits = yield from _owns_any(owned, current.partitions_pending_revocation)
    if not waits:
        return (yield from _towards(member, goal, owned))
    return (yield from _without_unsubscribed(member, goal, owned)) if subscription_changed else member


def _towards(member: ConsumerMember, goal: Goal, owned: Assignment | None) -> Steps[ConsumerMember]:
    had, own_pending = member.current.assigned_partitions, member.current.partitions_pending_revocation
    assigned: dict[UUID, tuple[int, ...]] = {}
    revoked: dict[UUID, tuple[int, ...]] = {}
    gained: dict[UUID, tuple[int, ...]] = {}
    unreleased = left_out = False
    for number, topic in enumerate({**had, **goal.target}, 1):
        if number % TOPICS_OF_A_STEP == 0:
            yield
        before, wanted = had.get(topic, ()), goal.target.get(topic, ())
        target = wanted if goal.is_subscribed(topic) else ()
        left_out = left_out or target is not wanted
        if before == target:
            _put(assigned, topic, before)
            continue
        _put(assigned, topic, _both(before, target))
        _put(revoked, topic, without(before, target))
        missing = without(target, before)
        free = goal.free(topic, missing)
        if topic in own_pending:
            may_take = {*free, *own_pending[topic]}
            free = [partition for partition in missing if partition in may_take]
        unreleased = unreleased or len(free) < len(missing)
        _put(gained, topic, free)
    if revoked and (yield from _owns_any(owned, revoked)):
        return (yield from _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, assigned, revoked))
    if not unreleased and not left_out:
        # One object for both: a group has thousands of them.
        return (yield from _moved(member, MemberState.STABLE, goal.epoch, goal.target, NOTHING))
    for number, (topic, partitions) in enumerate(gained.items(), 1):
        assigned[topic] = tuple(sorted((*assigned.get(topic, ()), *partitions)))
        if number % TOPICS_OF_A_STEP == 0:
            yield
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return (yield from _moved(member, state, goal.epoch, assigned, NOTHING))


def _without_unsubscribed(member: ConsumerMember, goal: Goal, owned: Assignment | None) -> Steps[ConsumerMember]:
    """Where the member may not go on: it gives up at once what it no longer asks for."""
    had = member.current.assigned_partitions
    kept = dict((yield from chosen(had.items(), lambda item: goal.is_subscribed(item[0]))))
    if len(kept) == len(had):
        return member
    revoked = dict(member.current.partitions_pending_revocation)
    for number, (topic, partitions) in enumerate(had.items(), 1):
        if topic not in kept:
            revoked[topic] = tuple(sorted({*revoked.get(topic, ()), *partitions}))
        if number % TOPICS_OF_A_STEP == 0:
            yield
    if (yield from _owns_any(owned, revoked)):
        return (yield from _moved(member, MemberState.UNREVOKED_PARTITIONS, member.epoch, kept, revoked))
    state = MemberState(member.current.state)
    return (yield from _moved(member, state, member.epoch, kept, member.current.partitions_pending_revocation))


def _moved(
    member: ConsumerMember, state: MemberState, epoch: int, assigned: Assignment, pending: Assignment
) -> Steps[ConsumerMember]:
    moved = yield from member.moved(state, epoch, assigned, pending)
    yield
    return member if moved == member else moved


def _both(some: tuple[int, ...], others: tuple[int, ...]) -> list[int]:
    also = set(others)
    return [partition for partition in some if partition in also]


def without(some: tuple[int, ...], others: tuple[int, ...]) -> Sequence[int]:
    """The partitions in `some` that are not in `others`."""
    if not others:
        return some
    left_out = set(others)
    return [partition for partition in some if partition not in left_out]


def _put(into: dict[UUID, tuple[int, ...]], topic: UUID, partitions: Sequence[int]) -> None:
    if partitions:
        into[topic] = tuple(partitions)


def _owns_any(owned: Assignment | None, partitions: Assignment) -> Steps[bool]:
    """A member that has not said what it owns may own them all."""
    if owned is None:
        return True
    for number, (topic, held) in enumerate(owned.items(), 1):
        some = partitions.get(topic)
        if some and not set(some).isdisjoint(held):
            return True
        if number % TOPICS_OF_A_STEP == 0:
            yield
    return False
