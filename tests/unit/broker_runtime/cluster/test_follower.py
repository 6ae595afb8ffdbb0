"""Following the metadata of a real controller in memory, by its frames: records, snapshots, restored backups."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from broker_runtime.cluster.follower import MetadataFollower
from broker_runtime.cluster.links.link import ControllerClient
from broker_runtime.cluster.links.loopback_link import LoopbackLink
from broker_runtime.config import SecurityProtocol, TopicConfig, broker_settings
from broker_runtime.controller.journal.choice import JournalParts
from broker_runtime.errors import ErrorCode
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.topics import PartitionRecord, RemoveTopic, TopicRecord
from broker_runtime.metadata.changes import Changes
from broker_runtime.metadata.codec import RecordFormatError, encode_record
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.metadata.topic_names import METADATA_TOPIC
from broker_runtime.network.quotas.metrics import Sample
from broker_runtime.node.controller_node import ControllerNode
from broker_runtime.slicing.slice_lengths import SliceLengths
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.log_dir.manager import LogManager
from broker_runtime.wire.header import response_prefix
from broker_runtime.wire.messages import encode_response
from broker_runtime.wire.reply import Parts
from kafka_bytes.batches import encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.fakes.inline_executor import InlineExecutor
from tests.support.fakes.manual_clock import ManualClock

TOPIC = UUID(int=9)


class NoServer:
    """A server without listeners: the frames come over the loopback link."""

    def add_listener(self, name: str, host: str, port: int, _: SecurityProtocol) -> tuple[str, int]:
        return host, port

    def start(self) -> None: ...

    def collect(self) -> Sequence[Sample]:
        return ()

    @property
    def slice_lengths(self) -> Sequence[SliceLengths]:
        return ()

    async def shutdown(self, drain_s: float) -> None: ...


@asynccontextmanager
async def controller(fs: MemoryFileSystem | None = None, snapshot_bytes: int = 2_000) -> AsyncIterator[ControllerNode]:
    clock = ManualClock()
    settings = broker_settings(
        {
            "node.id": "100",
            "process.roles": "controller",
            "listeners": "CONTROLLER://127.0.0.1:9093",
            "controller.listener.names": "CONTROLLER",
            "metadata.log.max.record.bytes.between.snapshots": str(snapshot_bytes),
        }
    )
    logs = LogManager(Path("/data"), fs=fs or MemoryFileSystem(), clock=clock)
    logs.open(lambda _topic: TopicConfig(retention_ms=-1, retention_bytes=-1))
    parts = JournalParts(InlineExecutor(), "test")
    node = ControllerNode(settings, clock, logs, "cluster", parts=parts, server=NoServer())
    await node.start()
    yield node
    await node.stop()
    logs.close()


class Node:
    """A follower with its image and the changes that it received."""

    def __init__(self, source: ControllerNode) -> None:
        self.image = MetadataImage()
        self.changes: list[Changes] = []
        self.follower = self._follower_of(source)

    def _follower_of(self, source: ControllerNode) -> MetadataFollower:
        client = ControllerClient(LoopbackLink(source.dispatcher), 5.0)
        return MetadataFollower(client, self.image, self.publish)

    def publish(self, changes: Changes, done: Callable[[], None]) -> None:
        if changes:
            self.changes.append(changes)
        done()

    def follow(self, source: ControllerNode) -> None:
        next_offset = self.follower.next_offset
        self.follower = self._follower_of(source)
        self.follower.next_offset = next_offset

    async def catch_up(self, source: ControllerNode) -> None:
        """Run the follower until it has the same metadata."""
        running = asyncio.ensure_future(self.follower.run())
        try:
            assert await self.follower.wait_until(lambda image: image == source.image, 10.0)
        finally:
            running.cancel()


async def write(source: ControllerNode, *records: MetadataRecord) -> None:
    await source.controller.submit(lambda image: (records, None))


async def write_much(source: ControllerNode, rounds: int = 200) -> None:
    for number in range(rounds):
        await write(source, ConfigRecord(4, "", f"key-{number % 10}", str(number)))


async def snapshot_taken(source: ControllerNode) -> None:
    async with asyncio.timeout(60):
        while source.controller.history.snapshot is None or source.logs.logs()[0].log_start_offset == 0:  # noqa: ASYNC110
            await asyncio.sleep(0)


async def test_records_come_as_they_are_written() -> None:
    async with controller() as source:
        node = Node(source)
        await node.catch_up(source)
        await write(source, TopicRecord("orders", TOPIC), PartitionRecord(TOPIC, 0, (1,), (1,), 1, 0, 0))
        await node.catch_up(source)
    assert node.changes[-1].partitions == {(TOPIC, 0)}


async def test_a_follower_far_behind_loads_a_snapshot_and_applies_deletions() -> None:
    async with controller() as source:
        await write(source, TopicRecord("gone", TOPIC), PartitionRecord(TOPIC, 0, (1,), (1,), 1, 0, 0))
        node = Node(source)
        await node.catch_up(source)
        former = node.image.topics
        assert "gone" in former
        node.changes.clear()
        await write(source, RemoveTopic(TOPIC))
        await write_much(source)
        await snapshot_taken(source)
        assert source.logs.logs()[0].log_start_offset > node.follower.next_offset
        await node.catch_up(source)
        # Code that reads topics in steps keeps the table that it began with.
        assert node.image.topics is not former
        assert set(former) == {"gone"}
        assert node.changes[0].topics_removed == {"gone"}
        assert node.changes[0].broker_configs == {None}
        fresh = Node(source)
        await fresh.catch_up(source)
        assert fresh.image.configs.of_broker(None)["key-9"] == "199"


async def test_a_controller_starts_from_its_snapshot_with_the_log_behind_it() -> None:
    fs = MemoryFileSystem()
    async with controller(fs) as source:
        await write_much(source)
        await snapshot_taken(source)
        before = dict(source.image.configs.of_broker(None))
        disk = fs.process_killed()
        names = [name for name in fs.listdir(Path("/data/__cluster_metadata-0")) if name.endswith(".checkpoint")]
        assert len([name for name in names if name[0].isdigit()]) == 2
    async with controller(disk) as again:
        assert again.controller.history.snapshot is not None
        assert again.image.configs.of_broker(None) == before
        node = Node(again)
        await node.catch_up(again)


async def test_a_node_that_knows_more_than_the_controller_says_so_and_believes_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The controller's volume was restored from an older copy."""
    async with controller(snapshot_bytes=1_000_000) as source:
        await write(source, TopicRecord("lost", TOPIC))
        await write_much(source, rounds=50)
        node = Node(source)
        await node.catch_up(source)
    async with controller() as older:
        node.follow(older)
        node.changes.clear()
        with caplog.at_level(logging.ERROR):
            await node.catch_up(older)
    assert "restored from an older copy" in caplog.text
    assert node.changes[0].topics_removed == {"lost"}
    assert node.image.topics == {}


