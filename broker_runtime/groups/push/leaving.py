"""The records of consumers that leave their group. Pure."""

from collections.abc import Sequence

from broker_runtime.groups.environment import GroupEnvironment
from broker_runtime.groups.group import CONSUMER
from broker_runtime.groups.push.offsets import uncommitted
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.push.state.log_ends import Ends
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.records import GroupMetadataKey, GroupMetadataValue, GroupRecord, PushMemberKey
from broker_runtime.groups.state import GroupsState


def left_by(
    state: GroupsState, environment: GroupEnvironment, group: PushGroup, members: Sequence[PushMember], ends: Ends
) -> Sequence[GroupRecord]:
    """Return the records of the leaving consumers' last offsets, and the tombstones of their registrations.

    If they are the last members of a group with offsets, an empty group of the classic protocol stays. Its offsets
    expire some time after the group became empty (KIP-211).
    """
    told = uncommitted(state, environment, group, members, ends)
    records = [*told, *(GroupRecord(PushMemberKey(group.group_id, each.consumer_id), None) for each in members)]
    if len(members) == len(group.members) and (told or state.offsets.of(group.group_id)):
        empty = GroupMetadataValue(CONSUMER, 0, None, None, environment.now_ms(), ())
        records.append(GroupRecord(GroupMetadataKey(group.group_id), empty))
    return records
