"""RegisterConsumer: a consumer registers, or registers again after a fail-over. Pure."""

from collections.abc import Sequence
from functools import partial

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.environment import take_room
from broker_runtime.groups.push.pings import ping_later
from broker_runtime.groups.push.rebalance import want_rebalance
from broker_runtime.groups.push.registration import ConsumerRegistration, check_registration
from broker_runtime.groups.push.state.calls import PushEnvironment
from broker_runtime.groups.push.state.decided import NOTHING, Decided
from broker_runtime.groups.push.state.group import PushGroup, find_push_group
from broker_runtime.groups.push.state.member import size_of
from broker_runtime.groups.records import GroupRecord, PushMemberKey
from broker_runtime.groups.room import check_room_for_group
from broker_runtime.groups.state import GroupsState
from broker_runtime.security.acls.topic_filter import TopicFilter

_ADMIT = "admit"


def register(
    state: GroupsState,
    environment: PushEnvironment,
    asked: ConsumerRegistration,
    connection: int,
    topic_filter: TopicFilter | None = None,
) -> tuple[Sequence[GroupRecord], None]:
    """Register a consumer of a push group.

    Raises KafkaError, and leaves the connection open for the consumer to close. No call is sent over the connection
    before the answer: the owner of the connections ensures that.
    """
    check_registration(asked, environment.config)
    records: list[GroupRecord] = []
    group = state.groups.get(asked.group_id)
    if isinstance(group, PushGroup):
        _check_room(group, environment, asked)
    elif group is None or group.is_empty:
        check_room_for_group(state, environment, asked.group_id)
        records += () if group is None else group.tombstones()
    else:
        raise KafkaError(
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"group {asked.group_id} has members that use another protocol"
        )
    known = group.members.get(asked.consumer_id) if isinstance(group, PushGroup) else None
    if known is None or known.value != asked.value:
        take_room(environment, size_of(asked.value), asked.group_id)
        records.append(GroupRecord(PushMemberKey(asked.group_id, asked.consumer_id), asked.value))
    admit = partial(_admit, environment, asked.group_id, asked.consumer_id, (connection, topic_filter))
    environment.timers.continue_with((asked.group_id, _ADMIT, asked.consumer_id), admit)
    return records, None


def _check_room(group: PushGroup, environment: PushEnvironment, asked: ConsumerRegistration) -> None:
    """Raise KafkaError if the consumer's id is in use or the group is full."""
    known = group.members.get(asked.consumer_id)
    if known is not None and known.connection is not None:
        raise KafkaError(
            ErrorCode.UNRELEASED_INSTANCE_ID,
            f"consumer {asked.consumer_id!r} of group {asked.group_id} is already registered",
        )
    most = environment.config.group_max_size
    if known is None and len(group.members) >= most:
        raise KafkaError(
            ErrorCode.GROUP_MAX_SIZE_REACHED,
            f"group {asked.group_id} has {len(group.members)} consumers; at most {most} are allowed (group.max.size)",
        )


def _admit(
    environment: PushEnvironment,
    group_id: str,
    consumer_id: str,
    registration: tuple[int, TopicFilter | None],
    state: GroupsState,
) -> Decided:
    """Admit the consumer: the log has its registration, and no other decision ran in between."""
    group = find_push_group(state, group_id)
    assert group is not None, "the record that was applied has made it"
    member = group.members[consumer_id]
    member.begin(*registration)
    group.missing.discard(consumer_id)
    ping_later(group, environment, member)
    want_rebalance(group, environment)
    return NOTHING
