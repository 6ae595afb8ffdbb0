"""The broker that gets a request about groups, retries after a coordinator moved, and the reading of answers."""

import struct

import pytest
from kio.schema.consumer_group_describe.v0.response import ConsumerGroupDescribeResponse
from kio.schema.consumer_group_describe.v0.response import DescribedGroup as DescribedConsumerGroup
from kio.schema.delete_groups.v2.response import DeletableGroupResult, DeleteGroupsResponse
from kio.schema.describe_cluster.v0.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.describe_groups.v5.response import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.response import Coordinator, FindCoordinatorResponse
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.schema.list_offsets.v6.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.schema.metadata.v11.response import (
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kio.schema.types import BrokerId, GroupId, TopicName
from kio.static.primitive import i32, i64

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.consumer_groups import ConsumerGroups
from sluicegate_operator.kafka_admin.errors import AdminConnectionError, KafkaAdminError, KafkaApiError
from sluicegate_operator.kafka_admin.groups.group_views import GroupListing
from sluicegate_operator.kafka_admin.groups.groups import assigned_partitions
from sluicegate_operator.kafka_admin.groups.offsets import LATEST
from tests.support.fakes.scripted_peer import NO_THROTTLE, SERVED, PeerRequest, ScriptedPeer, encode, framed, versions

pytestmark = pytest.mark.virtual_time

METADATA, LIST_OFFSETS, FIND_COORDINATOR, DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS, CONSUMER_GROUP_DESCRIBE = (
    3,
    2,
    10,
    15,
    16,
    42,
    69,
)
GROUP_APIS = {LIST_OFFSETS: 6, FIND_COORDINATOR: 4, DESCRIBE_GROUPS: 5, LIST_GROUPS: 5, DELETE_GROUPS: 2}
BROKERS = (1, 2)


class Pair:
    """Two brokers of one cluster; b1 is the bootstrap, b2 coordinates."""

    def __init__(self) -> None:
        self.peers = {f"b{number}": ScriptedPeer() for number in BROKERS}
        self.admin = AdminClient([("b1", 9092)], connect=lambda at, factory: self.peers[at[0]].connect(at, factory))
        self.groups = ConsumerGroups(self.admin, patience_s=10)
        brokers = tuple(
            DescribeClusterBroker(broker_id=BrokerId(n), host=f"b{n}", port=i32(9092), rack=None) for n in BROKERS
        )
        for peer in self.peers.values():
            peer.answer(versions(SERVED | GROUP_APIS))
            peer.answer(
                DescribeClusterResponse(
                    throttle_time=NO_THROTTLE,
                    error_code=ErrorCode.none,
                    cluster_id="c",
                    controller_id=BrokerId(1),
                    brokers=brokers,
                )
            )
            peer.answer(coordinator(2))
            peer.answer(metadata({0: 1, 1: 2, 2: -1}))

    def asked(self, broker: str, api: int) -> int:
        return sum(request.api_key == api for request in self.peers[broker].requests)


@pytest.fixture
def pair() -> Pair:
    return Pair()


def coordinator(number: int, code: ErrorCode = ErrorCode.none) -> FindCoordinatorResponse:
    found = Coordinator(
        key="g", node_id=BrokerId(number), host=f"b{number}", port=i32(9092), error_code=code, error_message=None
    )
    return FindCoordinatorResponse(throttle_time=NO_THROTTLE, coordinators=(found,))


def metadata(leaders: dict[int, int]) -> MetadataResponse:
    partitions = tuple(
        MetadataResponsePartition(
            error_code=ErrorCode.none, partition_index=i32(index), leader_id=BrokerId(leader), replica_nodes=()
        )
        for index, leader in leaders.items()
    )
    topic = MetadataResponseTopic(
        error_code=ErrorCode.none, name=TopicName("orders"), topic_id=None, partitions=partitions
    )
    return MetadataResponse(
        throttle_time=NO_THROTTLE, brokers=(), cluster_id="c", controller_id=BrokerId(1), topics=(topic,)
    )


def described(state: str, *members: DescribedGroupMember) -> DescribeGroupsResponse:
    group = DescribedGroup(
        error_code=ErrorCode.none,
        group_id=GroupId("g"),
        group_state=state,
        protocol_type="consumer",
        protocol_data="range",
        members=members,
    )
    return DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=(group,))


def deleted(code: ErrorCode) -> DeleteGroupsResponse:
    result = DeletableGroupResult(group_id=GroupId("g"), error_code=code)
    return DeleteGroupsResponse(throttle_time=NO_THROTTLE, results=(result,))


ASSIGNMENT = struct.pack(">hih6siiii", 3, 1, 6, b"orders", 2, 2, 0, -1)
"""The assignment of a current client: version 3, topic orders, partitions 2 and 0, no user data."""


def test_assignments_of_all_versions_are_read_and_others_are_nothing() -> None:
    assert assigned_partitions(ASSIGNMENT) == (("orders", 0), ("orders", 2))
    for other in (b"", b"\x00", b"\x00\x00", ASSIGNMENT[:-9], b"\xff" * 40):
        assert assigned_partitions(other) == ()


