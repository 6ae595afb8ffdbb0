"""Fencing, unregistering, reassignments against a scripted peer: the requests, and the reading of replies."""

import struct
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from kio.schema.alter_partition_reassignments.v0.response import (
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from kio.schema.api_versions.v3.response import FinalizedFeatureKey
from kio.schema.broker_heartbeat.v0.response import BrokerHeartbeatResponse
from kio.schema.describe_configs.v4.response import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
)
from kio.schema.errors import ErrorCode
from kio.schema.list_partition_reassignments.v0.response import (
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kio.schema.types import BrokerId, TopicName
from kio.schema.unregister_broker.v0.response import UnregisterBrokerResponse
from kio.static.primitive import i8, i16, i32
from kio.static.protocol import ResponsePayload

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.configs import TOPICS_A_PAGE
from sluicegate_operator.kafka_admin.errors import AdminConnectionError, KafkaApiError
from sluicegate_operator.kafka_admin.views import ReassignmentView
from tests.support.fakes.scripted_peer import NO_THROTTLE, SERVED, PeerRequest, ScriptedPeer, encode, framed, versions

pytestmark = pytest.mark.virtual_time

DESCRIBE_CONFIGS, ELECT_LEADERS, REASSIGN, LIST_REASSIGNMENTS, HEARTBEAT, UNREGISTER = 32, 43, 45, 46, 63, 64
ONE, TWO = BrokerId(1), BrokerId(2)
ORDERS = TopicName("orders")


@pytest.fixture
def peer() -> ScriptedPeer:
    made = ScriptedPeer()
    newer = {60: 2, ELECT_LEADERS: 2, REASSIGN: 0, LIST_REASSIGNMENTS: 0, HEARTBEAT: 0, UNREGISTER: 0}
    made.answer(versions(SERVED | newer))
    return made


async def asked(peer: ScriptedPeer, call: Callable[[AdminClient], Awaitable[object]]) -> tuple[object, bytes]:
    """The call's result, and the last request without its header."""
    async with AdminClient([("b1", 9092)], connect=peer.connect) as admin:
        found = await call(admin)
    frame = peer.requests[-1].frame
    (size,) = struct.unpack_from(">h", frame, 8)
    return found, frame[10 + size + 1 :]


def beat(code: ErrorCode = ErrorCode.none) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(throttle_time=NO_THROTTLE, error_code=code, should_shut_down=True)


async def test_fencing_is_a_heartbeat_of_that_epoch_that_wants_fence_and_shutdown(peer: ScriptedPeer) -> None:
    peer.answer(beat())
    _, body = await asked(peer, lambda admin: admin.fence_broker(2, 41))
    assert peer.requests[-1].api_key == HEARTBEAT
    assert struct.unpack(">iqq??", body[:-1]) == (2, 41, -1, True, True)


async def test_a_newer_incarnation_is_not_hit(peer: ScriptedPeer) -> None:
    peer.answer(beat(ErrorCode.stale_broker_epoch))
    with pytest.raises(KafkaApiError, match="fencing broker 2 of epoch 41: STALE_BROKER_EPOCH"):
        await asked(peer, lambda admin: admin.fence_broker(2, 41))


@pytest.mark.parametrize(
    ("code", "name"), [(ErrorCode.none, ""), (ErrorCode.broker_id_not_registered, "NOT_REGISTERED")]
)
async def test_unregistering(peer: ScriptedPeer, code: ErrorCode, name: str) -> None:
    peer.answer(UnregisterBrokerResponse(throttle_time=NO_THROTTLE, error_code=code, error_message=None))
    if name:
        with pytest.raises(KafkaApiError, match=name):
            await asked(peer, lambda admin: admin.unregister_broker(4))
    else:
        await asked(peer, lambda admin: admin.unregister_broker(4))


async def test_unregistering_is_not_sent_twice_when_nobody_knows_whether_it_was_done(peer: ScriptedPeer) -> None:
    def hang_up(_: PeerRequest) -> None:
        peer.connections[-1].hang_up()

    peer.script(UNREGISTER, hang_up)
    with pytest.raises(AdminConnectionError):
        await asked(peer, lambda admin: admin.unregister_broker(4))
    assert [request.api_key for request in peer.requests].count(UNREGISTER) == 1


async def test_refused_reassignments_are_named(peer: ScriptedPeer) -> None:
    refused = ReassignablePartitionResponse(
        partition_index=i32(1), error_code=ErrorCode.invalid_replica_assignment, error_message="broker 9 is not there"
    )
    fine = ReassignablePartitionResponse(partition_index=i32(0), error_code=ErrorCode.none, error_message=None)
    topics = (ReassignableTopicResponse(name=ORDERS, partitions=(fine, refused)),)
    peer.answer(
        AlterPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, responses=topics
        )
    )
    targets = {("orders", 1): (9,), ("orders", 0): (0, 1), ("carts", 3): (2,)}
    found, body = await asked(peer, lambda admin: admin.alter_reassignments(targets))
    assert found == {("orders", 1): "broker 9 is not there"}
    assert body.index(b"carts") < body.index(b"orders"), "each topic once, in order"
    assert body.count(b"orders") == 1


