"""DeleteRecords of a partition with followers: the answer waits until none of them would serve the records any more."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, cast
from uuid import UUID

import pytest

from broker_runtime.apis.topics import delete_records
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.topics import Partition
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.replication.wanted_isr import wanted_change
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.disk.checkpoint import LOG_STARTS, read_offsets
from broker_runtime.storage.log.log import Log
from broker_runtime.wire.messages import decode_request, encode_request_body, encode_response
from kafka_bytes.batches import encode_batch
from tests.support.logs.logs import LOG_DIR, LogHouse
from tests.support.logs.replicas import LeadingNode, broker_info, brokers, leading
from tests.support.requests.calls import a_call, fields_later, fields_of

VERSION = 2


class Scene:
    """Broker 1 leads orders-0 with three records; 2 and 3 have them all."""

    def __init__(self) -> None:
        self.house = LogHouse()
        self.leader = leading(self.house.log, 1, 2, 3)
        for value in (b"a", b"b", b"c"):
            self.house.append(value)
        self.fetch(2, 0)
        self.fetch(3, 0)

    def fetch(self, replica: int, log_start: int) -> None:
        self.leader.on_fetch(replica, -1, 3, 0.0, log_start)

    def ask(self, *before: int, timeout_ms: int = 60_000) -> Any:
        partitions = [{"partition_index": 0, "offset": offset} for offset in before]
        content = {"topics": [{"name": "orders", "partitions": partitions}], "timeout": timeout_ms}
        request = decode_request(21, VERSION, memoryview(encode_request_body(21, VERSION, content)))
        node: Any = LeadingNode(self.leader, self.house.clock)
        node.logs = self.house.logs
        return fields_of(delete_records.handle(request, a_call(delete_records.API, VERSION), node))

    async def begin(self, *before: int, timeout_ms: int = 60_000) -> "asyncio.Task[Any]":
        answer = self.ask(*before, timeout_ms=timeout_ms)
        assert not isinstance(answer, dict), "it was answered before the followers had heard of it"
        task = asyncio.ensure_future(fields_later(answer))
        await asyncio.sleep(0)
        return task


def told(answer: Any) -> list[tuple[ErrorCode, int]]:
    assert encode_response(21, VERSION, 0, answer)
    parts = answer["topics"][0]["partitions"]
    return [(ErrorCode(part["error_code"]), part["low_watermark"]) for part in parts]


async def test_deletion_is_answered_when_every_live_replica_has_the_new_start() -> None:
    scene = Scene()
    answer = await scene.begin(2)
    scene.fetch(2, 2)
    await asyncio.sleep(0)
    assert not answer.done()
    scene.fetch(3, 2)
    assert told(await answer) == [(ErrorCode.NONE, 2)]


async def test_what_the_replicas_have_already_is_answered_at_once() -> None:
    scene = Scene()
    await scene.begin(2)
    scene.fetch(2, 2)
    scene.fetch(3, 2)
    assert told(scene.ask(1)) == [(ErrorCode.NONE, 2)]


async def test_the_requests_time_out_ends_the_wait_and_the_records_are_deleted_all_the_same() -> None:
    scene = Scene()
    answer = await scene.begin(2, timeout_ms=1)
    scene.fetch(2, 2)
    assert told(await answer) == [(ErrorCode.REQUEST_TIMED_OUT, 0)]
    assert scene.house.log.log_start_offset == 2
    assert told(await (await scene.begin(2, timeout_ms=0))) == [(ErrorCode.REQUEST_TIMED_OUT, 0)]


def third_is_away(scene: Scene, *, elr: tuple[int, ...]) -> None:
    """Fence broker 3 and remove it from the in-sync set."""
    known = brokers(1, 2)
    known[3] = broker_info(3, fenced=True)
    scene.leader.update(Partition((1, 2, 3), (1, 2), 1, 0, 1, elr=elr), known, 0.0)


async def test_a_broker_that_is_offline_is_not_waited_for() -> None:
    scene = Scene()
    answer = await scene.begin(2)
    scene.fetch(2, 2)
    third_is_away(scene, elr=())
    assert told(await answer) == [(ErrorCode.NONE, 2)]


async def test_a_broker_that_is_away_and_may_lead_is_waited_for() -> None:
    """The broker would serve the records when it returns as the leader (KIP-966)."""
    scene = Scene()
    scene.fetch(2, 2)
    third_is_away(scene, elr=(3,))
    assert told(await (await scene.begin(2, timeout_ms=1))) == [(ErrorCode.REQUEST_TIMED_OUT, 0)]


async def test_a_returning_follower_joins_the_isr_once_it_has_the_leaders_start_offset() -> None:
    scene = Scene()
    scene.fetch(2, 2)
    third_is_away(scene, elr=())
    scene.ask(2)
    known = brokers(1, 2, 3)
    scene.leader.follow_brokers(known, 0.0)
    scene.fetch(3, 0)
    assert wanted_change(scene.leader, known, 1.0, 30.0, 11) is None
    scene.fetch(3, 2)
    change = wanted_change(scene.leader, known, 1.0, 30.0, 11)
    assert change is not None
    assert change.isr == (1, 2, 3)


async def test_a_replica_that_has_not_fetched_yet_is_waited_for() -> None:
    scene = Scene()
    scene.fetch(2, 2)
    scene.leader.follow_brokers(brokers(1, 2) | {3: broker_info(3, epoch=20)}, 0.0)
    answer = await scene.begin(2)
    scene.leader.on_fetch(3, -1, 3, 0.0, 2)
    assert told(await answer) == [(ErrorCode.NONE, 2)]


async def test_another_leader_may_not_have_it() -> None:
    scene = Scene()
    answer = await scene.begin(2)
    scene.leader.resign()
    assert told(await answer) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


async def test_a_new_epoch_of_the_same_leader_may_not_have_it_either() -> None:
    scene = Scene()
    answer = await scene.begin(2)
    scene.leader.update(Partition((1, 2, 3), (1, 2, 3), 1, 1, 1), brokers(1, 2, 3), 0.0)
    assert told(await answer) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]


async def test_each_partition_has_its_own_outcome() -> None:
    scene = Scene()
    answer = await scene.begin(9, 1, 2, timeout_ms=1)
    scene.fetch(2, 1)
    scene.fetch(3, 1)
    refused, first, second = told(await answer)
    assert refused == (ErrorCode.OFFSET_OUT_OF_RANGE, -1)
    assert first == (ErrorCode.NONE, 1)
    assert second[0] == ErrorCode.REQUEST_TIMED_OUT


async def test_a_disconnected_client_does_not_wait_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    scene = Scene()
    waiting: set[int] = set()

    def wait(_: LeaderReplica, offset: int, callback: Callable[[], None]) -> Callable[[], None]:
        del callback
        waiting.add(offset)
        return lambda: waiting.discard(offset)

    monkeypatch.setattr(LeaderReplica, "wait_for_deletion", wait)
    answer = await scene.begin(2)
    assert waiting == {2}
    answer.cancel()
    await asyncio.gather(answer, return_exceptions=True)
    assert not waiting


async def test_the_starts_of_many_partitions_are_noted_with_one_write_and_survive_a_power_loss() -> None:
    house = LogHouse()
    logs = [house.logs.create("many", index, UUID(int=9), house.config) for index in range(200)]
    for log in logs:
        log.append(memoryview(encode_batch([(b"k", b"a"), (b"k", b"b")], 1)))
        log.flush()
    leaders = {log.partition: _sole(log) for log in logs}
    node: Any = LeadingNode(leaders[0], house.clock)
    node.logs, node.led = house.logs, lambda _topic, index: leaders[index]
    partitions = [{"partition_index": log.partition, "offset": 1} for log in logs]
    content = {"topics": [{"name": "many", "partitions": partitions}], "timeout": 60_000}
    request = decode_request(21, VERSION, memoryview(encode_request_body(21, VERSION, content)))
    before = house.fs.fsyncs
    answer = fields_of(delete_records.handle(request, a_call(delete_records.API, VERSION), node))
    assert {code for code, _ in told(answer)} == {ErrorCode.NONE}
    assert house.fs.fsyncs - before <= 4, "the checkpoint and the ledger, and their names"
    starts = read_offsets(house.fs.power_loss(random.Random(1)), LOG_DIR / LOG_STARTS)
    assert starts == {("many", index): 1 for index in range(200)}


def _sole(log: Log) -> LeaderReplica:
    leader = LeaderReplica(1, log.topic, log.topic_id, log.partition, log)
    leader.update(Partition((1,), (1,), 1, 0, 0), brokers(1), 0.0)
    return leader


async def test_what_cannot_be_noted_is_not_answered_as_deleted() -> None:
    scene = Scene()
    scene.house.fs.read_only = True
    answer = await scene.begin(2)
    scene.fetch(2, 2)
    scene.fetch(3, 2)
    assert told(await answer) == [(ErrorCode.KAFKA_STORAGE_ERROR, -1)]
    scene.house.fs.mend()
    at_once(scene.house.logs.tick())
    assert read_offsets(scene.house.fs, LOG_DIR / LOG_STARTS) == {("orders", 0): 2}


async def test_events_before_the_wait_begins_end_it_too() -> None:
    """The handler has returned, and its task has not run yet."""
    scene = Scene()
    answer = cast("Awaitable[Any]", scene.ask(2))
    scene.fetch(2, 2)
    scene.fetch(3, 2)
    async with asyncio.timeout(30):
        assert told(await fields_later(answer)) == [(ErrorCode.NONE, 2)]
    answer = cast("Awaitable[Any]", scene.ask(3))
    scene.leader.resign()
    async with asyncio.timeout(30):
        assert told(await fields_later(answer)) == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)]
