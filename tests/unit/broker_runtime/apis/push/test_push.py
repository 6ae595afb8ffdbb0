"""The push protocol on a connection: the frames in both directions."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any, TypeVar, cast

import pytest

from broker_runtime.apis.groups import describe_groups, offset_commit
from broker_runtime.apis.push import push
from broker_runtime.apis.push.push import PushFrames
from broker_runtime.apis.push.push_apis import PUSH_APIS
from broker_runtime.apis.request.call import Call, Completion, Ending
from broker_runtime.apis.request.request_metrics import RequestMetrics
from broker_runtime.coordination.partition_of import partition_of
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.groups.consumer.embedded import read_assignment
from broker_runtime.groups.push.state.calls import Ping, PushEnvironment
from broker_runtime.groups.push.state.group import PushGroup
from broker_runtime.groups.push.state.member import PushMember
from broker_runtime.groups.records import GroupRecord, OffsetCommitKey, OffsetCommitValue
from broker_runtime.groups.state import GroupsState
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.security.acls.model import AclOperation, AclResource
from broker_runtime.slicing.steps import at_once
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.reply import NO_REPLY, PendingReply, Reply
from kafka_bytes import own_keys
from kafka_bytes.push import layouts
from kafka_bytes.push.layouts import Layout
from kafka_bytes.push.messages import (
    Broker,
    ClusterMetadataRequest,
    ClusterMetadataResponse,
    PartitionOffset,
    PingResponse,
    RegisterConsumerRequest,
    StartFetcherRequest,
    StartFetcherResponse,
    StopFetcherRequest,
    StopFetcherResponse,
    ThreadOwnership,
)
from tests.support.groups.coordinating_broker import ME, CoordinatingBroker, versions
from tests.support.requests.access import allow, authorization_of
from tests.support.requests.calls import NotedConnection

T = TypeVar("T")
GROUP, TOPIC = AclResource.GROUP, AclResource.TOPIC

HERE = (Broker(ME, "127.0.0.1", 9092),)
ANSWERED = (b"a frame of another protocol",)
_ITERATIONS_MAX = 10_000


class Client:
    """One connection with the frames sent over it; answers to registrations are among the calls."""

    def __init__(self, frames: PushFrames, number: int) -> None:
        self.connection = NotedConnection()
        self.connection.id = number
        self._frames = frames

    def send(self, layout: Layout[Any], message: Any) -> Reply | PendingReply:
        return self.send_bytes(layout.write(message)[4:])

    def send_bytes(self, frame: bytes) -> Reply | PendingReply:
        reply = self._frames.handle(memoryview(frame), self.connection)
        if isinstance(reply, PendingReply):
            reply.on_complete(lambda given: self.connection.pushed.extend(cast("tuple[bytes, ...]", given or ())))
        return reply

    def register(self, **changes: Any) -> Reply | PendingReply:
        asked = RegisterConsumerRequest("g", "c", '{"orders": 1}', True, "smallest", 6_000)
        return self.send(layouts.REGISTER_CONSUMER_REQUEST, asked._replace(**changes))

    async def received(self, layout: Layout[Any]) -> Any:
        for _ in range(_ITERATIONS_MAX):
            if self.connection.pushed:
                return layout.read(memoryview(self.connection.pushed.pop(0))[4:])
            await asyncio.sleep(0)
        raise AssertionError(f"nothing came, and {self.connection.refusals}")

    async def registered(self, **changes: Any) -> ErrorCode:
        self.register(**changes)
        return ErrorCode((await self.received(layouts.REGISTER_CONSUMER_RESPONSE)).error_code)

    async def hung_up(self) -> str:
        for _ in range(_ITERATIONS_MAX):
            if self.connection.refusals:
                return self.connection.refusals[0][0]
            await asyncio.sleep(0)
        raise AssertionError("it was not hung up on")


def others(frame: memoryview, connection: ServedConnection) -> Reply:
    return ANSWERED


def push_frames(node: CoordinatingBroker, ended: Callable[[Call], None] | None = None) -> PushFrames:
    return PushFrames(cast("Any", node), others, Completion(node.clock.monotonic, ended))


@pytest.fixture
async def node() -> AsyncIterator[CoordinatingBroker]:
    async with CoordinatingBroker() as made:
        await made.lead()
        yield made


@pytest.fixture
def frames(node: CoordinatingBroker) -> PushFrames:
    return push_frames(node)


async def test_frames_of_other_protocols_go_on_as_they_are(frames: PushFrames) -> None:
    for frame in (b"", b"\0", b"\0\3\0\1\0\0\0\7\xff\xff", b"\x75\x30"):
        assert Client(frames, 1).send_bytes(frame) == ANSWERED


async def test_any_broker_names_the_coordinator_of_a_group(node: CoordinatingBroker, frames: PushFrames) -> None:
    def ask(group_id: str | None) -> ClusterMetadataResponse:
        reply = Client(frames, 1).send(layouts.CLUSTER_METADATA_REQUEST, ClusterMetadataRequest(group_id))
        assert isinstance(reply, tuple)
        return layouts.CLUSTER_METADATA_RESPONSE.read(memoryview(cast("bytes", reply[0]))[4:])

    assert ask(None) == ask("g") == ClusterMetadataResponse(ErrorCode.NONE, ME, HERE)
    node.elect(-1, partition_of("g", 2))
    assert ask("g") == ClusterMetadataResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE, -1, HERE)
    assert ask(None).coordinator_id == ME


@pytest.mark.parametrize("group_id", ["", "g" * (layouts.ID_BYTES_MAX + 1)])
async def test_a_group_id_that_cannot_be_has_no_coordinator(frames: PushFrames, group_id: str) -> None:
    client = Client(frames, 1)
    written = len(group_id).to_bytes(2) + group_id.encode()
    reply = client.send_bytes(own_keys.CLUSTER_METADATA.to_bytes(2) + written)
    assert isinstance(reply, tuple)
    found = layouts.CLUSTER_METADATA_RESPONSE.read(memoryview(cast("bytes", reply[0]))[4:])
    assert found == ClusterMetadataResponse(ErrorCode.INVALID_GROUP_ID, -1, HERE)
    rest = b"\0\1c\0\2{}\1\0\x08smallest" + (6_000).to_bytes(4)
    assert client.send_bytes(own_keys.REGISTER_CONSUMER.to_bytes(2) + written + rest) == (b"\0\0\0\2\0\x18",)
    assert await client.registered() is ErrorCode.NONE, "the connection stays"


async def test_a_consumer_needs_to_read_its_group_and_each_topic_that_it_names(node: CoordinatingBroker) -> None:
    completion = Completion(node.clock.monotonic)
    client = Client(PushFrames(cast("Any", node), others, completion), 1)
    group, topic = (allow(kind, AclOperation.READ, name) for kind, name in ((GROUP, "g"), (TOPIC, "orders")))
    for acls, code in (
        ((), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ((topic,), ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ((group,), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ):
        completion.authorization = authorization_of(*acls)
        assert client.register() == (b"\0\0\0\2\0" + bytes((code,)),)
    completion.authorization = authorization_of(group, topic)
    assert await client.registered() is ErrorCode.NONE


async def test_a_consumer_that_may_no_longer_read_its_group_is_disconnected(node: CoordinatingBroker) -> None:
    completion = Completion(node.clock.monotonic)
    client = Client(PushFrames(cast("Any", node), others, completion), 1)
    group, topic = (allow(kind, AclOperation.READ, name) for kind, name in ((GROUP, "g"), (TOPIC, "orders")))
    completion.authorization = authorization_of(group, topic)
    assert await client.registered() is ErrorCode.NONE
    await client.received(layouts.START_FETCHER_REQUEST)
    assert client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c")) == NO_REPLY
    completion.authorization = authorization_of(topic)
    with pytest.raises(ProtocolError, match=r"Group authorization failed") as raised:
        client.send(layouts.PING_RESPONSE, PingResponse(0, "c", ()))
    assert raised.value.kind == "not-authorized"


@pytest.mark.parametrize("field", ["consumer_id", "auto_commit", "auto_offset_rest"])
async def test_another_field_that_cannot_be_is_an_invalid_request(frames: PushFrames, field: str) -> None:
    asked = RegisterConsumerRequest("g", "c", '{"orders": 1}', True, "smallest", 6_000)
    frame = layouts.REGISTER_CONSUMER_REQUEST.write(asked)[4:]
    frame = {
        "consumer_id": frame.replace(b"\0\1c", b"\4\1" + 1_025 * b"c"),
        "auto_commit": frame.replace(b"}\1", b"}\2"),
        "auto_offset_rest": frame.replace(b"\0\x08smallest", b"\0\x11" + 17 * b"s"),
    }[field]
    client = Client(frames, 1)
    assert client.send_bytes(frame) == (b"\0\0\0\2\0\x2a",)
    assert await client.registered() is ErrorCode.NONE, "the connection stays"


@pytest.mark.parametrize("led_here", [True, False], ids=["led here", "led elsewhere"])
async def test_a_consumer_that_commits_itself_commits_nothing_beyond_the_end_of_a_log(
    node: CoordinatingBroker, frames: PushFrames, led_here: bool
) -> None:
    client = Client(frames, 1)
    assert await client.registered(auto_commit=False) is ErrorCode.NONE
    await client.received(layouts.START_FETCHER_REQUEST)
    client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))
    if led_here:
        node.log_ends = {("orders", 0): 50, ("orders", 2): 50}
    parts = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": "", "committed_leader_epoch": -1}
        for index, offset in ((0, 51), (1, 51), (2, 50), (7, 1))
    ]
    asked = {"group_id": "g", "member_id": "c", "generation_id_or_member_epoch": -1}
    topics = [{"name": "orders", "partitions": parts}]
    (answered,) = (await node.ask(offset_commit.API, 8, asked | {"topics": topics})).topics
    codes = {part.partition_index: int(part.error_code) for part in answered.partitions}
    beyond = ErrorCode.OFFSET_OUT_OF_RANGE if led_here else ErrorCode.NONE
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert codes == {0: beyond, 1: ErrorCode.NONE, 2: ErrorCode.NONE, 7: unknown}
    offsets = node.groups.terms[partition_of("g", 2)].state.offsets.of("g")
    assert {at[1]: value.offset for at, value in offsets.items()} == ({} if led_here else {0: 51}) | {1: 51, 2: 50}
    assert offsets["orders", 2].leader_epoch == (0 if led_here else -1)


async def test_a_consumer_registers_and_is_started_and_stopped(node: CoordinatingBroker, frames: PushFrames) -> None:
    client = Client(frames, 1)
    assert await client.registered() is ErrorCode.NONE
    start = await client.received(layouts.START_FETCHER_REQUEST)
    parts = tuple(PartitionOffset("orders", f"1-{number}", -2) for number in range(3))
    assert start == StartFetcherRequest("c", (ThreadOwnership("c-0", parts),), HERE)
    assert client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c")) == NO_REPLY
    second = Client(frames, 2)
    assert await second.registered(consumer_id="d") is ErrorCode.NONE
    assert await client.received(layouts.STOP_FETCHER_REQUEST) == StopFetcherRequest("c")
    told = (PartitionOffset("orders", "1-0", 5), PartitionOffset("orders", "2", 7))
    client.send(layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, "c", told))
    start = await second.received(layouts.START_FETCHER_REQUEST)
    assert start.ownership_info == (ThreadOwnership("d-0", (PartitionOffset("orders", "1-2", 7),)),)
    index = partition_of("g", 2)
    state = node.groups.terms[index].state
    assert {key: value.offset for key, value in state.offsets.of("g").items()} == {("orders", 0): 5, ("orders", 2): 7}


async def test_a_refused_registration_says_why_and_may_be_tried_again(frames: PushFrames) -> None:
    client = Client(frames, 1)
    assert await client.registered(session_timeout_ms=1) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert await client.registered() is ErrorCode.NONE
    assert client.register(consumer_id="d") == (b"\0\0\0\2\0\x2a",), "one consumer for each connection"
    other = Client(frames, 2)
    assert await other.registered() is ErrorCode.UNRELEASED_INSTANCE_ID


async def test_a_broker_that_does_not_coordinate_the_group_says_so(
    node: CoordinatingBroker, frames: PushFrames
) -> None:
    node.lose()
    assert Client(frames, 1).register() == (b"\0\0\0\2\0\x10",)


async def test_the_end_of_a_connection_is_that_of_its_consumer(node: CoordinatingBroker, frames: PushFrames) -> None:
    first, second = Client(frames, 1), Client(frames, 2)
    assert await first.registered() is ErrorCode.NONE
    await first.received(layouts.START_FETCHER_REQUEST)
    first.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))
    first.connection.end()
    assert await second.registered() is ErrorCode.NONE, "the id is free again"
    await second.received(layouts.START_FETCHER_REQUEST)
    group = node.groups.terms[partition_of("g", 2)].state.groups["g"]
    assert isinstance(group, PushGroup)
    assert group.members["c"].connection == 2


async def test_a_connection_that_ends_before_its_registration_is_decided_leaves_nothing(
    node: CoordinatingBroker, frames: PushFrames
) -> None:
    client = Client(frames, 1)
    client.register()
    client.connection.end()
    state = node.groups.terms[partition_of("g", 2)].state
    assert await Client(frames, 2).registered(consumer_id="d") is ErrorCode.NONE
    assert set(cast("PushGroup", state.groups["g"]).members) == {"d"}


async def test_a_coordinator_that_loses_its_partition_hangs_up_on_its_consumers(
    node: CoordinatingBroker, frames: PushFrames
) -> None:
    client = Client(frames, 1)
    assert await client.registered() is ErrorCode.NONE
    node.lose()
    assert await client.hung_up() == "push-hung-up"
    with pytest.raises(ProtocolError, match="does not coordinate"):
        client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))


async def test_topics_that_change_are_told(node: CoordinatingBroker, frames: PushFrames) -> None:
    client = Client(frames, 1)
    assert await client.registered(topic_count='{"later": 1}') is ErrorCode.NONE
    assert (await client.received(layouts.START_FETCHER_REQUEST)).ownership_info == ()
    client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))
    node.metadata.topic("later", (ME,))
    node.groups.topics_changed(["later"], {})
    await client.received(layouts.STOP_FETCHER_REQUEST)
    client.send(layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, "c", ()))
    assert len((await client.received(layouts.START_FETCHER_REQUEST)).ownership_info) == 1


async def test_an_invalid_answer_ends_the_connection(frames: PushFrames) -> None:
    client = Client(frames, 1)
    with pytest.raises(ProtocolError, match="no consumer has registered"):
        client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))
    assert await client.registered() is ErrorCode.NONE
    odd = StopFetcherResponse(0, "c", (PartitionOffset("orders", "first", 0),))
    with pytest.raises(ProtocolError, match="does not name a partition"):
        client.send(layouts.STOP_FETCHER_RESPONSE, odd)
    with pytest.raises(ProtocolError):
        client.send_bytes(b"\x75\x33\0")
    client.send(layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, "c", ()))
    assert await client.hung_up() == "push-hung-up"


async def test_an_answer_with_more_offsets_than_assigned_is_not_parsed(frames: PushFrames) -> None:
    """Reading 32,767 offsets takes the event loop tens of milliseconds."""
    client = Client(frames, 1)
    assert await client.registered() is ErrorCode.NONE
    start = await client.received(layouts.START_FETCHER_REQUEST)
    client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))
    (owned,) = start.ownership_info
    longest = tuple(part._replace(partition="0000000001-0000000002") for part in owned.assigned_parts)
    client.send(layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, "c" * layouts.ID_BYTES_MAX, longest))
    many = StopFetcherResponse(0, "c", tuple(PartitionOffset("t", "0", 0) for _ in range(0x7FFF)))
    with pytest.raises(ProtocolError, match="more than the offsets of its partitions need"):
        client.send(layouts.STOP_FETCHER_RESPONSE, many)


async def test_a_long_answer_is_read_in_slices_and_decided_as_a_short_one(
    node: CoordinatingBroker, frames: PushFrames, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push, "_AT_ONCE_BYTES_MAX", 10)
    client, second = Client(frames, 1), Client(frames, 2)
    assert await client.registered() is ErrorCode.NONE
    await client.received(layouts.START_FETCHER_REQUEST)
    client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))
    assert await second.registered(consumer_id="d") is ErrorCode.NONE
    await client.received(layouts.STOP_FETCHER_REQUEST)
    told = (PartitionOffset("orders", "1-0", 5), PartitionOffset("orders", "2", 7))
    reply = client.send(layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, "c", told))
    assert isinstance(reply, PendingReply)
    assert node.groups.callers.is_behind(1), "the answer is not decided"
    start = await second.received(layouts.START_FETCHER_REQUEST)
    assert start.ownership_info == (ThreadOwnership("d-0", (PartitionOffset("orders", "1-2", 7),)),)
    assert (reply.done, client.connection.refusals) == (True, [])


@pytest.fixture(name="client")
async def told_to_start(frames: PushFrames, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A consumer whose answer the broker awaits, and reads in slices if it has more than ten bytes."""
    monkeypatch.setattr(push, "_AT_ONCE_BYTES_MAX", 10)
    client = Client(frames, 1)
    assert await client.registered() is ErrorCode.NONE
    await client.received(layouts.START_FETCHER_REQUEST)
    return client


