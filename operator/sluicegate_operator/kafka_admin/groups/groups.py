"""FindCoordinator, ListGroups, DescribeGroups, ConsumerGroupDescribe (KIP-848), DeleteGroups.

These versions are newer than those of other modules: ListGroups has reported a group's type only since Kafka 3.8.
Groups on brokers that serve only the old protocol can still be described.
"""

import struct
from collections.abc import Collection

from kio.schema.consumer_group_describe.v0.request import ConsumerGroupDescribeRequest
from kio.schema.consumer_group_describe.v0.response import (
    Assignment,
    ConsumerGroupDescribeResponse,
)
from kio.schema.consumer_group_describe.v0.response import DescribedGroup as DescribedConsumerGroup
from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_groups.v5.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest
from kio.schema.find_coordinator.v4.response import FindCoordinatorResponse
from kio.schema.list_groups.v5.request import ListGroupsRequest
from kio.schema.list_groups.v5.response import ListGroupsResponse
from kio.schema.types import GroupId
from kio.static.primitive import i8

from sluicegate_operator.kafka_admin.connecting.exchange import Exchange
from sluicegate_operator.kafka_admin.connecting.reading import MalformedError, reader
from sluicegate_operator.kafka_admin.errors import check, only
from sluicegate_operator.kafka_admin.groups.group_views import (
    CLASSIC,
    CONSUMER,
    Coordinators,
    GroupListing,
    GroupMember,
    GroupView,
)
from sluicegate_operator.kafka_admin.views import BrokerView, Partition

GROUP = i8(0)
"""Key type of FindCoordinator for groups."""

CONSUMER_PROTOCOL = "consumer"
"""The protocol type whose assignments can be decoded. Connect's workers have another protocol type."""


def find_coordinators(ids: Collection[str]) -> Exchange[FindCoordinatorResponse, Coordinators]:
    def read(reply: FindCoordinatorResponse) -> Coordinators:
        for one in reply.coordinators:
            check(one.error_code, one.error_message, f"finding the coordinator of group {one.key}")
        return {one.key: BrokerView(one.node_id, one.host, one.port) for one in reply.coordinators}

    return Exchange(FindCoordinatorRequest(key_type=GROUP, coordinator_keys=tuple(ids)), FindCoordinatorResponse, read)


def list_groups() -> Exchange[ListGroupsResponse, tuple[GroupListing, ...]]:
    """Return the request that lists the groups of the broker that coordinates them."""

    def read(reply: ListGroupsResponse) -> tuple[GroupListing, ...]:
        check(reply.error_code, None, "listing groups")
        return tuple(
            GroupListing(group.group_id, group.group_state, group.group_type.lower(), group.protocol_type)
            for group in reply.groups
        )

    return Exchange(ListGroupsRequest(states_filter=(), types_filter=()), ListGroupsResponse, read)


def describe_classic(group_id: str) -> Exchange[DescribeGroupsResponse, GroupView]:
    """Return the request that describes a classic group, for its coordinator. The state of a missing group is Dead."""
    subject = f"describing group {group_id}"

    def read(reply: DescribeGroupsResponse) -> GroupView:
        group = only(reply.groups, subject)
        check(group.error_code, None, subject)
        members = tuple(_classic_member(group, member) for member in group.members)
        return GroupView(
            group_id, group.group_state, CLASSIC, group.protocol_type, group.protocol_data, members=members
        )

    request = DescribeGroupsRequest(groups=(GroupId(group_id),), include_authorized_operations=False)
    return Exchange(request, DescribeGroupsResponse, read)


def describe_consumer(group_id: str) -> Exchange[ConsumerGroupDescribeResponse, GroupView]:
    """Return the request that describes a KIP-848 group, for its coordinator.

    Raises GROUP_ID_NOT_FOUND also for a group of another type.
    """
    subject = f"describing group {group_id}"

    def read(reply: ConsumerGroupDescribeResponse) -> GroupView:
        group = only(reply.groups, subject)
        check(group.error_code, group.error_message, subject)
        return _consumer_group(group)

    request = ConsumerGroupDescribeRequest(group_ids=(GroupId(group_id),), include_authorized_operations=False)
    return Exchange(request, ConsumerGroupDescribeResponse, read)


def delete(group_id: str) -> Exchange[DeleteGroupsResponse, None]:
    """Return the request that deletes a group, for its coordinator."""
    subject = f"deleting group {group_id}"

    def read(reply: DeleteGroupsResponse) -> None:
        check(only(reply.results, subject).error_code, None, subject)

    return Exchange(
        DeleteGroupsRequest(groups_names=(GroupId(group_id),)), DeleteGroupsResponse, read, repeatable=False
    )


def _classic_member(group: DescribedGroup, member: DescribedGroupMember) -> GroupMember:
    assigned = assigned_partitions(member.member_assignment) if group.protocol_type == CONSUMER_PROTOCOL else ()
    return GroupMember(member.member_id, member.group_instance_id, member.client_id, member.client_host, assigned)


def assigned_partitions(assignment: bytes) -> tuple[Partition, ...]:
    """Decode the assignment of a member of a classic group.

    Empty if the member waits for an assignment, or if the bytes are unreadable. The bytes are a version, then a format
    that has not changed since version 0. Another kind of client may have written other bytes, which must not hide the
    rest of the group.
    """
    if len(assignment) < struct.calcsize(">h"):
        return ()
    try:
        read, _ = reader(ConsumerProtocolAssignment)(assignment, struct.calcsize(">h"))
    except MalformedError:
        return ()
    return tuple(sorted((topic.topic, index) for topic in read.assigned_partitions for index in topic.partitions))


def _consumer_group(group: DescribedConsumerGroup) -> GroupView:
    members = tuple(
        GroupMember(
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            _assigned(member.assignment),
            member.member_epoch,
        )
        for member in group.members
    )
    return GroupView(
        group.group_id,
        group.group_state,
        CONSUMER,
        CONSUMER_PROTOCOL,
        group.assignor_name,
        members=members,
        epoch=group.group_epoch,
    )


def _assigned(assignment: Assignment) -> tuple[Partition, ...]:
    return tuple(
        sorted((topic.topic_name, index) for topic in assignment.topic_partitions for index in topic.partitions)
    )
