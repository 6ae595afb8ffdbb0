"""The client against a scripted peer: its requests, and good, bad, late and missing replies."""

import asyncio
import struct

import pytest
from kio.schema.api_versions.v0.response import ApiVersion as ApiVersionV0
from kio.schema.api_versions.v0.response import ApiVersionsResponse as ApiVersionsResponseV0
from kio.schema.describe_cluster.v0.response import DescribeClusterBroker, DescribeClusterResponse
from kio.schema.errors import ErrorCode
from kio.schema.incremental_alter_configs.v1.response import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsResponse,
)
from kio.schema.types import BrokerId
from kio.static.primitive import i8, i16, i32

from sluicegate_operator.kafka_admin.client import AdminClient
from sluicegate_operator.kafka_admin.configs import ConfigChange
from sluicegate_operator.kafka_admin.connecting.frames import MAX_FRAME_BYTES
from sluicegate_operator.kafka_admin.errors import (
    AdminConnectionError,
    AdminProtocolError,
    AdminTimeoutError,
    FencedError,
    KafkaApiError,
    UnsupportedApiError,
)
from sluicegate_operator.kafka_admin.views import BrokerView, ClusterView, NewTopic
from tests.support.fakes.scripted_peer import (
    NO_THROTTLE,
    SERVED,
    PeerRequest,
    ScriptedPeer,
    encode,
    framed,
    versions,
)

pytestmark = pytest.mark.virtual_time

API_VERSIONS, CREATE_TOPICS, INCREMENTAL_ALTER_CONFIGS, DESCRIBE_CLUSTER = 18, 19, 44, 60

CLUSTER = DescribeClusterResponse(
    throttle_time=NO_THROTTLE,
    error_code=ErrorCode.none,
    cluster_id="c",
    controller_id=BrokerId(2),
    brokers=(
        DescribeClusterBroker(broker_id=BrokerId(2), host="10.0.0.2", port=i32(9092), rack="b"),
        DescribeClusterBroker(broker_id=BrokerId(1), host="10.0.0.1", port=i32(9092), rack=None),
    ),
)
CLUSTER_VIEW = ClusterView("c", 2, (BrokerView(1, "10.0.0.1", 9092), BrokerView(2, "10.0.0.2", 9092, "b")))


def altered(code: ErrorCode, message: str | None) -> IncrementalAlterConfigsResponse:
    response = AlterConfigsResourceResponse(
        error_code=code, error_message=message, resource_type=i8(4), resource_name="1"
    )
    return IncrementalAlterConfigsResponse(throttle_time=NO_THROTTLE, responses=(response,))


def client(peer: ScriptedPeer, *, request_timeout_s: float = 5.0) -> AdminClient:
    return AdminClient([("b1", 9092)], request_timeout_s=request_timeout_s, connect=peer.connect)


@pytest.fixture
def peer() -> ScriptedPeer:
    peer = ScriptedPeer()
    peer.answer(CLUSTER)
    return peer


async def test_asks_for_the_versions_once_and_reuses_the_connection(peer: ScriptedPeer) -> None:
    async with client(peer) as admin:
        assert await admin.describe_cluster() == CLUSTER_VIEW
        assert await admin.broker("b1", 9092).describe_cluster() == CLUSTER_VIEW
    assert [request.api_key for request in peer.requests] == [API_VERSIONS, DESCRIBE_CLUSTER, DESCRIBE_CLUSTER]
    assert peer.requests[0].version == 3


async def test_closing_the_client_closes_the_connection(peer: ScriptedPeer) -> None:
    async with client(peer) as admin:
        await admin.describe_cluster()
    await asyncio.sleep(0)
    assert peer.connections[0].closed


async def test_a_reply_that_arrives_byte_by_byte_is_put_together(peer: ScriptedPeer) -> None:
    peer.chunk_bytes = 1
    async with client(peer) as admin:
        assert await admin.describe_cluster() == CLUSTER_VIEW


