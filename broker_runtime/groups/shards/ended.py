"""Cancels the timers of members that have left and of groups that have ended. Pure.

Only a record in the log removes a member, so its timers are cancelled when that record is applied. A timer that stays
does nothing, but it keeps the member's id in memory for up to 24 days (RebalanceTimeoutMs).
"""

from broker_runtime.groups.classic import rebalance
from broker_runtime.groups.classic.group import ClassicGroup
from broker_runtime.groups.consumer.fencing import MEMBER_TIMERS
from broker_runtime.groups.consumer.state.group import ConsumerGroup
from broker_runtime.groups.consumer.target import ASSIGNMENT_TIMERS
from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import Group
from broker_runtime.groups.push.pings import CONSUMER_TIMERS
from broker_runtime.groups.records import ConsumerGroupMemberMetadataKey, GroupRecord, PushMemberKey


def member_left(record: GroupRecord, environment: GroupEnvironment) -> None:
    """Cancel the timers of the member whose tombstone `record` is. `record` may be any tombstone."""
    key = record.key
    if isinstance(key, ConsumerGroupMemberMetadataKey):
        for what in MEMBER_TIMERS:
            environment.timers.cancel((key.group_id, what, key.member_id))
    elif isinstance(key, PushMemberKey):
        for what in CONSUMER_TIMERS:
            environment.timers.cancel((key.group_id, what, key.consumer_id))


def group_ended(group: Group, environment: GroupEnvironment) -> None:
    """Cancel the timers of a group that a tombstone has just removed."""
    if isinstance(group, ClassicGroup):
        rebalance.forget(group, environment)
    elif isinstance(group, ConsumerGroup):
        for what in ASSIGNMENT_TIMERS:
            environment.timers.cancel((group.group_id, what))
