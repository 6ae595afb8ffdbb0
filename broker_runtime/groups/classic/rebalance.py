"""The way of a group to its next generation: gathering joins, timeouts, and the end of each wait. Pure.

Each function changes the soft state of a group and returns the records to write.
"""

from collections.abc import Sequence
from functools import partial

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.answers import DeferredAnswer
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.classic.member import Member
from broker_runtime.groups.classic.portions import in_portions
from broker_runtime.groups.classic.reading import read_topics
from broker_runtime.groups.classic.requests import NO_ID, JoinAnswer, JoinedMember, SyncAnswer
from broker_runtime.groups.classic.states import ClassicState
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import CONSUMER
from broker_runtime.groups.records import GroupRecord
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps, at_once, each

Records = Sequence[GroupRecord]
NOTHING: Records = ()

NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000
"""Limit of the time that a new member waits for its first answer, in milliseconds, as in Kafka.

The member cannot send heartbeats meanwhile. Without the limit, each rebalance would wait for a client that has
disconnected.
"""


def prepare_or_complete(group: ClassicGroup, environment: GroupEnvironment) -> Records:
    """Start a rebalance, or complete the current rebalance if possible.

    Called after a member has joined, left or changed its subscription.
    """
    if group.state is ClassicState.PREPARING_REBALANCE:
        return complete_when_all_joined(group, environment)
    return prepare(group, environment)


def prepare(group: ClassicGroup, environment: GroupEnvironment) -> Records:
    """Start a rebalance: all members have to join again.

    The first rebalance of an empty group waits for members that start at the same time.
    """
    fail_pending_syncs(group, environment, ErrorCode.REBALANCE_IN_PROGRESS)
    if group.state is ClassicState.COMPLETING_REBALANCE:
        for member in group.members.by_id.values():
            member.assignment = b""
    group.members.pending_sync.clear()
    environment.timers.cancel(_sync_key(group))
    initial = group.state is ClassicState.EMPTY
    group.enter(ClassicState.PREPARING_REBALANCE, environment.now_ms())
    if initial:
        delay_ms = environment.config.group_initial_rebalance_delay_ms
        left_ms = max(group.members.rebalance_timeout_ms - delay_ms, 0)
        _wait_for_newcomers(group, environment, delay_ms, left_ms)
        return NOTHING
    if group.members.all_joined:
        return complete(group, environment)
    _wait_for_joins(group, environment)
    return NOTHING


def resume(group: ClassicGroup, environment: GroupEnvironment) -> Records:
    """Continue the rebalance of a group that was loaded in PreparingRebalance.

    Complete it if all members have joined, otherwise start its timeout.
    """
    if group.members.all_joined:
        return complete(group, environment)
    _wait_for_joins(group, environment)
    return NOTHING


def complete_when_all_joined(group: ClassicGroup, environment: GroupEnvironment) -> Records:
    """Complete the rebalance if all members have joined. An initial rebalance waits for its delay in any case."""
    initial = group.previous_state is ClassicState.EMPTY
    if group.state is not ClassicState.PREPARING_REBALANCE or initial or not group.members.all_joined:
        return NOTHING
    return complete(group, environment)


def complete(group: ClassicGroup, environment: GroupEnvironment) -> Records:
    """Complete the rebalance with the members that have joined and with static members.

    Without members the group becomes empty. The next decision, before any other request, completes a large group in
    steps.
    """
    environment.timers.cancel(_join_key(group))
    if not group.members.are_many:
        return at_once(_completed(group, environment))
    environment.timers.continue_with((group.group_id, "complete"), partial(_complete_in_steps, group, environment))
    return NOTHING


def _complete_in_steps(
    group: ClassicGroup, environment: GroupEnvironment, state: GroupsState
) -> Steps[tuple[Records, None]]:
    if not _is_waiting(group, state):
        return NOTHING, None
    return (yield from _completed(group, environment)), None


def _completed(group: ClassicGroup, environment: GroupEnvironment) -> Steps[Records]:
    members = group.members
    if members.joining < len(members):
        yield from _remove_all(group, environment, [each for each in members.not_rejoined() if not each.is_static])
    if members.by_id and not _elect_leader(group):
        _wait_for_joins(group, environment)
        return NOTHING
    protocol = (yield from members.elected_protocol()) if members.by_id else None
    joined_ones = yield from joined_members(group, protocol or "")
    group.generation += 1
    if not members.by_id:
        group.leader = group.protocol = None
        group.topics = frozenset() if group.protocol_type == CONSUMER else None
        group.enter(ClassicState.EMPTY, environment.now_ms())
        return [group.record((), environment.now_ms())]
    group.protocol = protocol
    group.enter(ClassicState.COMPLETING_REBALANCE, environment.now_ms())
    members.pending_sync.update(members.by_id)
    environment.timers.schedule(
        _sync_key(group),
        members.rebalance_timeout_ms / 1000,
        partial(_syncs_are_due, group, group.generation, environment),
    )
    _answer_joins(group, environment, joined_ones)
    return NOTHING


def _remove_all(group: ClassicGroup, environment: GroupEnvironment, gone: Sequence[Member]) -> Steps[None]:
    yield from each(gone, partial(remove, group, environment))


def fence(group: ClassicGroup, environment: GroupEnvironment, member: Member) -> None:
    """Remove a static member's old instance because a new instance takes its place.

    Pending requests get FENCED_INSTANCE_ID.
    """
    _remove(group, environment, member, ErrorCode.FENCED_INSTANCE_ID, member.member_id)


def remove(group: ClassicGroup, environment: GroupEnvironment, member: Member) -> None:
    """Remove a member from a classic group.

    Its pending requests get UNKNOWN_MEMBER_ID. The caller decides what follows for the other members.
    """
    _remove(group, environment, member, ErrorCode.UNKNOWN_MEMBER_ID, NO_ID)


def _remove(group: ClassicGroup, environment: GroupEnvironment, member: Member, error: ErrorCode, told_id: str) -> None:
    if member.join is not None:
        environment.outbox.send(member.join, JoinAnswer(error, told_id))
    if member.sync is not None:
        environment.outbox.send(member.sync, SyncAnswer(error))
    environment.timers.cancel(_session_key(group, member.member_id))
    group.members.remove(member)
    if group.leader == member.member_id:
        group.leader = next(iter(group.members.by_id), None)


def add_pending(group: ClassicGroup, environment: GroupEnvironment, member_id: str, timeout_ms: int) -> None:
    """Remember an id that was given to a client, until the client joins with it or the time is over (KIP-394)."""
    group.members.pending_ids[member_id] = None
    environment.timers.schedule(
        _pending_key(group, member_id), timeout_ms / 1000, partial(_session_ends, group, member_id, environment)
    )


def remove_pending(group: ClassicGroup, environment: GroupEnvironment, member_id: str) -> None:
    del group.members.pending_ids[member_id]
    environment.timers.cancel(_pending_key(group, member_id))


def forget(group: ClassicGroup, environment: GroupEnvironment) -> None:
    """Cancel the timers of a group that has ended.

    The group has no members, or it was upgraded to KIP-848 with the same members.
    """
    environment.timers.cancel(_join_key(group))
    environment.timers.cancel(_sync_key(group))
    pending = list(group.members.pending_ids)
    # Nothing else removes a pending id of a group that has ended. Its client may have joined the next group of this
    # name, where the timer of its session has another key.
    in_portions(group.group_id, environment, pending, partial(remove_pending, group, environment))


def renew_session(group: ClassicGroup, environment: GroupEnvironment, member_id: str, timeout_ms: int) -> None:
    """Begin the session of a member again."""
    environment.timers.schedule(
        _session_key(group, member_id), timeout_ms / 1000, partial(_session_ends, group, member_id, environment)
    )


def has_synced(group: ClassicGroup, environment: GroupEnvironment, member_id: str) -> None:
    """Record that the member has sent its SyncGroup, so that the group no longer waits for it."""
    pending = group.members.pending_sync
    if member_id in pending:
        pending.remove(member_id)
        if not pending:
            environment.timers.cancel(_sync_key(group))


def fail_pending_syncs(group: ClassicGroup, environment: GroupEnvironment, error: ErrorCode) -> None:
    """Answer all pending SyncGroup requests with an error: this generation gets no assignment."""
    waiting = [(member, member.sync) for member in group.members.syncing.values()]
    for member, _ in waiting:
        member.sync = None
    group.members.syncing.clear()
    answer = SyncAnswer(error)

    def answer_member(waited: tuple[Member, DeferredAnswer[SyncAnswer] | None]) -> None:
        member, later = waited
        assert later is not None
        environment.outbox.send(later, answer)
        if group.members.by_id.get(member.member_id) is member:
            renew_session(group, environment, member.member_id, member.session_timeout_ms)

    in_portions(group.group_id, environment, waiting, answer_member)


def joined_members(group: ClassicGroup, protocol: str) -> Steps[tuple[JoinedMember, ...]]:
    """Return the descriptions of all members for the leader, in steps."""

    def described(member: Member) -> JoinedMember:
        return JoinedMember(member.member_id, member.group_instance_id, member.metadata(protocol))

    return tuple((yield from each(group.members.by_id.values(), described)))


def joined_again(group: ClassicGroup, member: Member) -> Steps[JoinAnswer]:
    """Return the answer for a member of this generation that repeats its JoinGroup."""
    leads = group.leader == member.member_id
    return _joined(group, member, (yield from joined_members(group, group.protocol or "")) if leads else ())


def _joined(group: ClassicGroup, member: Member, members: tuple[JoinedMember, ...]) -> JoinAnswer:
    return JoinAnswer(
        ErrorCode.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader or NO_ID,
        members=members,
    )


def _answer_joins(group: ClassicGroup, environment: GroupEnvironment, joined_ones: tuple[JoinedMember, ...]) -> None:
    """Answer all pending JoinGroup requests, the leader's first because all others need its assignment.

    If the next rebalance starts meanwhile, a member without an answer takes part in it with its pending JoinGroup.
    """
    generation = group.generation
    leader = group.members.by_id[group.leader or NO_ID]
    group.topics = None

    def answer_member(member: Member) -> None:
        if group.generation != generation or group.members.by_id.get(member.member_id) is not member:
            return
        if group.state is ClassicState.PREPARING_REBALANCE:
            return
        renew_session(group, environment, member.member_id, member.session_timeout_ms)
        if member.join is not None:
            environment.outbox.send(member.join, _joined(group, member, joined_ones if member is leader else ()))
            group.members.wait_for_join(member, None)
            member.is_new = False

    def last() -> Records:
        if group.generation == generation:
            read_topics(group, environment, (each.metadata for each in joined_ones))
        return NOTHING

    others = (member for member in list(group.members.by_id.values()) if member is not leader)
    answer_member(leader)
    in_portions(group.group_id, environment, others, answer_member, last)


def _elect_leader(group: ClassicGroup) -> bool:
    """Keep the leader if it has joined, otherwise elect a member that has. Returns False if no member has joined."""
    leader = group.members.by_id.get(group.leader or NO_ID)
    if leader is not None and leader.join is not None:
        return True
    for member in group.members.by_id.values():
        if member.join is not None:
            group.leader = member.member_id
            return True
    return False


def _wait_for_joins(group: ClassicGroup, environment: GroupEnvironment) -> None:
    environment.timers.schedule(
        _join_key(group), group.members.rebalance_timeout_ms / 1000, partial(_joins_are_due, group, environment)
    )


def _wait_for_newcomers(group: ClassicGroup, environment: GroupEnvironment, delay_ms: int, left_ms: int) -> None:
    """Wait for more members in an initial rebalance.

    Each new member extends the wait by another delay, up to the longest rebalance timeout in total.
    """
    group.newcomer = False
    environment.timers.schedule(
        _join_key(group), delay_ms / 1000, partial(_newcomers_are_due, group, environment, delay_ms, left_ms)
    )


def _newcomers_are_due(
    group: ClassicGroup, environment: GroupEnvironment, delay_ms: int, left_ms: int, state: GroupsState
) -> tuple[Records, None]:
    if not group.newcomer or not left_ms:
        return _joins_are_due(group, environment, state)
    if _is_waiting(group, state):
        next_ms = min(environment.config.group_initial_rebalance_delay_ms, left_ms)
        _wait_for_newcomers(group, environment, next_ms, max(left_ms - delay_ms, 0))
    return NOTHING, None


def _joins_are_due(group: ClassicGroup, environment: GroupEnvironment, state: GroupsState) -> tuple[Records, None]:
    return (complete(group, environment) if _is_waiting(group, state) else NOTHING), None


def _is_waiting(group: ClassicGroup, state: GroupsState) -> bool:
    return state.groups.get(group.group_id) is group and group.state is ClassicState.PREPARING_REBALANCE


def _syncs_are_due(
    group: ClassicGroup, generation: int, environment: GroupEnvironment, state: GroupsState
) -> Steps[tuple[Records, None]]:
    """Remove the members that have joined but not sent a SyncGroup in time."""
    over = group.state not in (ClassicState.COMPLETING_REBALANCE, ClassicState.STABLE)
    if state.groups.get(group.group_id) is not group or group.generation != generation or over:
        return NOTHING, None
    members = group.members
    if not members.pending_sync:
        return NOTHING, None
    gone = [members.by_id[member_id] for member_id in members.pending_sync]
    yield from _remove_all(group, environment, gone)
    return prepare(group, environment), None


def _session_ends(
    group: ClassicGroup, member_id: str, environment: GroupEnvironment, state: GroupsState
) -> tuple[Records, None]:
    if state.groups.get(group.group_id) is not group:
        return NOTHING, None
    member = group.members.by_id.get(member_id)
    if member_id in group.members.pending_ids:
        remove_pending(group, environment, member_id)
    elif member is None or member.needs_no_heartbeat:
        return NOTHING, None
    else:
        remove(group, environment, member)
        if group.state is not ClassicState.PREPARING_REBALANCE:
            return prepare(group, environment), None
    waits = group.state is ClassicState.PREPARING_REBALANCE
    return (complete(group, environment) if waits and group.members.all_joined else NOTHING), None


def _session_key(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return group.group_id, "session", member_id


def _pending_key(group: ClassicGroup, member_id: str) -> tuple[str, str, str]:
    return group.group_id, "pending", member_id


def _join_key(group: ClassicGroup) -> tuple[str, str]:
    return group.group_id, "join"


def _sync_key(group: ClassicGroup) -> tuple[str, str]:
    return group.group_id, "sync"