async def test_a_long_frame_that_is_no_answer_ends_the_connection(client: Client) -> None:
    frame = layouts.START_FETCHER_RESPONSE.write(StartFetcherResponse(0, "c" * 20))[4:] + b"more"
    assert isinstance(client.send_bytes(frame), PendingReply)
    assert await client.hung_up() == "malformed"


async def test_the_client_of_a_long_answer_may_go_while_it_is_read(client: Client) -> None:
    reply = client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c" * 20))
    assert isinstance(reply, PendingReply)
    reply.cancel()
    await asyncio.sleep(0)
    assert client.connection.refusals == []


def test_a_long_list_is_read_in_steps() -> None:
    offsets = tuple(PartitionOffset("t", str(number), 0) for number in range(1_000))
    frame = memoryview(layouts.STOP_FETCHER_RESPONSE.write(StopFetcherResponse(0, "c", offsets)))[4:]
    assert sum(1 for _ in layouts.STOP_FETCHER_RESPONSE.read_in_steps(frame)) >= 50


async def test_each_frame_is_a_call_that_ends_once_and_is_counted_under_its_name(node: CoordinatingBroker) -> None:
    ended: list[Call] = []
    client = Client(push_frames(node, ended.append), 1)
    client.send(layouts.CLUSTER_METADATA_REQUEST, ClusterMetadataRequest("g"))
    assert await client.registered(session_timeout_ms=1) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert await client.registered() is ErrorCode.NONE
    await client.received(layouts.START_FETCHER_REQUEST)
    client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))
    with pytest.raises(ProtocolError):
        client.send_bytes(b"\x75\x33\0")
    client.send(layouts.CLUSTER_METADATA_REQUEST, ClusterMetadataRequest("g"))
    assert [(call.api.name, call.client_id, call.error, call.ending) for call in ended] == [
        ("ClusterMetadata", None, ErrorCode.NONE, Ending.ANSWERED),
        ("RegisterConsumer", "c", ErrorCode.INVALID_SESSION_TIMEOUT, Ending.ANSWERED),
        ("RegisterConsumer", "c", ErrorCode.NONE, Ending.ANSWERED),
        ("StartFetcher", "c", ErrorCode.NONE, Ending.ANSWERED),
        ("Ping", "c", ErrorCode.NONE, Ending.REFUSED),
        ("ClusterMetadata", "c", ErrorCode.NONE, Ending.ANSWERED),
    ]
    assert [len(call.reply) for call in ended] == [1, 1, 1, 0, 0, 1]
    metrics = RequestMetrics(PUSH_APIS.values())
    for call in ended:
        metrics.on_call(call)
    assert {count.request: (count.total, count.failed) for count in metrics.collect()} == {
        "ClusterMetadata": (2, 0),
        "RegisterConsumer": (2, 0),
        "Ping": (1, 1),
        "StopFetcher": (0, 0),
        "StartFetcher": (1, 0),
    }