async def test_replies_may_come_in_any_order(peer: ScriptedPeer) -> None:
    held: list[int] = []
    both_held = asyncio.Event()

    def hold(request: PeerRequest) -> None:
        held.append(request.correlation_id)
        if len(held) == 2:
            both_held.set()

    async with client(peer) as admin:
        await admin.describe_cluster()
        peer.script(DESCRIBE_CLUSTER, hold)
        both = [asyncio.create_task(admin.describe_cluster()) for _ in range(2)]
        await both_held.wait()
        for correlation_id in reversed(held):
            peer.connections[0].send(framed(correlation_id, b"\x00" + encode(CLUSTER)))
        assert await asyncio.gather(*both) == [CLUSTER_VIEW, CLUSTER_VIEW]


@pytest.mark.parametrize("empty", [False, True], ids=["unsupported version", "empty reply"])
async def test_falls_back_to_version_0_of_api_versions(peer: ScriptedPeer, empty: bool) -> None:
    keys = tuple(ApiVersionV0(api_key=i16(k), min_version=i16(0), max_version=i16(v)) for k, v in SERVED.items())
    old = encode(ApiVersionsResponseV0(error_code=ErrorCode.none, api_keys=keys))
    declined = b"" if empty else encode(ApiVersionsResponseV0(error_code=ErrorCode.unsupported_version, api_keys=()))
    peer.script(API_VERSIONS, lambda r: framed(r.correlation_id, old if r.version == 0 else declined))
    async with client(peer) as admin:
        assert await admin.describe_cluster() == CLUSTER_VIEW
    assert [request.version for request in peer.requests] == [3, 0, 0]


async def test_an_api_that_the_broker_does_not_serve_is_not_sent(peer: ScriptedPeer) -> None:
    peer.answer(versions(SERVED | {INCREMENTAL_ALTER_CONFIGS: 0}))
    async with client(peer) as admin:
        with pytest.raises(UnsupportedApiError, match=r"IncrementalAlterConfigs version 1 is needed.*versions 0 to 0"):
            await admin.incremental_alter_configs(1, ConfigChange(delete=["max.connections"]))
    assert INCREMENTAL_ALTER_CONFIGS not in [request.api_key for request in peer.requests]


async def test_the_brokers_refusal_has_kafkas_name_and_words(peer: ScriptedPeer) -> None:
    peer.answer(altered(ErrorCode.invalid_request, "Value must be at least 0"))
    async with client(peer) as admin:
        with pytest.raises(KafkaApiError) as refused:
            await admin.incremental_alter_configs(1, ConfigChange(set={"max.connections": "-1"}))
    error = refused.value
    assert (error.code, error.name, error.message, error.retriable) == (
        42,
        "INVALID_REQUEST",
        "Value must be at least 0",
        False,
    )
    assert str(error) == "altering the configuration of broker 1: INVALID_REQUEST: Value must be at least 0"


async def test_kafka_says_which_refusals_are_worth_another_try(peer: ScriptedPeer) -> None:
    peer.answer(altered(ErrorCode.not_controller, None))
    async with client(peer) as admin:
        with pytest.raises(KafkaApiError, match="NOT_CONTROLLER") as refused:
            await admin.incremental_alter_configs(None, ConfigChange(delete=["max.connections"]))
    assert refused.value.retriable


async def test_an_error_code_that_is_newer_than_the_client_keeps_its_number(peer: ScriptedPeer) -> None:
    known = encode(altered(ErrorCode.invalid_request, None))
    unknown = known.replace(struct.pack(">h", 42), struct.pack(">h", 999))
    peer.script(INCREMENTAL_ALTER_CONFIGS, lambda r: framed(r.correlation_id, b"\x00" + unknown))
    async with client(peer) as admin:
        with pytest.raises(KafkaApiError, match="UNKNOWN_ERROR_CODE_999") as refused:
            await admin.incremental_alter_configs(1, ConfigChange(delete=["max.connections"]))
        assert (refused.value.code, refused.value.retriable) == (999, False)
        assert not peer.connections[0].closed