async def test_groups_of_all_brokers_are_listed(pair: Pair) -> None:
    for number, name in ((1, "b"), (2, "a")):
        listed = ListedGroup(
            group_id=GroupId(name), protocol_type="consumer", group_state="Stable", group_type="Consumer"
        )
        pair.peers[f"b{number}"].answer(
            ListGroupsResponse(throttle_time=NO_THROTTLE, error_code=ErrorCode.none, groups=(listed,))
        )
    async with pair.admin:
        assert await pair.groups.all() == [GroupListing(name, "Stable", "consumer", "consumer") for name in ("a", "b")]


async def test_a_broker_without_the_new_protocol_describes_classic_groups(pair: Pair) -> None:
    member = DescribedGroupMember(
        member_id="m", client_id="c", client_host="/h", member_metadata=b"", member_assignment=ASSIGNMENT
    )
    pair.peers["b2"].answer(described("Stable", member))
    async with pair.admin:
        group = await pair.groups.describe("g")
    assert (group.state, group.type, group.members[0].partitions) == (
        "Stable",
        "classic",
        (("orders", 0), ("orders", 2)),
    )
    assert pair.asked("b1", DESCRIBE_GROUPS) == 0


async def test_a_group_of_another_type_is_described_as_a_classic_group(pair: Pair) -> None:
    peer = pair.peers["b2"]
    peer.answer(versions(SERVED | GROUP_APIS | {CONSUMER_GROUP_DESCRIBE: 1}))
    missing = DescribedConsumerGroup(
        error_code=ErrorCode.group_id_not_found,
        group_id=GroupId("g"),
        group_state="",
        group_epoch=i32(0),
        assignment_epoch=i32(0),
        assignor_name="",
        members=(),
    )
    peer.answer(ConsumerGroupDescribeResponse(throttle_time=NO_THROTTLE, groups=(missing,)))
    peer.answer(described("Dead"))
    async with pair.admin:
        assert not (await pair.groups.describe("g")).exists


async def test_a_coordinator_that_moves_is_looked_for_again(pair: Pair) -> None:
    """First no coordinator is known, then b1 is no longer the coordinator, then b2 answers."""
    found = iter([coordinator(-1, ErrorCode.coordinator_not_available), coordinator(1), coordinator(2)])

    def find(request: PeerRequest) -> bytes:
        return framed(request.correlation_id, b"\x00" + encode(next(found)))

    pair.peers["b1"].script(FIND_COORDINATOR, find)
    pair.peers["b1"].answer(deleted(ErrorCode.not_coordinator))
    pair.peers["b2"].answer(deleted(ErrorCode.none))
    async with pair.admin:
        await pair.groups.delete("g")
    assert (pair.asked("b1", DELETE_GROUPS), pair.asked("b2", DELETE_GROUPS)) == (1, 1)


async def test_patience_ends_and_a_refusal_is_no_reason_for_it(pair: Pair) -> None:
    pair.peers["b2"].answer(deleted(ErrorCode.coordinator_load_in_progress))
    async with pair.admin:
        with pytest.raises(KafkaApiError, match="COORDINATOR_LOAD_IN_PROGRESS"):
            await pair.groups.delete("g")
        tries = pair.asked("b2", DELETE_GROUPS)
        assert tries > 50
        pair.peers["b2"].answer(deleted(ErrorCode.non_empty_group))
        with pytest.raises(KafkaApiError, match="deleting group g: NON_EMPTY_GROUP"):
            await pair.groups.delete("g")
        assert pair.asked("b2", DELETE_GROUPS) == tries + 1


async def test_a_deletion_whose_answer_is_lost_is_not_asked_again(pair: Pair) -> None:
    def hang_up(_request: PeerRequest) -> None:
        pair.peers["b2"].connections[-1].hang_up()

    pair.peers["b2"].script(DELETE_GROUPS, hang_up)
    async with pair.admin:
        with pytest.raises(AdminConnectionError):
            await pair.groups.delete("g")
    assert pair.asked("b2", DELETE_GROUPS) == 1


async def test_ends_of_logs_are_asked_of_their_leaders(pair: Pair) -> None:
    for number in BROKERS:
        index = number - 1
        partition = ListOffsetsPartitionResponse(
            partition_index=i32(index), error_code=ErrorCode.none, offset=i64(100 + number)
        )
        topic = ListOffsetsTopicResponse(name=TopicName("orders"), partitions=(partition,))
        pair.peers[f"b{number}"].answer(ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=(topic,)))
    asked = [("orders", 0), ("orders", 1), ("orders", 2), ("gone", 0)]
    async with pair.admin:
        assert await pair.groups.log_offsets(asked, LATEST) == {("orders", 0): 101, ("orders", 1): 102}


async def test_a_reply_about_nothing_is_an_error_of_this_package(pair: Pair) -> None:
    pair.peers["b2"].answer(DescribeGroupsResponse(throttle_time=NO_THROTTLE, groups=()))
    async with pair.admin:
        with pytest.raises(KafkaAdminError, match="expected one result, the broker sent 0"):
            await pair.groups.describe("g")