async def test_a_controller_with_another_history_is_believed_though_it_has_come_further() -> None:
    """The controller was restored too, but has written more since than this node has ever seen."""
    fs = MemoryFileSystem()
    async with controller(fs) as source:
        older = fs.power_loss(random.Random(1))
        await write(source, TopicRecord("lost", TOPIC))
        node = Node(source)
        await node.catch_up(source)
    async with controller(older) as restored:
        await write_much(restored, rounds=20)
        assert restored.image.offset > node.image.offset
        node.follow(restored)
        await node.catch_up(restored)
    assert node.image.topics == {}


async def test_a_log_without_the_records_after_its_snapshot_is_polled_with_pauses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with controller() as source:
        node = Node(source)
        await node.catch_up(source)
        node.image.cluster.controller_epoch = 99

        def no_change(image: MetadataImage, fresh: MetadataImage) -> Steps[Changes]:
            yield
            return Changes()

        def empty(payload: bytes, end_offset: int) -> Steps[MetadataImage]:
            return MetadataImage.of_snapshot([], end_offset)

        monkeypatch.setattr("broker_runtime.cluster.follower.load_in_steps", empty)
        monkeypatch.setattr(MetadataImage, "replace_by", no_change)
        running = asyncio.ensure_future(node.follower.run())
        await asyncio.sleep(0.2)
        running.cancel()
    assert 1 <= caplog.text.count("does not continue from its snapshot") <= 4


class Standbys(LoopbackLink):
    """Two standby controllers that refuse a fetch, before the active one."""

    choices = 3

    def __init__(self, source: ControllerNode) -> None:
        super().__init__(source.dispatcher)
        self.left = 2
        self.asked = 0

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> Parts:
        self.asked += 1
        if not self.left:
            return await super().exchange(api_key, version, body)
        part = {
            "partition_index": 0,
            "error_code": ErrorCode.NOT_LEADER_OR_FOLLOWER,
            "high_watermark": -1,
            "aborted_transactions": None,
            "records": None,
        }
        content = {
            "error_code": ErrorCode.NONE,
            "session_id": 0,
            "responses": [{"topic": METADATA_TOPIC, "partitions": [part]}],
        }
        whole = encode_response(api_key, version, 0, content)
        return (memoryview(whole)[len(response_prefix(api_key, version, 0, 0)) :],)

    def move_on(self) -> None:
        self.left -= 1


async def test_standbys_are_passed_by_without_a_pause(caplog: pytest.LogCaptureFixture) -> None:
    async with controller() as source:
        await write(source, TopicRecord("orders", TOPIC))
        node, link = Node(source), Standbys(source)
        node.follower = MetadataFollower(ControllerClient(link, 5.0), node.image, node.publish)
        await node.catch_up(source)
    assert link.asked >= 3
    assert "metadata cannot be fetched" not in caplog.text
    assert "orders" in node.image.topics


class OneAnswer:
    """A controller client that has one batch of records."""

    choices = 1

    def __init__(self, *values: bytes) -> None:
        self._batch = encode_batch([(None, value) for value in values], 0)

    async def request(self, api_key: int, version: int, content: object, *, timeout_s: float) -> Any:
        part = SimpleNamespace(error_code=0, records=bytes(self._batch), high_watermark=2)
        return SimpleNamespace(responses=[SimpleNamespace(partitions=[part])])


@pytest.mark.parametrize(
    "second",
    [encode_record(PartitionRecord(UUID(int=99), 0, (1,), (1,), 1, 0, 0)), b"\xff\xff"],
    ids=["of a topic that is not there", "no record"],
)
async def test_an_answer_that_cannot_be_applied_as_a_whole_changes_nothing(second: bytes) -> None:
    told: list[Changes] = []
    client: Any = OneAnswer(encode_record(TopicRecord("orders", TOPIC)), second)
    image = MetadataImage()
    follower = MetadataFollower(client, image, lambda changes, done: told.append(changes))
    with pytest.raises((ValueError, RecordFormatError)):
        await follower.run()
    assert image == MetadataImage()
    assert (told, follower.next_offset) == ([], 0)


class LeavesOut(OneAnswer):
    """A controller client whose first answers lack what was requested; it blocks after its own answer."""

    def __init__(self, value: bytes, *before: Any) -> None:
        super().__init__(value)
        self._before = list(before)
        self._answered = False

    async def request(self, api_key: int, version: int, content: object, *, timeout_s: float) -> Any:
        if self._before:
            return self._before.pop(0)
        if self._answered:
            await asyncio.Event().wait()
        self._answered = True
        return await super().request(api_key, version, content, timeout_s=timeout_s)


async def test_an_answer_that_leaves_out_the_metadata_is_asked_for_again() -> None:
    record = encode_record(TopicRecord("orders", TOPIC))
    empty = SimpleNamespace(responses=(SimpleNamespace(partitions=()),))
    client: Any = LeavesOut(record, SimpleNamespace(responses=()), empty)
    follower = MetadataFollower(client, MetadataImage(), lambda _changes, done: done())
    task = asyncio.create_task(follower.run())
    try:
        assert await follower.wait_until(lambda image: "orders" in image.topics, 10)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_many_records_are_applied_over_time_slices_and_seen_at_once() -> None:
    async with controller(snapshot_bytes=10_000_000) as source:
        await write(source, TopicRecord("orders", TOPIC))
        node = Node(source)
        await node.catch_up(source)
        parts = [PartitionRecord(TOPIC, index, (1,), (1,), 1, 0, 0) for index in range(1000)]
        await write(source, *parts)
        running = asyncio.ensure_future(node.follower.run())
        slices, seen = 0, set[int]()
        async with asyncio.timeout(60):
            while node.follower.next_offset <= source.image.offset:
                await asyncio.sleep(0)
                slices += 1
                seen.add(len(node.image.topics["orders"].partitions))
        running.cancel()
    assert seen == {0, 1000}
    assert slices > 2 * 1000 / 100


async def test_the_follower_waits_until_metadata_changes_are_in_force() -> None:
    held: list[Callable[[], None]] = []
    async with controller() as source:
        node = Node(source)
        await node.catch_up(source)
        node.follower = MetadataFollower(
            ControllerClient(LoopbackLink(source.dispatcher), 5.0), node.image, lambda changes, done: held.append(done)
        )
        node.follower.next_offset = node.image.offset + 1
        node.follower.applied_offset = node.image.offset
        await write(source, TopicRecord("orders", TOPIC))
        running = asyncio.ensure_future(node.follower.run())
        waiting = asyncio.ensure_future(node.follower.wait_until(lambda image: "orders" in image.topics, 60.0))
        async with asyncio.timeout(60):
            while "orders" not in node.image.topics:  # noqa: ASYNC110
                await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)
            assert not waiting.done()
            assert not node.follower.caught_up
            assert node.follower.lag == 1
            for done in held:
                done()
            assert await waiting
        running.cancel()
        assert node.follower.applied_offset == node.image.offset
        assert node.follower.caught_up