async def test_reassignments_under_way_are_listed(peer: ScriptedPeer) -> None:
    ongoing = OngoingPartitionReassignment(
        partition_index=i32(3), replicas=(ONE, TWO), adding_replicas=(TWO,), removing_replicas=(ONE,)
    )
    topics: tuple[OngoingTopicReassignment, ...] = (OngoingTopicReassignment(name=ORDERS, partitions=(ongoing,)),)
    peer.answer(
        ListPartitionReassignmentsResponse(
            throttle_time=NO_THROTTLE, error_code=ErrorCode.none, error_message=None, topics=topics
        )
    )
    found, _ = await asked(peer, lambda admin: admin.list_reassignments())
    assert found == {("orders", 3): ReassignmentView((1, 2), (2,), (1,))}


def min_isr(names: list[str]) -> ResponsePayload:
    """The configuration of these topics; `gone` is a topic that was deleted meanwhile."""
    entry = DescribeConfigsResourceResult(
        name="min.insync.replicas",
        value="2",
        read_only=False,
        config_source=i8(5),
        is_sensitive=False,
        synonyms=(),
        documentation=None,
    )
    results = tuple(
        DescribeConfigsResult(
            error_code=ErrorCode.unknown_topic_or_partition if name == "gone" else ErrorCode.none,
            error_message=None,
            resource_type=i8(2),
            resource_name=name,
            configs=() if name == "gone" else (entry,),
        )
        for name in names
    )
    return DescribeConfigsResponse(throttle_time=NO_THROTTLE, results=results)


async def test_min_isr_of_many_topics_is_asked_for_in_pages(peer: ScriptedPeer) -> None:
    names = sorted([f"topic-{n:04}" for n in range(TOPICS_A_PAGE + 1)] + ["gone"])
    pages = iter([names[:TOPICS_A_PAGE], names[TOPICS_A_PAGE:]])
    peer.script(DESCRIBE_CONFIGS, lambda r: framed(r.correlation_id, b"\x00" + encode(min_isr(next(pages)))))
    found, _ = await asked(peer, lambda admin: admin.describe_min_isr(names))
    assert found == {name: 2 for name in names if name != "gone"}
    assert [request.api_key for request in peer.requests].count(DESCRIBE_CONFIGS) == 2


async def test_features_that_the_cluster_has_finalized_are_read(peer: ScriptedPeer) -> None:
    level = FinalizedFeatureKey(name="metadata.version", max_version_level=i16(30), min_version_level=i16(1))
    peer.answer(replace(versions(SERVED | {18: 3}), finalized_features=(level,)))
    features, _ = await asked(peer, lambda admin: admin.describe_features())
    assert features == {"metadata.version": 30}
