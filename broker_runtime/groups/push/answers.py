"""The answers of consumers to the coordinator's calls. Pure.

The coordinator does not reply to an answer. It removes the consumer and closes the connection if the answer has an
error, does not belong to a call, or does not fit the registration. The consumer may then register again.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple
from uuid import UUID

from broker_runtime.errors import ErrorCode
from broker_runtime.groups.push.offsets import Consumed, beyond_ends, note, questions, uncommitted
from broker_runtime.groups.push.rebalance import answered, fail
from broker_runtime.groups.push.state.calls import HangUp, PushEnvironment
from broker_runtime.groups.push.state.decided import NOTHING, Decided
from broker_runtime.groups.push.state.group import PushGroup, find_push_group, member_on
from broker_runtime.groups.push.state.log_ends import Ends, Partition, with_ends
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.push.state.states import PushState
from broker_runtime.groups.state import GroupsState
from broker_runtime.groups.tally import Loss

log = logging.getLogger(__name__)

_TAKEN = "taken"


class Answer(NamedTuple):
    """An answer of the consumer that is registered on `connection`. `offsets` is None if the answer has none."""

    group_id: str
    consumer_id: str
    connection: int
    error_code: int
    offsets: Sequence[Consumed] | None = None


def ping_answered(state: GroupsState, environment: PushEnvironment, answer: Answer) -> Decided:
    found = _find(state, environment, answer)
    if found is None:
        return NOTHING
    group, member = found
    problem = _problem(answer, member.pings_unanswered) or _offsets_problem(answer, member)
    if problem is not None:
        return fail(state, environment, group, (member.consumer_id,), Loss.WRONG, problem), None
    member.pings_unanswered -= 1
    note(member, answer.offsets or ())
    member.pings_since_commit += 1
    interval_ms = environment.config.sluicegate_group_push_offsets_commit_interval_ms
    if member.pings_since_commit * member.ping_interval_s * 1000 < interval_ms:
        return NOTHING
    member.pings_since_commit = 0
    asked = questions(state, environment, group, (member,))
    commit = partial(_commit, environment, group, member, member.offsets_sent)
    return with_ends(environment.ends, asked, commit, state)


def _commit(
    environment: PushEnvironment,
    group: PushGroup,
    member: PushMember,
    offsets_sent: int,
    ends: Ends,
    state: GroupsState,
) -> Decided:
    """Commit the offsets of a ping's answer. A consumer that sends offsets beyond the ends of logs twice has failed.

    The first time may be its last answer before it learns that records were lost. `offsets_sent` is the member's count
    when the ends were asked for: if it has sent more offsets since, logs may have grown before that.
    """
    if not _is_there(state, group, member):
        return NOTHING
    if member.offsets_sent != offsets_sent:
        return uncommitted(state, environment, group, (member,), ends), None
    beyond = beyond_ends(state, environment, group, member, ends)
    before, member.beyond = member.beyond, frozenset(beyond)
    if beyond:
        at = min(before & beyond.keys() or beyond)
        why = (
            f"{ErrorCode.OFFSET_OUT_OF_RANGE.name}: it sent offset {beyond[at]} of {at[0]}-{at[1]}, whose log ends at "
        )
        why += str(ends[at].offset)
        if at in before:
            return fail(state, environment, group, (member.consumer_id,), Loss.WRONG, why, ends), None
        log.warning("group %.100r, consumer %.100r: the offset is not committed: %s", *_names(group, member), why)
    return uncommitted(state, environment, group, (member,), ends), None


def _names(group: PushGroup, member: PushMember) -> tuple[str, str]:
    return group.group_id, member.consumer_id


def _is_there(state: GroupsState, group: PushGroup, member: PushMember) -> bool:
    """Whether the consumer is still registered. It may have left while other leaders were asked."""
    return find_push_group(state, group.group_id) is group and group.members.get(member.consumer_id) is member


def stop_answered(state: GroupsState, environment: PushEnvironment, answer: Answer) -> Decided:
    """Record that the consumer's fetchers have stopped.

    The offsets are committed before another consumer reads the partitions.
    """
    found = _find(state, environment, answer)
    if found is None:
        return NOTHING
    group, member = found
    problem = _problem(answer, member.stops_unanswered) or _offsets_problem(answer, member)
    if problem is not None:
        return fail(state, environment, group, (member.consumer_id,), Loss.WRONG, problem), None
    member.stops_unanswered -= 1
    note(member, answer.offsets or ())
    if not member.stops_unanswered:
        member.fetching = False
    asked = questions(state, environment, group, (member,))
    return with_ends(environment.ends, asked, partial(_stopped, environment, group, member, group.step), state)


def _stopped(
    environment: PushEnvironment, group: PushGroup, member: PushMember, step: int, ends: Ends, state: GroupsState
) -> Decided:
    """Commit the offsets of a consumer that has stopped.

    `step` is that of its group when it answered. If the group is in a later step, it has committed the offsets already.
    """
    if not _is_there(state, group, member) or group.step != step:
        return NOTHING
    if not member.stops_unanswered and group.state is PushState.STOPPING:
        answered(group, environment, member)
    records = uncommitted(state, environment, group, (member,), ends)
    if records:
        taken = partial(_taken, member, member.assigned)
        environment.timers.continue_with((group.group_id, _TAKEN, member.consumer_id), taken)
    else:
        member.consumed = {}
    return records, None


def _taken(member: PushMember, assigned: Mapping[Partition, UUID], state: GroupsState) -> Decided:
    """Forget the offsets of the consumer, because the log has them: none is left to commit before others start."""
    if member.assigned is assigned:
        member.consumed = {}
    return NOTHING


def start_answered(state: GroupsState, environment: PushEnvironment, answer: Answer) -> Decided:
    found = _find(state, environment, answer)
    if found is None:
        return NOTHING
    group, member = found
    problem = _problem(answer, member.starts_unanswered)
    if problem is not None:
        return fail(state, environment, group, (member.consumer_id,), Loss.WRONG, problem), None
    member.starts_unanswered -= 1
    if not member.starts_unanswered and group.state is PushState.STARTING:
        answered(group, environment, member)
    return NOTHING


def connection_ended(
    state: GroupsState, environment: PushEnvironment, group_id: str, consumer_id: str, connection: int
) -> Decided:
    """Remove the consumer after its connection has ended: the consumer closed it, or the connection broke."""
    group = find_push_group(state, group_id)
    member = member_on(group, consumer_id, connection)
    if group is None or member is None:
        return NOTHING
    asked = questions(state, environment, group, (member,))
    return with_ends(environment.ends, asked, partial(_leave, environment, group, member), state)


def _leave(
    environment: PushEnvironment, group: PushGroup, member: PushMember, ends: Ends, state: GroupsState
) -> Decided:
    if not _is_there(state, group, member):
        return NOTHING
    return fail(state, environment, group, (member.consumer_id,), Loss.CLOSED, "its connection has ended", ends), None


def _find(state: GroupsState, environment: PushEnvironment, answer: Answer) -> tuple[PushGroup, PushMember] | None:
    group = find_push_group(state, answer.group_id)
    member = member_on(group, answer.consumer_id, answer.connection)
    if group is None or member is None:
        why = f"consumer {answer.consumer_id[:100]!r} is not registered on this connection"
        environment.calls.send(answer.connection, HangUp(why))
        return None
    return group, member


def _problem(answer: Answer, unanswered: int) -> str | None:
    if not unanswered:
        return "it sent a response without a call"
    return f"it returned error {answer.error_code}" if answer.error_code else None


def _offsets_problem(answer: Answer, member: PushMember) -> str | None:
    if (answer.offsets is not None) is member.value.auto_commit:
        return None
    return f"its response has {'no ' if member.value.auto_commit else ''}offsets, which contradicts its registration"