async def test_a_registration_whose_client_has_gone_ends_as_such(node: CoordinatingBroker) -> None:
    ended: list[Call] = []
    reply = Client(push_frames(node, ended.append), 1).register()
    assert isinstance(reply, PendingReply)
    reply.cancel()
    assert [call.ending for call in ended] == [Ending.CANCELLED]


@pytest.mark.parametrize("type_id", range(30_001, 30_006))
async def test_any_bytes_are_answered_or_end_the_connection(frames: PushFrames, type_id: int) -> None:
    chance = Random(type_id)
    for _ in range(2_000):
        with suppress(ProtocolError):
            Client(frames, 1).send_bytes(type_id.to_bytes(2, "big") + chance.randbytes(chance.randrange(40)))


async def test_groups_of_the_topic_of_groups_are_made_on_demand() -> None:
    async with CoordinatingBroker() as node:
        frames = push_frames(node)
        Client(frames, 1).send(layouts.CLUSTER_METADATA_REQUEST, ClusterMetadataRequest("g"))
        assert node.asked_for == [GROUPS_TOPIC]


async def test_tools_are_shown_the_consumers_of_a_group(node: CoordinatingBroker, frames: PushFrames) -> None:
    client = Client(frames, 1)
    assert await client.registered() is ErrorCode.NONE
    await client.received(layouts.START_FETCHER_REQUEST)
    client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))
    for version in versions(describe_groups.API):
        asked = {"groups": ["g"]} | ({"include_authorized_operations": False} if version >= 3 else {})
        (group,) = (await node.ask(describe_groups.API, version, asked)).groups
        assert (group.error_code, group.group_state, group.protocol_type) == (ErrorCode.NONE, "Stable", "consumer")
        (member,) = group.members
        assert (member.member_id, member.client_host) == ("c", "/127.0.0.1")
        assert at_once(read_assignment(member.member_assignment)).partitions == {"orders": (0, 1, 2)}


