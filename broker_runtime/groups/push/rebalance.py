"""The rebalance of a push group: plan, Stop, commit, Start, as in the draft's section 9. Pure.

Each step sends a call to all consumers and waits for their answers, which `answers` reports. A consumer that is known
to have stopped gets no StopFetcher: it has just registered, or has answered one since it was last started. If a
rebalance fails because a consumer leaves, the next one starts immediately, so that both together stop each consumer
once. A consumer that is gone, for whatever reason, is removed by `fail`.
"""

import logging
from collections.abc import Collection, Sequence
from functools import partial

from broker_runtime.groups.environment import GroupTimer
from broker_runtime.groups.push.asking import ask_awaited, call
from broker_runtime.groups.push.checking import check_committed
from broker_runtime.groups.push.leaving import left_by
from broker_runtime.groups.push.offsets import questions, uncommitted
from broker_runtime.groups.push.starting import assigned_by, start_of
from broker_runtime.groups.push.state.calls import HangUp, PushEnvironment, StopFetcher
from broker_runtime.groups.push.state.decided import NOTHING, Decided
from broker_runtime.groups.push.state.group import PushGroup, find_push_group
from broker_runtime.groups.push.state.log_ends import Ends, with_ends
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.push.state.ownership import Plan, plan
from broker_runtime.groups.push.state.states import PushState
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState
from broker_runtime.groups.tally import Loss

log = logging.getLogger(__name__)

_STEP, _GONE = "step", "gone"


def want_rebalance(group: PushGroup, environment: PushEnvironment) -> None:
    """Start a rebalance, because consumers or topics have changed.

    A running rebalance considers the change, or is completed first.
    """
    group.changed = True
    if group.state is PushState.STABLE or (group.state is PushState.GATHERING and not group.missing):
        _begin(group, environment)


def fail(
    state: GroupsState,
    environment: PushEnvironment,
    group: PushGroup,
    consumer_ids: Collection[str],
    loss: Loss,
    why: str,
    ends: Ends | None = None,
) -> Sequence[GroupRecord]:
    """Return the records that remove the consumers once the log has taken them.

    `ends` are the ends of the logs that the consumers have read; by default, those that this broker knows. The
    consumers' timers stay until then: if the log refuses the records, only the timers can remove the consumers later.
    """
    members = [group.members[consumer_id] for consumer_id in sorted(consumer_ids)]
    for member in members:
        log.info("group %.100r loses consumer %.100r: %s", group.group_id, member.consumer_id, why)
        if member.connection is not None:
            environment.calls.send(member.connection, HangUp(why))
    environment.timers.continue_with(
        (group.group_id, _GONE), partial(_gone, environment, group, tuple(consumer_ids), loss)
    )
    if ends is None:
        ends, _ = environment.ends.known_ends(questions(state, environment, group, members))
    return left_by(state, environment, group, members, ends)


def _gone(
    environment: PushEnvironment, group: PushGroup, consumer_ids: Collection[str], loss: Loss, state: GroupsState
) -> Decided:
    """Note that the consumers are gone. The running rebalance fails and the next one starts immediately.

    Fetchers that have stopped are not stopped again.
    """
    environment.tally.losses[loss] += len(consumer_ids)
    for consumer_id in consumer_ids:
        group.awaited.pop(consumer_id, None)
        group.disown(consumer_id)
        group.missing.discard(consumer_id)
        group.late.discard(consumer_id)
    if find_push_group(state, group.group_id) is not group:
        environment.timers.cancel((group.group_id, _STEP))
        return NOTHING
    group.changed = True
    if group.state is PushState.GATHERING:
        want_rebalance(group, environment)
    elif group.state is PushState.STOPPING:
        _begin_attempts(group)
        _continue_when_stopped(group, environment)
    elif group.state is not PushState.PLANNING:
        _begin(group, environment)
    return NOTHING


def _begin_attempts(group: PushGroup) -> None:
    group.attempt = 1
    group.late.clear()


def _begin(group: PushGroup, environment: PushEnvironment) -> None:
    _begin_attempts(group)
    environment.timers.cancel((group.group_id, _STEP))
    _plan(group, environment)


def _plan(group: PushGroup, environment: PushEnvironment) -> None:
    group.state = PushState.PLANNING
    group.changed = group.lost = False
    group.step += 1
    group.awaited.clear()
    group.plan = None
    work = partial(plan, group.snapshot(environment.image))
    environment.offload(work, partial(_planned, environment, group))


def _planned(environment: PushEnvironment, group: PushGroup, result: Plan | Exception) -> GroupTimer:
    def decide(state: GroupsState) -> Decided:
        if find_push_group(state, group.group_id) is not group or group.state is not PushState.PLANNING:
            return NOTHING
        if isinstance(result, Exception):
            log.error("group %.100r: the owners of partitions could not be computed", group.group_id, exc_info=result)
            _back_off(group, environment)
        elif group.lost:
            _plan(group, environment)
        else:
            _take_plan(group, environment, result)
        return NOTHING

    return decide


def _take_plan(group: PushGroup, environment: PushEnvironment, result: Plan) -> None:
    group.plan, group.topics = result, frozenset(result.names.values())
    if result.too_many:
        log.error("group %.100r: %s would own too many partitions, and get none", group.group_id, result.too_many[:3])
    if result.necessity is None:
        group.own(result.ownership)
        _settle(group, environment)
        return
    log.info("group %.100r rebalances: %s", group.group_id, result.necessity.value)
    if group.began_s is None:
        group.began_s = environment.monotonic_s()
    group.own(None)
    group.awaited = dict.fromkeys(each.consumer_id for each in group.members.values() if each.fetching)
    if group.awaited:
        _stop(group, environment)
    else:
        # All have stopped, but the log may have refused offsets that they sent then.
        group.state = PushState.STOPPING
        _continue_when_stopped(group, environment)


def _settle(group: PushGroup, environment: PushEnvironment) -> None:
    group.state, group.plan = PushState.STABLE, None
    if group.changed:
        _begin(group, environment)


def _stop(group: PushGroup, environment: PushEnvironment) -> None:
    group.state = PushState.STOPPING
    group.step += 1

    def ask(member: PushMember) -> None:
        if not member.stops_unanswered or member.overdue:
            member.stops_unanswered += 1
            call(group, environment, member, StopFetcher(member.consumer_id), _when_late(group, environment, member))

    ask_awaited(group, environment, ask)


def answered(group: PushGroup, environment: PushEnvironment, member: PushMember) -> None:
    """Record the consumer's answer that the step waited for. The caller has updated the member's counts."""
    group.awaited.pop(member.consumer_id, None)
    if group.state is PushState.STOPPING:
        _continue_when_stopped(group, environment)
    elif group.state is PushState.STARTING and not group.awaited:
        assert group.plan is not None, "a plan is there from its making to the end of its rebalance"
        group.own(group.plan.ownership)
        log.info("group %.100r has rebalanced: %d consumers", group.group_id, len(group.plan.ownership))
        _count(group, environment)
        _settle(group, environment)


def _count(group: PushGroup, environment: PushEnvironment) -> None:
    assert group.began_s is not None, "what is completed has begun"
    environment.tally.rebalances += 1
    environment.tally.rebalance_s += environment.monotonic_s() - group.began_s
    group.began_s = None


def _continue_when_stopped(group: PushGroup, environment: PushEnvironment) -> None:
    """Continue if all have stopped. A timer does it, because the log may refuse offsets of the last answer.

    The group must not block then.
    """
    if not group.awaited:
        environment.timers.schedule((group.group_id, _STEP), 0.0, partial(_commit, environment, group))


def _commit(environment: PushEnvironment, group: PushGroup, state: GroupsState) -> Decided:
    """Commit the remaining offsets before the next step.

    Offsets were committed with each answer; those that the log refused are tried again here.
    """
    if not _has_stopped(state, group):
        return NOTHING
    asked = questions(state, environment, group, _with_offsets(group))
    return with_ends(environment.ends, asked, partial(_commit_rest, environment, group, group.step), state)


def _has_stopped(state: GroupsState, group: PushGroup) -> bool:
    is_stopping = find_push_group(state, group.group_id) is group and group.state is PushState.STOPPING
    return is_stopping and not group.awaited


def _with_offsets(group: PushGroup) -> Sequence[PushMember]:
    return [each for each in group.members.values() if each.consumed]


def _commit_rest(environment: PushEnvironment, group: PushGroup, step: int, ends: Ends, state: GroupsState) -> Decided:
    if not _has_stopped(state, group) or group.step != step:
        return NOTHING
    records = uncommitted(state, environment, group, _with_offsets(group), ends)
    if records:
        environment.timers.continue_with((group.group_id, _STEP), partial(_commit, environment, group))
    elif group.changed or group.plan is None:
        _plan(group, environment)
    else:
        _check(group, environment, group.plan)
    return records, None


def _check(group: PushGroup, environment: PushEnvironment, planned: Plan) -> None:
    """Check the committed offsets: logs that consumers will read may have lost records since they were committed."""
    group.state = PushState.CHECKING
    group.step += 1
    step = group.step

    def checked(state: GroupsState) -> Decided:
        if group.changed:
            _plan(group, environment)
        else:
            _start(state, group, environment, planned)
        return NOTHING

    def is_wanted(state: GroupsState) -> bool:
        return find_push_group(state, group.group_id) is group and group.step == step

    check_committed(group, environment, planned, is_wanted, checked)


def _start(state: GroupsState, group: PushGroup, environment: PushEnvironment, planned: Plan) -> None:
    """Start the consumers of the plan. Consumers that have registered since wait for the next rebalance."""
    group.state = PushState.STARTING
    group.step += 1
    group.awaited = dict.fromkeys(planned.ownership)

    def ask(member: PushMember) -> None:
        what = start_of(member, planned, state.offsets.of(group.group_id))
        member.fetching = True
        member.consumed = {}
        member.assigned = assigned_by(member, planned)
        member.starts_unanswered += 1
        call(group, environment, member, what, _when_late(group, environment, member))

    ask_awaited(group, environment, ask)


def _when_late(group: PushGroup, environment: PushEnvironment, member: PushMember) -> GroupTimer:
    def decide(state: GroupsState) -> Decided:
        """Make another attempt after two thirds of a session without an answer, or give up after the last one."""
        if find_push_group(state, group.group_id) is not group or group.members.get(member.consumer_id) is not member:
            return NOTHING
        if not member.owes_an_answer:
            return NOTHING
        member.overdue = True
        if member.consumer_id not in group.awaited or group.state not in (PushState.STOPPING, PushState.STARTING):
            return NOTHING
        group.late.add(member.consumer_id)
        retries_max = environment.config.sluicegate_group_push_rebalance_retries_max
        if group.attempt <= retries_max:
            _back_off(group, environment)
            return NOTHING
        never = group.late & group.awaited.keys()
        environment.tally.failed_rebalances += 1
        log.error(
            "ConsumerRebalanceFailed: group %.100r could not rebalance in %d attempts: no response from %d "
            "consumers, for example %.100r; the group continues without them",
            group.group_id,
            group.attempt,
            len(never),
            member.consumer_id,
        )
        why = "it did not respond to a call to stop or start"
        return fail(state, environment, group, never, Loss.STUCK, why), None

    return decide


def _back_off(group: PushGroup, environment: PushEnvironment) -> None:
    group.state = PushState.BACKING_OFF
    backoff_s = environment.config.sluicegate_group_push_rebalance_backoff_ms / 1000
    environment.timers.schedule((group.group_id, _STEP), backoff_s, partial(_retry, environment, group))


def _retry(environment: PushEnvironment, group: PushGroup, state: GroupsState) -> Decided:
    if find_push_group(state, group.group_id) is group and group.state is PushState.BACKING_OFF:
        group.attempt += 1
        _plan(group, environment)
    return NOTHING
