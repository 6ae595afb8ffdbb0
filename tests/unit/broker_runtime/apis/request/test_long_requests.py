"""Requests with many items: refused beyond the limits, executed in slices within them, even after a disconnect."""

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, cast
from uuid import UUID

import pytest

from broker_runtime.apis.fetch import fetch
from broker_runtime.apis.produce import produce
from broker_runtime.apis.request.answer_cache import AnswerCache
from broker_runtime.apis.request.call import Call, Ending
from broker_runtime.apis.request.context import ApiSpec
from broker_runtime.apis.request.dispatching.answering import joined
from broker_runtime.apis.request.dispatching.dispatch import Dispatcher
from broker_runtime.apis.topics import create_topics, metadata
from broker_runtime.errors import ErrorCode, KafkaError, ProtocolError
from broker_runtime.metadata.areas.topics import RemoveTopic, TopicRecord
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.slices import Slices
from broker_runtime.slicing.steps import Steps
from broker_runtime.wire.limits import RequestLimits
from broker_runtime.wire.messages import decode_response
from broker_runtime.wire.reply import FileRegion, PendingReply, Reply
from broker_runtime.wire.versions import CREATE_TOPICS, FETCH, LIST_GROUPS, METADATA, PRODUCE
from kafka_bytes.batches import encode_batch
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import TOPIC_ID, LogHouse
from tests.support.logs.replicas import LeadingNode, leading
from tests.support.requests.calls import NotedConnection
from tests.support.requests.request_frames import encode_request

PARTITIONS = 300
STEPS_AT_ONCE = 600
"""More than one slice has while the clock stands still."""
FEW = RequestLimits(items_max=1_024, bytes_max=1_000_000)


class Node(LeadingNode):
    """Leads three hundred partitions of one topic."""

    def __init__(self) -> None:
        self.house = LogHouse()
        logs = [self.house.logs.create("orders", index, TOPIC_ID, self.house.config) for index in range(PARTITIONS)]
        for log in logs:
            log.sole_replica = True
        self.of = [leading(log, 1, epoch=4) for log in logs]
        super().__init__(self.of[0], self.house.clock)
        self.all_topics = AnswerCache()
        self.looked_at = 0
        self.cluster_id = "c"

    def led(self, topic: str, partition: int) -> LeaderReplica:
        self.looked_at += 1
        if topic != "orders" or not 0 <= partition < PARTITIONS:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "not here")
        return self.of[partition]

    @property
    def watched(self) -> int:
        return sum(len(leader.log.readers.members) for leader in self.of)

    @property
    def appended(self) -> int:
        return sum(leader.log.log_end_offset for leader in self.of)


class Served:
    """A dispatcher with one API, the connection of one client, and the ends of its calls."""

    def __init__(self, api: ApiSpec[Any], node: Any = None, limits: RequestLimits = FEW) -> None:
        self.node = node or Node()
        self.calls: list[Call] = []
        self.connection = NotedConnection()
        # Each reading of the clock takes a tenth of a millisecond.
        slices = Slices(partial(next, count(0.0, 0.0001)))
        self.dispatcher: Dispatcher[Any] = Dispatcher(
            self.node, [api], self.calls.append, long_requests=(slices, limits)
        )

    def send(self, key: int, version: int, content: dict[str, Any]) -> Reply | PendingReply:
        frame = memoryview(bytearray(encode_request(key, version, 7, content)))[4:]
        reply = self.dispatcher.handle(frame, self.connection)
        # The buffer belongs to the next request.
        frame[:] = b"\xee" * len(frame)
        return reply

    async def until(self, condition: Callable[[], object]) -> None:
        for _ in range(10_000):
            if condition():
                return
            await asyncio.sleep(0)
        raise AssertionError("it never came about")

    async def answer(self, reply: Reply | PendingReply) -> Reply | None:
        assert isinstance(reply, PendingReply), "a long request is not answered at once"
        given: asyncio.Future[Reply | None] = asyncio.get_running_loop().create_future()
        reply.on_complete(given.set_result)
        async with asyncio.timeout(30):
            return await given


def decoded(key: int, version: int, reply: Reply | None, header: int) -> Any:
    assert reply is not None
    whole = b"".join(chunk.read() if isinstance(chunk, FileRegion) else bytes(chunk) for chunk in reply)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return decode_response(key, version, memoryview(whole)[header:])


