"""Finds the member of a heartbeat: an existing one, a new one, or the next instance of a static one. Pure."""

from functools import partial
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.consumer.fencing import arm_session, removal
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.state.member import NOTHING, STATIC_LEAVE_EPOCH, ConsumerMember
from broker_runtime.groups.consumer.state.validity import ConsumerHeartbeatRequest
from broker_runtime.groups.environment import GroupEnvironment, take_room
from broker_runtime.groups.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    GroupRecord,
)
from broker_runtime.groups.state import GroupsState
from broker_runtime.slicing.steps import Steps


class Speaker(NamedTuple):
    """The sender of a heartbeat: the member, and what the group knows of it."""

    member: ConsumerMember
    """The member before the request; a new one has no partitions yet."""
    registered: ConsumerMember | None
    """The member that the group counts until the decision is applied: the member itself, or the one that it replaces.

    None if there is neither.
    """
    replaced_id: str | None = None
    """The id of a static member's former instance; None if the id is the same."""


def speaker_of(
    group: ConsumerGroup, request: ConsumerHeartbeatRequest, member_id: str, size_max: int, records: list[GroupRecord]
) -> Steps[Speaker]:
    """Find the member that sent the request. Raises KafkaError.

    The records that replace a static member are appended to `records`.
    """
    check_room(group, member_id, size_max)
    if request.instance_id is None:
        known = group.members.get(member_id)
        if known is None and request.is_join:
            return Speaker(ConsumerMember(member_id), None)
        member = group.member(member_id)
    else:
        static = group.static_member(request.instance_id)
        if request.is_join:
            return _static_join(group, static, request, member_id, records)
        member = check_instance(static, request.instance_id, member_id)
    yield from _check_epoch(member, request)
    return Speaker(member, member)


def begin_session(
    state: GroupsState, group: ConsumerGroup, speaker: Speaker, moved: ConsumerMember, environment: GroupEnvironment
) -> None:
    """Start the session timer of the member that sent a heartbeat.

    `moved` is the member with the changes of this decision. An existing member gets a new session at once, even if the
    log refuses the records of the decision: the heartbeat shows that the member is alive. The session of a new member,
    or of the next instance of a static one, starts when the log has taken the records, and never if the log refuses
    them.
    """
    if speaker.registered is speaker.member and state.groups.get(group.group_id) is group:
        arm_session(group.group_id, moved, environment)
    else:
        environment.timers.once_taken(partial(arm_session, group.group_id, moved, environment))


def check_room(group: ConsumerGroup, member_id: str, size_max: int) -> None:
    """Raise KafkaError (GROUP_MAX_SIZE_REACHED) if the group is full and the member is new."""
    if len(group.members) >= size_max and member_id not in group.members:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"The consumer group has reached its maximum capacity of {size_max} members.",
        )


def take_room_if_new(
    environment: GroupEnvironment, group: ConsumerGroup, before: ConsumerMember, after: ConsumerMember
) -> None:
    """Reserve room for a new subscription of the member. Raises KafkaError (GROUP_MAX_SIZE_REACHED)."""
    if after.metadata is not before.metadata:
        take_room(environment, after.size, group.group_id)


def check_instance(static: ConsumerMember | None, instance_id: str, member_id: str) -> ConsumerMember:
    """Return `static`, the member with the instance id, if it has this member id.

    Raises KafkaError (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID).
    """
    if static is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
    if static.member_id != member_id:
        raise KafkaError(
            ErrorCode.FENCED_INSTANCE_ID,
            f"Static member {member_id} with instance id {instance_id} was fenced by member {static.member_id}.",
        )
    return static


def _static_join(
    group: ConsumerGroup,
    static: ConsumerMember | None,
    request: ConsumerHeartbeatRequest,
    member_id: str,
    records: list[GroupRecord],
) -> Speaker:
    """Let a new instance of a static member join.

    It takes over the partitions of an instance that has left temporarily.
    """
    if static is None:
        known = group.members.get(member_id)
        return Speaker(known or ConsumerMember(member_id), known)
    if not static.speaks_classic and static.epoch != STATIC_LEAVE_EPOCH:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"Static member {member_id} with instance id {request.instance_id} cannot join the group because the "
            f"instance id is owned by {static.member_id} member.",
        )
    return replacement(group, static, member_id, records)


def replacement(group: ConsumerGroup, static: ConsumerMember, member_id: str, records: list[GroupRecord]) -> Speaker:
    """Return the next instance of a static member, with the partitions of the last one."""
    member, group_id = static.replaced_by(member_id), group.group_id
    target = ConsumerGroupTargetAssignmentMemberValue(group.target.get(static.member_id, NOTHING))
    records += removal(group_id, static.member_id)
    records.append(GroupRecord(ConsumerGroupMemberMetadataKey(group_id, member_id), member.metadata))
    records.append(GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id, member_id), target))
    records.append(GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id, member_id), member.current))
    return Speaker(member, static, None if static.member_id == member_id else static.member_id)


def _check_epoch(member: ConsumerMember, request: ConsumerHeartbeatRequest) -> Steps[None]:
    """Raise KafkaError (FENCED_MEMBER_EPOCH) if the epoch of the request is wrong.

    A member that missed the answer with its next epoch sends the previous one. It is accepted if the member owns only
    partitions that are assigned to it.
    """
    received, epoch = request.member_epoch, member.epoch
    if request.is_join or received == epoch:
        return
    missed_answer = received < epoch and received == member.current.previous_member_epoch
    if missed_answer and (yield from member.owns_only_assigned(request.owned)):
        return
    word = "greater" if received > epoch else "smaller"
    raise KafkaError(
        ErrorCode.FENCED_MEMBER_EPOCH,
        f"The consumer group member has a {word} member epoch ({received}) than the one known by the group "
        f"coordinator ({epoch}). The member must abandon all its partitions and rejoin.",
    )
