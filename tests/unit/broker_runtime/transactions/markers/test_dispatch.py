"""Markers are sent until each partition has its own, however brokers and leaders fail meanwhile."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from broker_runtime.errors import ErrorCode
from broker_runtime.slicing.slices import Slices
from broker_runtime.transactions.broker_links import BrokerLinks
from broker_runtime.transactions.markers.dispatch import MarkerDispatch
from broker_runtime.transactions.markers.local_markers import LocalMarkers
from broker_runtime.transactions.markers.queues import MarkerLimits
from broker_runtime.transactions.seam import TopicPartition
from kafka_bytes.control import Marker
from tests.support.fakes.manual_clock import ManualClock
from tests.support.logs.logs import LogHouse
from tests.support.logs.replicas import leading
from tests.support.transactions.ending import RecordingListener, ended
from tests.support.transactions.marker_brokers import MarkerBrokers

pytestmark = pytest.mark.virtual_time
ME = 1
HERE, A, B, C = ("orders", 0), ("bills", 0), ("bills", 1), ("bills", 2)
TIMEOUT_S = 30.0


class _LoopClock(ManualClock):
    """The clock of the event loop."""

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()


async def _no_groups(index: int, marker: Marker) -> None:
    raise AssertionError("no test here has offsets in a transaction")


class Coordinator:
    """Broker 1 with a dispatch: it leads orders-0, and others lead the partitions of bills."""

    def __init__(self) -> None:
        self.house = LogHouse()
        self.brokers = MarkerBrokers()
        self.leaders: dict[TopicPartition, int] = {HERE: ME, A: 2, B: 2, C: 3}
        self.listener = RecordingListener()
        loop = asyncio.get_running_loop()
        slices = Slices(loop.time)
        replica = leading(self.house.log, ME, epoch=3)
        local = LocalMarkers(lambda _topic, _index: replica, _no_groups, slices, loop.call_later, TIMEOUT_S)
        self.dispatch = MarkerDispatch(
            ME,
            self.leaders.get,
            MarkerLimits(100, 0.02, 0.5),
            local,
            BrokerLinks(self.brokers.link_to, TIMEOUT_S, slices),
            slices,
            _LoopClock(),
        )

    def send(self, name: str, *places: TopicPartition, producer_id: int = 1, partition: int = 0) -> None:
        self.dispatch.send(ended(name, places, producer_id, coordinator_partition=partition), self.listener)

    async def finished(self) -> None:
        """Wait until no transaction has markers left."""
        async with asyncio.timeout(600):
            while self.dispatch.queues.transactions:  # noqa: ASYNC110 - on virtual time
                await asyncio.sleep(0.01)


@pytest.fixture
async def coordinator() -> AsyncIterator[Coordinator]:
    made = Coordinator()
    yield made
    await made.dispatch.close()
    assert len(asyncio.all_tasks()) == 1


async def test_own_partitions_get_markers_without_a_request_and_others_with_one_each(coordinator: Coordinator) -> None:
    coordinator.send("pay", HERE, A, B, C)
    await coordinator.finished()
    assert sorted(place for _, place in coordinator.listener.done) == sorted((HERE, A, B, C))
    assert [producer_id for producer_id, _ in coordinator.house.log.producers] == [1]
    assert coordinator.brokers.partitions_of(2) == [{A, B}]
    assert coordinator.brokers.partitions_of(3) == [{C}]


async def test_markers_of_many_transactions_share_requests_and_one_is_under_way_to_a_broker(
    coordinator: Coordinator,
) -> None:
    for number in range(50):
        coordinator.send(f"pay {number}", A, producer_id=number)
    await asyncio.sleep(0.005)
    for number in range(50, 90):
        coordinator.send(f"pay {number}", B, producer_id=number)
    await coordinator.finished()
    assert [len(markers) for _, markers in coordinator.brokers.received] == [50, 40]
    assert coordinator.brokers.busy_most == 1


async def test_a_failed_partition_is_sent_to_the_leader_that_the_metadata_has_then(coordinator: Coordinator) -> None:
    coordinator.brokers.codes[B] = [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    coordinator.send("pay", A, B)
    await asyncio.sleep(0.005)
    coordinator.leaders[B] = 3
    await coordinator.finished()
    assert coordinator.brokers.partitions_of(2) == [{A, B}]
    assert coordinator.brokers.partitions_of(3) == [{B}]


async def test_a_broker_that_is_down_gets_its_markers_after_its_return(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator.brokers.down.add(2)
    coordinator.send("pay", A, C)
    await asyncio.sleep(10)
    assert coordinator.listener.done == [("pay", C)]
    coordinator.brokers.down.clear()
    await coordinator.finished()
    assert coordinator.brokers.partitions_of(2) == [{A}]
    assert [record.getMessage() for record in caplog.records] == [
        "broker 2: connection refused; the markers are sent again"
    ]


async def test_a_broker_that_does_not_answer_holds_up_only_its_own_markers(coordinator: Coordinator) -> None:
    coordinator.brokers.silent.add(2)
    coordinator.send("pay", A, C, producer_id=1)
    await asyncio.sleep(1)
    coordinator.send("more", C, producer_id=2)
    await asyncio.sleep(1)
    assert coordinator.listener.done == [("pay", C), ("more", C)]
    coordinator.brokers.silent.clear()
    await coordinator.finished()
    # The request without an answer, and the one after its time limit, on a new connection.
    assert coordinator.brokers.partitions_of(2) == [{A}, {A}]
    assert coordinator.brokers.links_made == 3


async def test_an_answer_that_cannot_be_read_is_no_result(coordinator: Coordinator) -> None:
    coordinator.brokers.garbled.add(2)
    coordinator.send("pay", A)
    await asyncio.sleep(0.015)
    coordinator.brokers.garbled.clear()
    await coordinator.finished()
    assert coordinator.listener.done == [("pay", A)]
    assert coordinator.brokers.links_made == 2


async def test_an_unexpected_code_is_logged_once_and_the_marker_is_sent_again(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator.brokers.codes[A] = [ErrorCode.CLUSTER_AUTHORIZATION_FAILED] * 3
    coordinator.send("pay", A)
    await coordinator.finished()
    assert len(coordinator.brokers.received) == 4
    assert [record.getMessage() for record in caplog.records] == [
        "broker 2 refused a marker for bills-0: CLUSTER_AUTHORIZATION_FAILED; the markers are sent again"
    ]


async def test_a_marker_that_a_newer_one_fences_is_sent_again_until_the_term_ends(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    coordinator.brokers.codes[A] = [ErrorCode.TRANSACTION_COORDINATOR_FENCED] * 1_000
    coordinator.send("pay", A, C, partition=9)
    await asyncio.sleep(2)
    assert coordinator.listener.done == [("pay", C)]
    coordinator.dispatch.drop(9)
    await coordinator.finished()
    assert len(coordinator.brokers.partitions_of(2)) > 3
    assert [record.getMessage() for record in caplog.records] == [
        "broker 2 refused a marker for bills-0: TRANSACTION_COORDINATOR_FENCED; the markers are sent again"
    ]


async def test_nothing_is_sent_for_a_term_that_has_ended(coordinator: Coordinator) -> None:
    coordinator.send("pay", A, partition=9)
    coordinator.dispatch.drop(9)
    await asyncio.sleep(1)
    assert coordinator.brokers.received == []


async def test_a_listener_that_fails_does_not_stop_the_markers_of_others(
    coordinator: Coordinator, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(RecordingListener):
        def partition_done(self, *_: object) -> None:
            raise ValueError("broken")

    coordinator.dispatch.send(ended("broken", [A], 1), Failing())
    coordinator.send("pay", B, producer_id=2)
    await coordinator.finished()
    assert coordinator.listener.done == [("pay", B)]
    assert "the markers for broker 2 failed" in caplog.text