def produced(node: Node, partitions: int, acks: int = 1, *, index: int | None = None) -> dict[str, Any]:
    records = encode_batch([(b"k", b"v")], node.house.clock.wall_ms())
    data = [{"index": number if index is None else index, "records": records} for number in range(partitions)]
    topic = {"name": "orders", "partition_data": data}
    return {"transactional_id": None, "acks": acks, "timeout": 1_000, "topic_data": [topic]}


def fetched(partitions: int, wait_ms: int = 0, min_bytes: int = 1, first: int = 0) -> dict[str, Any]:
    parts = [
        {"partition": first + number, "current_leader_epoch": 4, "fetch_offset": 0, "partition_max_bytes": 1 << 20}
        for number in range(partitions)
    ]
    topic = {"topic": "orders", "partitions": parts}
    return {
        "replica_id": -1,
        "max_wait": wait_ms,
        "min_bytes": min_bytes,
        "max_bytes": 1 << 24,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [topic],
        "forgotten_topics_data": [],
    }


async def test_a_long_produce_is_appended_and_answered_in_order() -> None:
    served = Served(produce.API)
    reply = await served.answer(served.send(PRODUCE, 9, produced(served.node, PARTITIONS)))
    (topic,) = decoded(PRODUCE, 9, reply, 9).responses
    assert [part.index for part in topic.partition_responses] == list(range(PARTITIONS))
    assert {(int(part.error_code), part.base_offset) for part in topic.partition_responses} == {(0, 0)}
    assert served.node.appended == PARTITIONS
    assert [call.ending for call in served.calls] == [Ending.ANSWERED]


async def test_records_for_a_topic_that_was_made_anew_meanwhile_are_refused() -> None:
    """The topic's name belongs to another topic then, and the request names the topic by its id."""
    served = Served(produce.API)
    content = produced(served.node, PARTITIONS)
    content["topic_data"][0] |= {"topic_id": TOPIC_ID}
    reply = served.send(PRODUCE, 13, content)
    before = served.node.appended
    assert before < PARTITIONS, "the other partitions are to come"
    served.node.image.apply(RemoveTopic(TOPIC_ID), 2)
    served.node.image.apply(TopicRecord("orders", UUID(int=5)), 3)
    (topic,) = decoded(PRODUCE, 13, await served.answer(reply), 9).responses
    codes = [int(part.error_code) for part in topic.partition_responses]
    assert codes == [0] * before + [ErrorCode.UNKNOWN_TOPIC_ID] * (PARTITIONS - before)
    assert served.node.appended == before


async def test_a_long_produce_waits_for_all_replicas() -> None:
    served = Served(produce.API)
    for leader in served.node.of:
        leader.log.sole_replica = False
    reply = served.send(PRODUCE, 9, produced(served.node, PARTITIONS, acks=-1))
    assert isinstance(reply, PendingReply)
    await served.until(lambda: served.node.appended == PARTITIONS)
    await served.until(lambda: len(served.dispatcher.completion.slices) == 0)
    assert not reply.done
    for leader in served.node.of:
        leader.log.advance_high_watermark(1)
    (topic,) = decoded(PRODUCE, 9, await served.answer(reply), 9).responses
    assert {int(part.error_code) for part in topic.partition_responses} == {0}


@pytest.mark.parametrize("acks", [0, 1])
async def test_records_that_have_arrived_are_appended_although_the_client_has_gone(acks: int) -> None:
    served = Served(produce.API)
    reply = served.send(PRODUCE, 9, produced(served.node, PARTITIONS, acks))
    assert isinstance(reply, PendingReply)
    assert served.node.appended < PARTITIONS
    reply.cancel()
    await served.until(lambda: served.node.appended == PARTITIONS)
    await served.until(lambda: len(served.dispatcher.completion.slices) == 0)
    assert [call.ending for call in served.calls] == [Ending.CANCELLED]
    assert served.connection.refusals == []


@pytest.mark.parametrize(
    ("api", "content"),
    [(produce.API, produced(Node(), 1_025, index=1)), (fetch.API, fetched(1_025))],
    ids=["Produce", "Fetch"],
)
def test_a_request_that_names_too_much_changes_nothing(api: ApiSpec[Any], content: dict[str, Any]) -> None:
    """These versions have no field for an error of the whole request."""
    served = Served(api)
    with pytest.raises(ProtocolError, match=r"more than 1024 items in the arrays of one request") as refused:
        served.send(api.key, 9 if api.key == PRODUCE else 4, content)
    assert refused.value.kind == "too-many-items"
    assert (served.node.appended, served.node.watched) == (0, 0)
    assert [call.ending for call in served.calls] == [Ending.REFUSED]


def test_an_error_is_answered_where_there_is_a_place_for_it() -> None:
    served = Served(fetch.API)
    reply = served.send(FETCH, 12, fetched(1_025))
    assert isinstance(reply, tuple), "the announcement is enough"
    answer = decoded(FETCH, 12, reply, 9)
    assert (int(answer.error_code), answer.responses) == (ErrorCode.INVALID_REQUEST, ())
    assert [kind for kind, _ in served.connection.noted] == ["too-many-items"]
    assert served.connection.refusals == []


async def test_a_long_fetch_tells_of_all_partitions() -> None:
    served = Served(fetch.API)
    batch = memoryview(encode_batch([(b"k", b"v")], served.node.house.clock.wall_ms()))
    served.node.of[7].log.append(batch, leader_epoch=4)
    content = fetched(PARTITIONS)
    content["topics"][0]["partitions"].append(content["topics"][0]["partitions"][0] | {"partition": 9_999})
    (topic,) = decoded(FETCH, 12, await served.answer(served.send(FETCH, 12, content)), 9).responses
    found = {part.partition_index: (int(part.error_code), bool(part.records)) for part in topic.partitions}
    assert found == {index: (0, index == 7) for index in range(PARTITIONS)} | {9_999: (3, False)}


@pytest.mark.parametrize("version", [4, 12])
async def test_a_long_fetch_waits_until_there_is_enough(version: int) -> None:
    served = Served(fetch.API)
    reply = served.send(FETCH, version, fetched(PARTITIONS, wait_ms=10_000, min_bytes=150))
    assert isinstance(reply, PendingReply)
    batch = encode_batch([(b"k", b"v" * 20)], served.node.house.clock.wall_ms())
    await served.until(lambda: served.node.watched == PARTITIONS)
    served.node.of[3].log.append(memoryview(batch), leader_epoch=4)
    await served.until(lambda: len(served.dispatcher.completion.slices) == 0)
    assert not reply.done
    served.node.of[250].log.append(memoryview(batch), leader_epoch=4)
    (topic,) = decoded(FETCH, version, await served.answer(reply), 9 if version == 12 else 8).responses
    assert {part.partition_index for part in topic.partitions if part.records} == {3, 250}
    await served.until(lambda: len(served.dispatcher.completion.slices) == 0)
    served.node.repeated_fetches.forget(served.connection.peer)
    assert served.node.watched == 0


async def test_a_change_costs_a_waiting_fetch_the_partition_that_has_changed() -> None:
    served = Served(fetch.API)
    reply = served.send(FETCH, 12, fetched(PARTITIONS, wait_ms=10_000, min_bytes=1_000_000))
    assert isinstance(reply, PendingReply)
    await served.until(lambda: served.node.watched == PARTITIONS)
    await served.until(lambda: len(served.dispatcher.completion.slices) == 0)
    batch = encode_batch([(b"k", b"v" * 20)], served.node.house.clock.wall_ms())
    before = served.node.looked_at
    for index in range(100):
        served.node.of[index].log.append(memoryview(batch), leader_epoch=4)
    assert served.node.looked_at - before == 100, "each of them is looked at once, and no other"
    assert not reply.done
    reply.cancel()
    await served.until(lambda: len(served.dispatcher.completion.slices) == 0)


@pytest.mark.parametrize("steps", [1, 5, 40])
@pytest.mark.parametrize("repeats", [True, False])
async def test_a_disconnected_clients_fetch_leaves_no_state(steps: int, repeats: bool) -> None:
    """In every phase of the request: read, checked, or waiting."""
    served = Served(fetch.API)
    content = fetched(PARTITIONS, wait_ms=10_000, min_bytes=1_000)
    if not repeats:
        # Named twice, so that nothing is kept for the next request.
        content["topics"][0]["partitions"] *= 2
    reply = served.send(FETCH, 12, content)
    assert isinstance(reply, PendingReply)
    for _ in range(steps):
        await asyncio.sleep(0)
    reply.cancel()
    await served.until(lambda: len(served.dispatcher.completion.slices) == 0)
    served.node.repeated_fetches.forget(served.connection.peer)
    assert served.node.watched == 0
    assert [call.ending for call in served.calls] == [Ending.CANCELLED]


@pytest.mark.parametrize(("partitions", "iterations"), [(254, 2), (254, 17), (268, 18), (270, 18)])
async def test_an_answer_whose_client_has_gone_is_packed_no_further(partitions: int, iterations: int) -> None:
    """The request's partitions are then released: the steps that pack the answer must not read them meanwhile."""
    trouble: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: trouble.append(context))
    served = Served(fetch.API)
    reply = cast("PendingReply", served.send(FETCH, 12, fetched(partitions, wait_ms=10_000, min_bytes=1 << 20)))
    slices = served.dispatcher.completion.slices
    await served.until(lambda: served.node.watched == partitions and len(slices) == 0)
    batch = encode_batch([(b"k", b"v" * 20)], served.node.house.clock.wall_ms())
    for leader in served.node.of[: 60 + partitions % 50]:
        leader.log.append(memoryview(batch), leader_epoch=4)
    for is_over in served.node.timers:
        is_over()
    for _ in range(iterations):
        await asyncio.sleep(0)
    assert not reply.done, "the answer takes many slices"
    reply.cancel()
    await served.until(lambda: len(slices) == 0)
    await asyncio.sleep(0)
    assert trouble == []
    assert (served.node.watched, served.node.repeated_fetches.forget(served.connection.peer)) == (0, False)


@pytest.mark.parametrize("iterations", range(0, 12, 2))
async def test_partitions_that_change_while_an_answer_is_packed_are_told_in_the_next_one(iterations: int) -> None:
    """Partitions that were empty when they were checked are packed with the others, in the first answer too."""
    served = Served(fetch.API)
    batch = encode_batch([(b"k", b"v" * 20)], served.node.house.clock.wall_ms())
    early, late = served.node.of[:100], served.node.of[100:]
    for leader in early:
        leader.log.append(memoryview(batch), leader_epoch=4)
    reply = served.send(FETCH, 12, fetched(PARTITIONS, wait_ms=10_000))
    await served.until(lambda: served.node.watched == PARTITIONS)
    for _ in range(iterations):
        await asyncio.sleep(0)
    for leader in late:
        leader.log.append(memoryview(batch), leader_epoch=4)
    (topic,) = decoded(FETCH, 12, await served.answer(reply), 9).responses
    assert {part.partition_index for part in topic.partitions if part.records} == set(range(100))
    again = served.send(FETCH, 12, fetched(PARTITIONS))
    (topic,) = decoded(FETCH, 12, await served.answer(again), 9).responses
    assert {part.partition_index for part in topic.partitions if part.records} >= set(range(100, PARTITIONS))
    assert {(int(part.error_code), part.high_watermark) for part in topic.partitions} == {(0, 1)}


def long_answer(call: Call) -> Steps[dict[str, Any]]:
    groups = []
    for number in range(5_000):
        groups.append({"group_id": f"group-{number}", "protocol_type": "consumer"})
        yield
    return {"error_code": 0, "groups": groups}


class Bare:
    """The parts of a node that a dispatcher needs."""

    clock = ManualClock()


def list_groups(limits: RequestLimits = FEW) -> Served:
    api: ApiSpec[Any] = ApiSpec(LIST_GROUPS, "ListGroups", (0, 3), lambda request, call, context: long_answer(call))
    return Served(api, Bare(), limits)


async def test_a_long_answer_is_made_and_packed_in_slices() -> None:
    served = list_groups()
    reply = await served.answer(served.send(LIST_GROUPS, 1, {}))
    assert reply is not None
    assert len(reply) > 2, "it is not joined"
    assert len(decoded(LIST_GROUPS, 1, reply, 8).groups) == 5_000


async def test_an_answer_that_would_be_too_large_is_an_error() -> None:
    served = list_groups(RequestLimits(response_bytes_max=100_000))
    reply = await served.answer(served.send(LIST_GROUPS, 1, {}))
    answer = decoded(LIST_GROUPS, 1, reply, 8)
    assert (int(answer.error_code), answer.groups) == (ErrorCode.INVALID_REQUEST, ())
    assert [kind for kind, _ in served.connection.noted] == ["response-too-large"]


async def test_an_answer_of_parts_that_would_be_too_large_is_an_error() -> None:
    def many_parts(request: Any, call: Call, context: Any) -> Steps[Reply]:
        return joined([bytes(1_000) for _ in range(1_000)], call)

    api: ApiSpec[Any] = ApiSpec(LIST_GROUPS, "ListGroups", (0, 3), many_parts)
    served = Served(api, Bare(), RequestLimits(response_bytes_max=100_000))
    reply = cast("Reply", served.send(LIST_GROUPS, 1, {}))
    assert int(decoded(LIST_GROUPS, 1, reply, 8).error_code) == ErrorCode.INVALID_REQUEST
    assert [kind for kind, _ in served.connection.noted] == ["response-too-large"]


async def test_steps_of_a_client_that_has_gone_are_not_made() -> None:
    served = list_groups()
    reply = served.send(LIST_GROUPS, 1, {})
    cast("PendingReply", reply).cancel()
    await served.until(lambda: len(served.dispatcher.completion.slices) == 0)
    assert [call.ending for call in served.calls] == [Ending.CANCELLED]


async def test_a_request_of_many_names_is_read_in_slices_and_answered_about_each() -> None:
    served = Served(metadata.API)
    names = [f"n{number}" for number in range(1_000)]
    content = {"topics": [{"topic_id": None, "name": name} for name in names], "allow_auto_topic_creation": False}
    content["include_topic_authorized_operations"] = False
    topics = decoded(METADATA, 12, await served.answer(served.send(METADATA, 12, content)), 9).topics
    assert [topic.name for topic in topics] == names
    assert {int(topic.error_code) for topic in topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def test_create_topics_of_too_many_configurations_is_refused_by_the_topic() -> None:
    topic = {"name": "t", "num_partitions": 1, "replication_factor": 1, "assignments": ()}
    configs = [{"name": f"c{number}", "value": "v"} for number in range(900)]
    served = Served(create_topics.API, limits=RequestLimits(items_max=1_024))
    content = {"topics": [topic | {"configs": configs * 2}], "timeout": 1, "validate_only": False}
    with pytest.raises(ProtocolError, match="more than 1024 items"):
        served.send(CREATE_TOPICS, 5, content)


@pytest.mark.parametrize("as_coroutine", [False, True])
@pytest.mark.parametrize("size", [3_000, 60_000, 300_000])
async def test_requests_of_each_size_wait_until_there_is_room(size: int, as_coroutine: bool) -> None:
    """A hundred of just under 64 KiB took 200 MB at the same time, and a hundred of OffsetFetch 700 MB."""
    running, most = 0, 0

    def steps(call: Call) -> Steps[Reply]:
        nonlocal running, most
        for _ in range(STEPS_AT_ONCE):
            yield
        running += 1
        most = max(most, running)
        for _ in range(STEPS_AT_ONCE):
            yield
        running -= 1
        return call.packed(b"")

    async def coroutine(call: Call) -> Steps[Reply]:
        return steps(call)

    def handle(_: object, call: Call, __: object) -> Any:
        return coroutine(call) if as_coroutine else steps(call)

    api: ApiSpec[Any] = ApiSpec(LIST_GROUPS, "ListGroups", (0, 0), handle, reads="frame")
    slices = Slices(lambda: 0.0, room=10 * size + 100)
    served = Served(api)
    dispatcher: Dispatcher[Any] = Dispatcher(served.node, [api], long_requests=(slices, FEW))
    frame = memoryview(encode_request(LIST_GROUPS, 0, 7, {}) + bytes(size - 50))[4:]
    replies = [dispatcher.handle(frame, NotedConnection()) for _ in range(50)]
    for reply in replies:
        assert await served.answer(reply) is not None
    assert most == 10
    assert len(slices) == 0
