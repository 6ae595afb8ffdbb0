"""A member's next step towards its target assignment. Pure.

A partition moves from one member to another in three steps. The first member gets the request to revoke it and keeps
its epoch (UNREVOKED_PARTITIONS). It then reports owned partitions without it. Only now the second member gets it, which
has waited in the epoch of the target (UNRELEASED_PARTITIONS).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from broker_runtime.groups.consumer.state.member import NOTHING, TOPICS_OF_A_STEP, ConsumerMember, MemberState
from broker_runtime.groups.records import Assignment
from broker_runtime.slicing.steps import Steps, chosen


@dataclass(frozen=True, slots=True)
class Goal:
    """The target of one member, and the partitions that it may take."""

    epoch: int
    """The epoch of the target assignment."""
    target: Assignment
    is_subscribed: Callable[[UUID], bool]
    """A function that returns whether the member subscribes to the topic.

    The member gives up other topics and never gets them, whatever the target contains.
    """
    free: Callable[[UUID, Sequence[int]], Sequence[int]]
    """A function that returns those of a topic's partitions that no member owns."""


def reconcile(
    member: ConsumerMember, goal: Goal, owned: Assignment | None, subscription_changed: bool
) -> Steps[ConsumerMember]:
    """Return the member after its next step of reconciliation; the same object if no step is possible.

    `owned` has the partitions that the member reports as owned.
    """
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
        # The assignment and the target share one object, because a group has thousands of them.
        return (yield from _moved(member, MemberState.STABLE, goal.epoch, goal.target, NOTHING))
    for number, (topic, partitions) in enumerate(gained.items(), 1):
        assigned[topic] = tuple(sorted((*assigned.get(topic, ()), *partitions)))
        if number % TOPICS_OF_A_STEP == 0:
            yield
    state = MemberState.UNRELEASED_PARTITIONS if unreleased else MemberState.STABLE
    return (yield from _moved(member, state, goal.epoch, assigned, NOTHING))


def _without_unsubscribed(member: ConsumerMember, goal: Goal, owned: Assignment | None) -> Steps[ConsumerMember]:
    """Revoke the topics that the member has unsubscribed from, if it cannot take another step."""
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
    """Return the partitions in `some` that are not in `others`."""
    if not others:
        return some
    left_out = set(others)
    return [partition for partition in some if partition not in left_out]


def _put(into: dict[UUID, tuple[int, ...]], topic: UUID, partitions: Sequence[int]) -> None:
    if partitions:
        into[topic] = tuple(partitions)


def _owns_any(owned: Assignment | None, partitions: Assignment) -> Steps[bool]:
    """Whether the member owns any of the partitions.

    A member that has not reported its partitions may own all of them.
    """
    if owned is None:
        return True
    for number, (topic, held) in enumerate(owned.items(), 1):
        some = partitions.get(topic)
        if some and not set(some).isdisjoint(held):
            return True
        if number % TOPICS_OF_A_STEP == 0:
            yield
    return False