@pytest.fixture
async def slow() -> AsyncIterator[CoordinatingBroker]:
    """A coordinator whose records become durable only when the other replica follows; no client waits for that."""
    async with CoordinatingBroker({"offsets.commit.timeout.ms": "1"}, partitions=1, replicas=(1, 2)) as made:
        await made.lead()
        yield made


async def told_to_ask_again(node: CoordinatingBroker) -> None:
    """Let a client commit while replicas take too long; all earlier requests have waited as long as they may."""

    def commit(state: GroupsState, environment: PushEnvironment) -> tuple[list[GroupRecord], None]:
        return [GroupRecord(OffsetCommitKey("other", "orders", 0), OffsetCommitValue(1, -1, "", 0))], None

    with pytest.raises(KafkaError) as refused:
        await node.groups.submit("other", commit)
    assert refused.value.code is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def followed(node: CoordinatingBroker, waiting: Coroutine[Any, Any, T]) -> T:
    """The result of `waiting`, with replicas that follow until then."""
    task = asyncio.create_task(waiting)
    while not task.done():
        node.follow()
        await asyncio.sleep(0)
    return task.result()


async def registers(node: CoordinatingBroker, frames: PushFrames, consumer_id: str) -> Client:
    """Register a consumer, which retries as often as requested, each time over another connection."""
    for number in range(1, 1_000):
        client = Client(frames, number + 1_000 * ord(consumer_id))
        client.register(consumer_id=consumer_id)
        code = (await followed(node, client.received(layouts.REGISTER_CONSUMER_RESPONSE))).error_code
        if code != ErrorCode.COORDINATOR_NOT_AVAILABLE:
            assert code == ErrorCode.NONE
            return client
    raise AssertionError("replicas took too long each time")