@pytest.mark.parametrize(
    ("bytes_sent", "reason"),
    [
        (framed(4711, b"\x00"), "the broker sent a response to request 4711, which the client had not sent"),
        (struct.pack(">i", MAX_FRAME_BYTES + 1), "a response of 16777217 bytes"),
        (struct.pack(">i", -1), "a response of -1 bytes"),
        (b"HTTP/1.1 400 Bad Request\r\n", "a response of 1213486160 bytes"),
    ],
    ids=["wrong correlation id", "huge", "negative", "another protocol"],
)
async def test_an_invalid_reply_ends_the_connection(peer: ScriptedPeer, bytes_sent: bytes, reason: str) -> None:
    peer.script(DESCRIBE_CLUSTER, lambda _: bytes_sent)
    async with client(peer) as admin:
        with pytest.raises(AdminProtocolError, match=reason):
            await admin.describe_cluster()
        await asyncio.sleep(0)
        assert peer.connections[0].closed


@pytest.mark.parametrize("missing", range(1, len(encode(CLUSTER)) + 1))
async def test_a_truncated_reply_ends_the_connection(peer: ScriptedPeer, missing: int) -> None:
    whole = b"\x00" + encode(CLUSTER)
    peer.script(DESCRIBE_CLUSTER, lambda r: framed(r.correlation_id, whole[:-missing]))
    async with client(peer) as admin:
        with pytest.raises(AdminProtocolError, match="DescribeClusterResponse v0"):
            await admin.describe_cluster()
        await asyncio.sleep(0)
        assert peer.connections[0].closed


async def test_bytes_after_the_reply_end_the_connection(peer: ScriptedPeer) -> None:
    peer.script(DESCRIBE_CLUSTER, lambda r: framed(r.correlation_id, b"\x00" + encode(CLUSTER) + b"\x00"))
    async with client(peer) as admin:
        with pytest.raises(AdminProtocolError, match="1 bytes are left over"):
            await admin.describe_cluster()


async def test_a_silent_broker_times_out_and_the_next_call_connects_anew(peer: ScriptedPeer) -> None:
    peer.script(DESCRIBE_CLUSTER, lambda _: None)
    async with client(peer, request_timeout_s=0.01) as admin:
        with pytest.raises(AdminTimeoutError, match=r"broker b1:9092: no answer to DescribeCluster within 0.01 s"):
            await admin.describe_cluster()
        peer.answer(CLUSTER)
        assert await admin.describe_cluster() == CLUSTER_VIEW
    assert len(peer.connections) == 2


async def test_a_late_reply_to_a_caller_that_gave_up_is_dropped(peer: ScriptedPeer) -> None:
    asked: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    peer.script(DESCRIBE_CLUSTER, lambda request: asked.set_result(request.correlation_id))
    async with client(peer) as admin:
        gives_up = asyncio.create_task(admin.describe_cluster())
        correlation_id = await asked
        gives_up.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gives_up
        peer.answer(CLUSTER)
        peer.connections[0].send(framed(correlation_id, b"\x00" + encode(CLUSTER)))
        assert await admin.describe_cluster() == CLUSTER_VIEW
    assert len(peer.connections) == 1


async def test_a_broker_that_stopped_answering_is_noticed_although_the_callers_gave_up(peer: ScriptedPeer) -> None:
    async with client(peer, request_timeout_s=0.05) as admin:
        await admin.describe_cluster()
        peer.script(DESCRIBE_CLUSTER, lambda _: None)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(admin.describe_cluster(), timeout=0.001)
        await asyncio.wait_for(peer.connections[0].lost.wait(), timeout=5)
        peer.answer(CLUSTER)
        assert await admin.describe_cluster() == CLUSTER_VIEW
    assert len(peer.connections) == 2


async def test_a_connection_that_ended_while_idle_is_made_again(peer: ScriptedPeer) -> None:
    async with client(peer) as admin:
        await admin.describe_cluster()
        peer.connections[0].hang_up()
        assert await admin.describe_cluster() == CLUSTER_VIEW
    assert len(peer.connections) == 2


async def test_a_read_is_repeated_when_a_reused_connection_ends_under_it(peer: ScriptedPeer) -> None:
    def hang_up_once(request: PeerRequest) -> None:
        peer.answer(CLUSTER)
        asyncio.get_running_loop().call_soon(peer.connections[0].hang_up)

    async with client(peer) as admin:
        await admin.describe_cluster()
        peer.script(DESCRIBE_CLUSTER, hang_up_once)
        assert await admin.describe_cluster() == CLUSTER_VIEW


