"""The leaders that the lag watch asks, and its figures when one does not answer."""

import asyncio
from collections.abc import Callable
from uuid import UUID

import pytest

from broker_runtime.config.keys.groups import LagConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.groups.lag.log_ends import LogEndReader
from broker_runtime.groups.lag.metrics import LagMetrics
from broker_runtime.groups.lag.watch import LagWatch
from broker_runtime.groups.records import OffsetCommitKey, OffsetCommitValue
from broker_runtime.groups.state import CommittedOffsets
from broker_runtime.metadata.areas.topics import PartitionRecord, TopicRecord
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.messages import decode_request, encode_response_body
from broker_runtime.wire.versions import LIST_OFFSETS
from tests.support.fakes.manual_clock import ManualClock

pytestmark = pytest.mark.virtual_time

ORDERS = UUID(int=7)
ME, OTHER, THIRD = 1, 2, 3
TIMEOUT_S = 5.0
NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Leader:
    """A broker that is asked for log ends: `ends` by partition of orders; it leads no others."""

    def __init__(self) -> None:
        self.ends: dict[int, int] = {}
        self.asked: list[list[int]] = []
        self.away = self.silent = self.confused = False
        self.closed = 0

    async def exchange(self, api_key: int, version: int, body: bytes | memoryview) -> memoryview:
        request = decode_request(api_key, version, memoryview(body))
        if self.silent:
            await asyncio.Event().wait()
        if self.away:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "broker 2 is away")
        if self.confused:
            return memoryview(b"nonsense")
        (topic,) = request.topics
        self.asked.append([part.partition_index for part in topic.partitions])
        parts = [self._answer(part.partition_index) for part in topic.partitions]
        answer = {"topics": [{"name": topic.name, "partitions": parts}]}
        return memoryview(encode_response_body(LIST_OFFSETS, version, answer))

    def _answer(self, index: int) -> dict[str, int]:
        known = self.ends.get(index)
        error = NOT_LEADER if known is None else ErrorCode.NONE
        return {
            "partition_index": index,
            "error_code": error,
            "timestamp": -1,
            "offset": -1 if known is None else known,
            "leader_epoch": -1,
        }

    def close(self) -> None:
        self.closed += 1


class Coordinator:
    """Broker 1 leads orders-0, broker 2 orders-1 and orders-2; orders-3 has no leader."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.own = {("orders", 0): 100}
        self.other = Leader()
        self.image = MetadataImage()
        self.image.apply(TopicRecord("orders", ORDERS), 0)
        for index, leader in enumerate((ME, OTHER, OTHER, -1)):
            self.image.apply(PartitionRecord(ORDERS, index, (1, 2), (1, 2), leader, 0, 0), index + 1)
        self.offsets = CommittedOffsets()
        ends = LogEndReader(
            ME, self.image, lambda *partition: self.own.get(partition), lambda _id: self.other, TIMEOUT_S
        )
        self.watch = LagWatch(LagConfig(), self.clock, lambda: [self.offsets], ends)

    def commit(self, topic: str, index: int, offset: int) -> None:
        self.offsets.apply(OffsetCommitKey("billing", topic, index), OffsetCommitValue(offset, -1, "", 0))

    @property
    def shown(self) -> LagMetrics:
        return self.watch.shown.figures


@pytest.fixture
def coordinator() -> Coordinator:
    return Coordinator()


async def test_leaders_are_asked_and_own_partitions_are_not(coordinator: Coordinator) -> None:
    for index, offset in enumerate((90, 5, 6, 7)):
        coordinator.commit("orders", index, offset)
    coordinator.commit("gone", 0, 1)
    coordinator.other.ends = {1: 8, 2: 10}
    await coordinator.watch.poll()
    assert coordinator.shown.by_group == {"billing": {"orders": 10 + 3 + 4}}
    assert coordinator.other.asked == [[1, 2]]


async def test_a_partition_that_has_just_moved_is_left_out(coordinator: Coordinator) -> None:
    coordinator.commit("orders", 1, 5)
    coordinator.commit("orders", 2, 5)
    coordinator.other.ends = {2: 10}
    await coordinator.watch.poll()
    assert coordinator.shown.by_group == {"billing": {"orders": 5}}


@pytest.mark.parametrize("trouble", ["away", "silent", "confused"])
async def test_an_unanswered_poll_keeps_the_leaders_last_figures(coordinator: Coordinator, trouble: str) -> None:
    coordinator.commit("orders", 0, 90)
    coordinator.commit("orders", 1, 5)
    coordinator.other.ends = {1: 8}
    await coordinator.watch.poll()
    setattr(coordinator.other, trouble, True)
    coordinator.clock.advance(10)
    coordinator.own["orders", 0] = 101
    await coordinator.watch.poll()
    assert coordinator.shown.by_group == {"billing": {"orders": 11 + 3}}
    assert coordinator.watch.age_s() == 10
    setattr(coordinator.other, trouble, False)
    coordinator.commit("orders", 1, 8)
    await coordinator.watch.poll()
    assert coordinator.shown.by_group == {"billing": {"orders": 11}}
    assert coordinator.watch.age_s() == 0
    assert coordinator.other.closed == (trouble != "away")


async def test_the_watch_polls_repeatedly_and_drops_deleted_offsets(coordinator: Coordinator) -> None:
    coordinator.commit("orders", 0, 90)
    running = asyncio.create_task(coordinator.watch.run())
    await until(lambda: coordinator.shown.by_group == {"billing": {"orders": 10}})
    coordinator.offsets.apply(OffsetCommitKey("billing", "orders", 0), None)
    await until(lambda: coordinator.shown.by_group == {})
    running.cancel()
    coordinator.watch.close()


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(100):
        if holds():
            return
        await asyncio.sleep(1)
    raise AssertionError("it does not happen")


async def test_no_leader_is_asked_if_no_group_may_be_shown(coordinator: Coordinator) -> None:
    coordinator.commit("orders", 1, 5)
    config = LagConfig(sluicegate_group_lag_groups_max=0)
    ends = LogEndReader(ME, coordinator.image, lambda *_: None, lambda _id: coordinator.other, TIMEOUT_S)
    await LagWatch(config, coordinator.clock, lambda: [coordinator.offsets], ends).run()
    assert coordinator.other.asked == []
