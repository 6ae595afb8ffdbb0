"""Markers are written to led partitions, and count once all in-sync replicas have them."""

import asyncio
from collections.abc import Mapping

import pytest

from broker_runtime.config import TopicConfig
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.metadata.topic_names import GROUPS_TOPIC
from broker_runtime.replication.leader import LeaderReplica
from broker_runtime.slicing.slices import Slices
from broker_runtime.transactions.markers.local_markers import LocalMarkers
from broker_runtime.transactions.seam import TopicPartition
from kafka_bytes.control import Marker
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import leading
from tests.support.logs.transactions import committed_values, write

pytestmark = pytest.mark.virtual_time
ORDERS, OFFSETS = ("orders", 0), (GROUPS_TOPIC, 3)
COMMIT = Marker(1, 0, True, 5)
TIMEOUT_S = 30.0


class Broker:
    """A broker that leads orders-0 with the given replicas, and a group coordinator that the test scripts."""

    def __init__(self, *replicas: int, config: TopicConfig | None = None) -> None:
        self.house = LogHouse(config)
        self.log = self.house.log
        self.log.sole_replica = len(replicas) < 2
        self.leader: LeaderReplica = leading(self.log, *(replicas or (1,)), epoch=3)
        self.in_groups: list[tuple[int, Marker]] = []
        self.group_error: Exception | None = None
        self.group_waits = False
        self.begun: list[int] = []
        self.running = self.running_max = 0
        """Number of markers that the group coordinator writes now, and at most so far."""
        loop = asyncio.get_running_loop()
        self.markers = LocalMarkers(self.led, self._end_in_groups, Slices(loop.time), loop.call_later, TIMEOUT_S)

    def led(self, topic: str, index: int) -> LeaderReplica:
        if (topic, index) != ORDERS:
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "another broker leads it")
        return self.leader

    async def _end_in_groups(self, index: int, marker: Marker) -> None:
        self.begun.append(marker.producer_id)
        self.running += 1
        self.running_max = max(self.running_max, self.running)
        await (asyncio.get_running_loop().create_future() if self.group_waits else asyncio.sleep(0.1))
        self.running -= 1
        if self.group_error is not None:
            raise self.group_error
        self.in_groups.append((index, marker))

    async def write(self, *places: TopicPartition, marker: Marker = COMMIT) -> Mapping[TopicPartition, int]:
        (codes,) = await self.markers.write([(marker, places or (ORDERS,))])
        return codes


async def test_a_marker_ends_the_transaction_of_its_producer() -> None:
    broker = Broker()
    write(broker.log, b"a", leader_epoch=3)
    assert committed_values(broker.log) == []
    assert await broker.write() == {ORDERS: ErrorCode.NONE}
    assert committed_values(broker.log) == [b"a"]


async def test_the_answer_comes_once_the_followers_have_the_marker() -> None:
    broker = Broker(1, 2)
    writing = broker.markers.write([(COMMIT, (ORDERS,))])
    await asyncio.sleep(0)
    assert not writing.done()
    assert broker.log.log_end_offset == 1
    broker.leader.on_fetch(2, 12, 1, 0.0)
    assert await writing == [{ORDERS: ErrorCode.NONE}]


async def test_a_marker_that_the_followers_do_not_get_has_timed_out() -> None:
    broker = Broker(1, 2)
    assert await broker.write() == {ORDERS: ErrorCode.REQUEST_TIMED_OUT}
    assert broker.log.log_end_offset == 1


async def test_too_few_in_sync_replicas_refuse_a_marker_before_it_is_written() -> None:
    broker = Broker(1, 2, config=TopicConfig(min_insync_replicas=2))
    broker.leader.isr = (1,)
    assert await broker.write() == {ORDERS: ErrorCode.NOT_ENOUGH_REPLICAS}
    assert broker.log.log_end_offset == 0


async def test_a_leader_that_resigns_tells_the_sender_to_look_up_the_next() -> None:
    broker = Broker(1, 2)
    writing = broker.markers.write([(COMMIT, (ORDERS,))])
    await asyncio.sleep(0)
    broker.leader.resign()
    assert await writing == [{ORDERS: ErrorCode.NOT_LEADER_OR_FOLLOWER}]


async def test_a_partition_that_is_led_elsewhere_does_not_stop_the_others() -> None:
    broker = Broker()
    assert await broker.write(("bills", 7), ORDERS) == {
        ("bills", 7): ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ORDERS: ErrorCode.NONE,
    }


@pytest.mark.parametrize(
    ("marker", "code"),
    [
        (Marker(1, 3, True, 5), ErrorCode.INVALID_PRODUCER_EPOCH),
        (Marker(1, 4, True, 4), ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
async def test_a_marker_that_is_out_of_date_is_refused(marker: Marker, code: ErrorCode) -> None:
    broker = Broker()
    assert await broker.write(marker=Marker(1, 4, False, 5)) == {ORDERS: ErrorCode.NONE}
    assert await broker.write(marker=marker) == {ORDERS: code}
    assert broker.log.log_end_offset == 1


async def test_offsets_are_ended_by_the_group_coordinator() -> None:
    broker = Broker()
    assert await broker.write(ORDERS, OFFSETS) == {ORDERS: ErrorCode.NONE, OFFSETS: ErrorCode.NONE}
    assert broker.in_groups == [(3, COMMIT)]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.TRANSACTION_COORDINATOR_FENCED, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
    ],
)
async def test_the_codes_of_the_group_coordinator_are_those_of_a_leader(code: ErrorCode, told: ErrorCode) -> None:
    broker = Broker()
    broker.group_error = KafkaError(code, "")
    assert await broker.write(OFFSETS) == {OFFSETS: told}


async def test_an_internal_error_of_the_group_coordinator_is_a_result() -> None:
    broker = Broker()
    broker.group_error = ValueError("broken")
    assert await broker.write(OFFSETS, ORDERS) == {OFFSETS: ErrorCode.UNKNOWN_SERVER_ERROR, ORDERS: ErrorCode.NONE}


async def test_a_group_coordinator_that_does_not_answer_has_timed_out() -> None:
    broker = Broker()
    broker.group_waits = True
    begun_s = asyncio.get_running_loop().time()
    assert await broker.write(OFFSETS, ORDERS) == {OFFSETS: ErrorCode.REQUEST_TIMED_OUT, ORDERS: ErrorCode.NONE}
    assert asyncio.get_running_loop().time() - begun_s == pytest.approx(TIMEOUT_S)


async def test_a_cancelled_request_waits_for_nothing_any_more() -> None:
    broker = Broker(1, 2)
    broker.group_waits = True
    writing = broker.markers.write([(COMMIT, (ORDERS, OFFSETS))])
    await asyncio.sleep(0)
    writing.cancel()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert len(asyncio.all_tasks()) == 1


async def test_many_markers_for_one_partition_are_written_in_order() -> None:
    broker = Broker()
    markers = [(Marker(number, 0, True, 5), (ORDERS,)) for number in range(500)]
    results = await broker.markers.write(markers)
    assert results == [{ORDERS: ErrorCode.NONE}] * 500
    assert [producer_id for producer_id, _ in broker.log.producers] == list(range(500))


async def test_a_group_coordinator_writes_a_limited_number_of_markers_at_the_same_time() -> None:
    broker = Broker()
    markers = [(COMMIT._replace(producer_id=number), (OFFSETS,)) for number in range(120)]
    assert await broker.markers.write(markers) == [{OFFSETS: ErrorCode.NONE}] * 120
    assert broker.running_max == 50
    assert broker.begun == list(range(120)), "in their order"


async def test_markers_that_a_group_coordinator_has_not_begun_have_timed_out() -> None:
    broker = Broker()
    broker.group_waits = True
    markers = [(COMMIT._replace(producer_id=number), (OFFSETS,)) for number in range(120)]
    assert await broker.markers.write(markers) == [{OFFSETS: ErrorCode.REQUEST_TIMED_OUT}] * 120
    assert broker.running_max == 50