async def test_creating_a_topic_is_never_sent_twice(peer: ScriptedPeer) -> None:
    def hang_up(_: PeerRequest) -> None:
        asyncio.get_running_loop().call_soon(peer.connections[0].hang_up)

    peer.script(CREATE_TOPICS, hang_up)
    async with client(peer) as admin:
        await admin.describe_cluster()
        with pytest.raises(AdminConnectionError, match="the broker closed the connection"):
            await admin.create_topic(NewTopic("orders"))
    assert [request.api_key for request in peer.requests].count(CREATE_TOPICS) == 1


async def test_the_next_bootstrap_broker_is_asked_when_the_first_is_down(peer: ScriptedPeer) -> None:
    down = ScriptedPeer(refuse=True)
    peers = {"b1": down, "b2": peer}
    admin = AdminClient(
        [("b1", 1), ("b2", 2)], connect=lambda address, factory: peers[address[0]].connect(address, factory)
    )
    async with admin:
        assert await admin.describe_cluster() == CLUSTER_VIEW
        assert await admin.describe_cluster() == CLUSTER_VIEW
    assert down.attempts == 1


async def test_the_error_has_the_reason_of_each_unreachable_broker() -> None:
    down = ScriptedPeer(refuse=True)
    async with AdminClient([("b1", 1), ("::1", 2)], connect=down.connect) as admin:
        with pytest.raises(AdminConnectionError) as unreachable:
            await admin.describe_cluster()
    assert str(unreachable.value) == (
        "broker b1:1: cannot connect: Connection refused; broker [::1]:2: cannot connect: Connection refused"
    )


async def test_reconnecting_waits_longer_each_time_but_at_most_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    down = ScriptedPeer(refuse=True)
    loop = asyncio.get_running_loop()
    waits: list[float] = []

    async def sleep(delay_s: float) -> None:
        waits.append(delay_s)

    monkeypatch.setattr("sluicegate_operator.kafka_admin.client.asyncio.sleep", sleep)
    monkeypatch.setattr(loop, "time", lambda: 1000.0)
    handle = AdminClient([("b1", 1)], connect=down.connect).broker("b1", 1)
    for _ in range(12):
        with pytest.raises(AdminConnectionError):
            await handle.describe_cluster()
    assert waits[0] == 0
    assert 0.025 <= waits[1] <= 0.05
    assert 0.05 <= waits[2] <= 0.1
    assert all(0.5 <= wait <= 1.0 for wait in waits[7:])


async def test_no_more_requests_are_in_flight_than_allowed(peer: ScriptedPeer) -> None:
    peer.script(DESCRIBE_CLUSTER, lambda _: None)
    async with client(peer) as admin:
        tasks = [asyncio.create_task(admin.describe_cluster()) for _ in range(40)]
        for _ in range(50):
            await asyncio.sleep(0)
        assert [request.api_key for request in peer.requests].count(DESCRIBE_CLUSTER) == 16
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_without_the_lease_nothing_is_changed_and_everything_may_be_read(peer: ScriptedPeer) -> None:
    peer.answer(altered(ErrorCode.none, None))
    change = ConfigChange(set={"max.connections": "5"})
    held = True
    async with AdminClient([("b1", 9092)], connect=peer.connect, may_write=lambda: held) as admin:
        await admin.incremental_alter_configs(1, change)
        held = False
        with pytest.raises(FencedError, match="does not hold the Lease"):
            await admin.incremental_alter_configs(1, change)
        assert await admin.describe_cluster() == CLUSTER_VIEW
    sent = [request.api_key for request in peer.requests]
    assert sent == [API_VERSIONS, INCREMENTAL_ALTER_CONFIGS, DESCRIBE_CLUSTER]


def test_a_client_needs_an_address() -> None:
    with pytest.raises(ValueError, match="at least one bootstrap address"):
        AdminClient([])


async def test_a_key_is_not_set_and_deleted_in_one_change(peer: ScriptedPeer) -> None:
    async with client(peer) as admin:
        with pytest.raises(ValueError, match=r"max\.connections: a key is either set or deleted"):
            await admin.incremental_alter_configs(
                1, ConfigChange(set={"max.connections": "1"}, delete=["max.connections"])
            )