async def test_a_consumer_that_retries_its_registration_does_not_conflict_with_itself(slow: CoordinatingBroker) -> None:
    """The first registration was decided, and replicas took too long; no consumer read what it would own."""
    frames = push_frames(slow)
    assert await Client(frames, 1).registered() is ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = await registers(slow, frames, "c")
    await followed(slow, again.received(layouts.START_FETCHER_REQUEST))


async def test_an_answer_is_taken_however_long_it_waited_for_replicas(slow: CoordinatingBroker) -> None:
    """The answer is sent once: a consumer whose answer is lost seems not to have stopped, whatever it answers later."""
    frames = push_frames(slow)
    first = await registers(slow, frames, "c")
    await followed(slow, first.received(layouts.START_FETCHER_REQUEST))
    first.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))
    second = await registers(slow, frames, "d")
    await followed(slow, first.received(layouts.STOP_FETCHER_REQUEST))
    await told_to_ask_again(slow)
    first.send(layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, "c", (PartitionOffset("orders", "2", 7),)))
    await told_to_ask_again(slow)
    start = await followed(slow, second.received(layouts.START_FETCHER_REQUEST))
    assert start.ownership_info == (ThreadOwnership("d-0", (PartitionOffset("orders", "1-2", 7),)),)


def _member(node: CoordinatingBroker) -> PushMember:
    group = node.groups.terms[partition_of("g", 2)].state.groups["g"]
    assert isinstance(group, PushGroup)
    return group.members["c"]


