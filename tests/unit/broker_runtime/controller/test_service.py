"""The single writer: order, one fsync for all that wait, survival of a power loss, refusals, replay."""

import asyncio
import contextlib
import random
import re
from pathlib import Path
from uuid import UUID

import pytest

from broker_runtime.controller.history import ReplayError
from broker_runtime.controller.journal.seam import JournalFailedError
from broker_runtime.controller.registration import Heartbeat, Registration, fence
from broker_runtime.controller.service import _until_one_ends
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.areas.cluster import ControllerChange
from broker_runtime.metadata.areas.configs import ConfigRecord
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.metadata.record import MetadataRecord
from broker_runtime.slicing.steps import at_once
from broker_runtime.storage.log.log import Log
from kafka_bytes.batches import encode_batch
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem
from tests.support.oracles.circles import no_circles
from tests.support.worlds.controller import CLUSTER_ID, ControllerInMemory, endpoints


def config(number: int) -> ConfigRecord:
    return ConfigRecord(4, "", "max.connections", str(number))


def of_content(image: MetadataImage) -> list[MetadataRecord]:
    """The records of an image without its controller changes."""
    return [record for record in image.records() if not isinstance(record, ControllerChange)]


def watch_fsyncs(node: ControllerInMemory, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(log end, high watermark) at each fsync of the journal from now on."""
    syncs: list[tuple[int, int]] = []
    flush = Log.flush

    def watched(log: Log) -> None:
        if log is node.journal:
            syncs.append((log.log_end_offset, log.high_watermark))
        flush(log)

    monkeypatch.setattr(Log, "flush", watched)
    return syncs


async def test_answered_means_on_disk_and_replayed_after_a_power_loss() -> None:
    async with ControllerInMemory() as node:
        await node.broker()
        await node.write(config(5))
        before = of_content(node.image)
        disk = node.fs.power_loss(random.Random(1))
    async with ControllerInMemory(disk) as again:
        assert of_content(again.image) == before


async def test_requests_are_decided_in_order_each_seeing_the_one_before() -> None:
    def next_number(image: MetadataImage) -> tuple[list[MetadataRecord], int]:
        number = int(image.configs.of_broker(None).get("max.connections", "0")) + 1
        return [config(number)], number

    async with ControllerInMemory() as node:
        answers = await asyncio.gather(*(node.controller.submit(next_number) for _ in range(50)))
    assert answers == list(range(1, 51))


async def test_all_that_wait_share_one_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ControllerInMemory() as node:
        syncs = watch_fsyncs(node, monkeypatch)
        end = node.journal.log_end_offset
        await asyncio.gather(*(node.write(config(n)) for n in range(20)))
        assert [written for written, _ in syncs] == [end + 20]


async def test_brokers_see_a_record_only_when_it_is_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    async with ControllerInMemory() as node:
        syncs = watch_fsyncs(node, monkeypatch)
        end = node.journal.log_end_offset
        await node.write(config(1))
        assert syncs == [(end + 1, end)]
        assert node.journal.high_watermark == end + 1


async def test_a_failed_fsync_ends_the_controller_and_nobody_sees_the_records() -> None:
    async with ControllerInMemory() as node:
        seen = node.journal.high_watermark
        node.fs.failing_fsync = True
        for _ in range(2):
            with pytest.raises(KafkaError) as refused:
                await node.write(config(1))
            assert refused.value.code == ErrorCode.NOT_CONTROLLER
        with pytest.raises(JournalFailedError, match="fsync on __cluster_metadata-0 failed"):
            await node.controller.failed
        assert node.journal.high_watermark == seen


async def test_a_refusal_based_on_an_unsynced_change_is_sent_after_that_is_on_disk() -> None:
    def once(image: MetadataImage) -> tuple[list[MetadataRecord], None]:
        if image.configs.of_broker(None):
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, "it is there")
        return [config(1)], None

    async with ControllerInMemory() as node:
        node.fs.failing_fsync = True
        told = await asyncio.gather(*(node.controller.submit(once) for _ in range(2)), return_exceptions=True)
        assert [each.code for each in told if isinstance(each, KafkaError)] == [ErrorCode.NOT_CONTROLLER] * 2
        with pytest.raises(JournalFailedError):
            await node.controller.failed


async def test_a_decision_whose_records_do_not_fit_ends_the_controller_before_they_are_on_disk() -> None:
    async with ControllerInMemory() as node:
        seen = node.journal.high_watermark
        with pytest.raises(KafkaError) as refused:
            await node.write(ControllerChange(1, 0))
        assert refused.value.code == ErrorCode.NOT_CONTROLLER
        with pytest.raises(ValueError, match="the controller epoch decreased"):
            await node.controller.failed
        assert node.journal.high_watermark == seen


UNCLEAN = "unclean.leader.election.enable"


async def left_by_its_leader(node: ControllerInMemory) -> None:
    """Make a topic whose in-sync replica is gone and whose other replica is there."""
    topic_id = UUID(int=7)
    await node.broker(1)
    await node.broker(2)
    await node.write(TopicRecord("t", topic_id), PartitionRecord(topic_id, 0, (1, 2), (1,), 1, 0, 0))
    await node.controller.submit(lambda image: (at_once(fence(image.brokers[1], image)), None))
    assert node.image.topics["t"].partitions[0].leader == -1


async def test_an_unclean_election_happens_with_the_change_that_allows_it() -> None:
    async with ControllerInMemory(properties={"auto.leader.rebalance.enable": "false"}) as node:
        await left_by_its_leader(node)
        await node.write(ConfigRecord(4, "", UNCLEAN, "true"))
        part = node.image.topics["t"].partitions[0]
        assert (part.leader, part.isr) == (2, (2,))


async def test_an_unclean_election_runs_at_the_start_if_the_properties_now_allow_it() -> None:
    async with ControllerInMemory() as node:
        await left_by_its_leader(node)
        disk = node.fs.power_loss(random.Random(1))
    async with ControllerInMemory(disk, {UNCLEAN: "true"}) as again:
        part = again.image.topics["t"].partitions[0]
        assert (part.leader, part.isr) == (2, (2,))


TOPIC_ID = UUID(int=7)


def led_by(leader: int, *isr: int) -> PartitionRecord:
    return PartitionRecord(TOPIC_ID, 0, (1, 2), isr, leader, 1, 1)


async def leader_moves(node: ControllerInMemory, to: int) -> None:
    async with asyncio.timeout(30):
        while node.image.topics["t"].partitions[0].leader != to:  # noqa: ASYNC110 - a timer of the controller's moves it
            await asyncio.sleep(0.01)


async def test_a_preferred_replica_leads_soon_after_it_is_back_in_sync() -> None:
    async with ControllerInMemory(properties={"sluicegate.leader.rebalance.delay.ms": "20"}) as node:
        await node.broker(1)
        await node.broker(2)
        await node.write(TopicRecord("t", TOPIC_ID), led_by(2, 2))
        for _ in range(2):
            # Long after the controller has become active, and again.
            await node.write(led_by(2, 2, 1))
            await leader_moves(node, 1)
        disk = node.fs.power_loss(random.Random(1))
    slow = {"sluicegate.leader.rebalance.delay.ms": "600000"}
    async with ControllerInMemory(disk, slow) as again:
        await again.broker(1)
        await again.broker(2)
        await again.write(led_by(2, 2, 1))
        assert again.image.topics["t"].partitions[0].leader == 2, "it waits for its delay, and for Kafka's interval"


async def test_refused_and_failing_decisions_write_nothing_and_block_no_other() -> None:
    def refuse(image: MetadataImage) -> tuple[list[MetadataRecord], None]:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "no")

    def fail(image: MetadataImage) -> tuple[list[MetadataRecord], None]:
        raise ZeroDivisionError

    async with ControllerInMemory() as node:
        end = node.journal.log_end_offset
        done = await asyncio.gather(
            node.controller.submit(refuse), node.controller.submit(fail), node.write(config(1)), return_exceptions=True
        )
        assert [type(each) for each in done] == [KafkaError, ZeroDivisionError, type(None)]
        assert node.journal.log_end_offset == end + 1


async def test_the_queue_has_an_end() -> None:
    async with ControllerInMemory(properties={"controller.request.queue.max": "2"}) as node:
        done = await asyncio.gather(*(node.write(config(n)) for n in range(4)), return_exceptions=True)
        assert [getattr(each, "code", None) for each in done] == [None, None, *[ErrorCode.REQUEST_TIMED_OUT] * 2]


async def test_a_request_larger_than_a_batch_is_written_in_several() -> None:
    topic_id = UUID(int=9)
    partitions = [PartitionRecord(topic_id, n, (1,), (1,), 1, 0, 0) for n in range(30_000)]
    async with ControllerInMemory() as node:
        await node.write(TopicRecord("large", topic_id), *partitions)
        disk = node.fs.process_killed()
    async with ControllerInMemory(disk) as again:
        assert len(again.image.topics["large"].partitions) == 30_000


async def test_a_silent_broker_is_fenced_and_a_heartbeat_keeps_another() -> None:
    async with ControllerInMemory(properties={"broker.session.timeout.ms": "9000"}) as node:
        epochs = [await node.broker(broker_id) for broker_id in (2, 3)]
        for broker_id, epoch in zip((2, 3), epochs, strict=True):
            await node.controller.heartbeat(Heartbeat(broker_id, epoch, 99, False, False))
        node.clock.advance(9.0)
        await node.controller.heartbeat(Heartbeat(3, epochs[1], 99, False, False))
        await node.controller.fence_silent_brokers()
        assert node.image.brokers.is_active(2)
        node.clock.advance(0.001)
        await node.controller.fence_silent_brokers()
        assert [node.image.brokers.is_active(broker_id) for broker_id in (2, 3)] == [False, True]


async def test_after_a_kill_the_own_broker_registers_at_once_and_another_ones_id_is_held() -> None:
    async with ControllerInMemory() as node:
        await node.broker(1)
        await node.broker(2)
        disk = node.fs.process_killed()
    async with ControllerInMemory(disk) as again:
        new = [Registration(broker_id, CLUSTER_ID, UUID(int=77), endpoints(), None) for broker_id in (1, 2)]
        assert await again.controller.register(new[0]) == again.image.brokers[1].epoch
        with pytest.raises(KafkaError) as refused:
            await again.controller.register(new[1])
        assert refused.value.code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


async def test_a_damaged_journal_and_one_of_another_cluster_end_the_start() -> None:
    node = ControllerInMemory()
    node.journal.append(memoryview(encode_batch([(None, b"\x01nonsense")], 0)))
    with pytest.raises(ReplayError, match="damaged at offset 0"):
        await node.__aenter__()
    async with ControllerInMemory() as fine:
        disk = fine.fs.process_killed()
    other = ControllerInMemory(disk, cluster_id="of-somebody-else")
    with pytest.raises(ReplayError, match="belongs to cluster"):
        await other.__aenter__()


async def test_pending_writes_fail_when_the_controller_stops() -> None:
    node = ControllerInMemory()
    await node.__aenter__()
    waiting = asyncio.ensure_future(node.write(config(1)))
    await node.controller.stop()
    with pytest.raises(KafkaError) as told:
        await waiting
    assert told.value.code == ErrorCode.NOT_CONTROLLER


@pytest.mark.parametrize("seed", range(30))
async def test_snapshots_and_power_losses_take_nothing_that_was_answered(seed: int) -> None:
    rng = random.Random(seed)
    small = {"metadata.log.max.record.bytes.between.snapshots": "1500"}
    disk: MemoryFileSystem | None = None
    answered: dict[str, str] = {}
    started_from: set[bool] = set()
    for _ in range(6):
        async with ControllerInMemory(disk, small) as node:
            started_from.add(node.controller.history.snapshot is not None)
            stored = node.image.configs.of_broker(None)
            assert {key: stored.get(key) for key in answered} == answered
            for number in range(rng.randrange(5, 60)):
                key, value = f"key-{rng.randrange(8)}", f"{seed}-{number}"
                await node.write(ConfigRecord(4, "", key, value))
                answered[key] = value
                if rng.random() < 0.2:
                    # Snapshots are written in the background, segments are deleted by the tick.
                    await asyncio.sleep(0)
                    node.clock.advance(rng.choice((0.1, 90.0)))
                    at_once(node.logs.tick())
            disk = node.fs.power_loss(rng)
    assert started_from == {False, True}


async def test_the_log_is_bounded_by_snapshots() -> None:
    async with ControllerInMemory(properties={"metadata.log.max.record.bytes.between.snapshots": "5000"}) as node:
        for number in range(1_000):
            await node.write(ConfigRecord(4, "", f"key-{number % 10}", str(number)))
        async with asyncio.timeout(60):
            # The last snapshot is written in the background, and then the tick deletes segments.
            while node.journal.log_start_offset <= 800 or node.journal.size >= 4 * 5000:
                await asyncio.sleep(0.01)
                at_once(node.logs.tick())
        assert node.controller.history.snapshot is not None


async def test_a_snapshot_that_is_damaged_is_passed_by_for_the_one_before() -> None:
    small = {"metadata.log.max.record.bytes.between.snapshots": "1500"}
    async with ControllerInMemory(properties=small) as node:
        for number in range(200):
            await node.write(config(number))
            await asyncio.sleep(0)
        before = of_content(node.image)
        disk = node.fs.process_killed()
    folder = Path("/data/__cluster_metadata-0")
    newest = max(name for name in disk.listdir(folder) if re.fullmatch(r"\d{20}-\d{10}\.checkpoint", name))
    disk.open(folder / newest).write_at([b"!"], 40)
    async with ControllerInMemory(disk, small) as again:
        assert of_content(again.image) == before
        assert again.controller.history.snapshot is not None
        assert f"{again.controller.history.snapshot.end_offset:020d}" < newest


async def fail_a_term() -> None:
    async def fail() -> None:
        raise JournalFailedError("the disk is gone")

    with contextlib.suppress(JournalFailedError):
        await _until_one_ends(fail(), asyncio.sleep(60))
    # The loop refers to the last task until the next iteration.
    await asyncio.sleep(0)


async def test_a_term_that_fails_keeps_nothing() -> None:
    with no_circles():
        await fail_a_term()