async def test_a_coordinator_is_behind_where_something_waits_on_its_side(
    node: CoordinatingBroker, frames: PushFrames
) -> None:
    client, callers = Client(frames, 1), node.groups.callers
    assert not callers.is_behind(1)
    client.register()
    await client.received(layouts.REGISTER_CONSUMER_RESPONSE)
    await client.received(layouts.START_FETCHER_REQUEST)
    assert not callers.is_behind(1)
    client.send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, "c"))
    assert callers.is_behind(1), "the answer is not decided"
    for _ in range(10):
        await asyncio.sleep(0)
    assert not _member(node).starts_unanswered
    assert not callers.is_behind(1)
    callers.send(1, Ping("c", 0))
    assert callers.is_behind(1), "the call has not left"
    await client.received(layouts.PING_REQUEST)
    assert not callers.is_behind(1)
    client.connection.has_unread = True
    assert callers.is_behind(1), "an answer may lie there"


async def test_unexpected_answers_end_the_connection_before_they_fill_a_queue(frames: PushFrames) -> None:
    client = Client(frames, 1)
    assert await client.registered() is ErrorCode.NONE
    await client.received(layouts.START_FETCHER_REQUEST)
    answer = StartFetcherResponse(0, "c")
    for _ in range(2):
        client.send(layouts.START_FETCHER_RESPONSE, answer)
    with pytest.raises(ProtocolError, match="more responses arrived than calls were sent"):
        client.send(layouts.START_FETCHER_RESPONSE, answer)


async def test_a_registration_that_nobody_waits_for_any_more_is_not_written(
    node: CoordinatingBroker, frames: PushFrames
) -> None:
    client = Client(frames, 1)
    client.register()
    node.clock.advance(6.1)
    assert (await client.received(layouts.REGISTER_CONSUMER_RESPONSE)).error_code == (
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
    assert "g" not in node.groups.terms[partition_of("g", 2)].state.groups


@pytest.mark.parametrize("session_timeout_ms", [-1, 0, 1])
async def test_a_session_that_is_too_short_is_refused_for_that_however_short(
    node: CoordinatingBroker, frames: PushFrames, session_timeout_ms: int
) -> None:
    client = Client(frames, 1)
    client.register(session_timeout_ms=session_timeout_ms)
    node.clock.advance(0.1)
    answer = await client.received(layouts.REGISTER_CONSUMER_RESPONSE)
    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT
