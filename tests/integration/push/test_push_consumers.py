"""The push protocol over sockets: a real broker calls consumers, which are killed or become silent."""

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from kafka_bytes import own_keys
from kafka_bytes.push import layouts
from kafka_bytes.push.messages import (
    ClusterMetadataRequest,
    PartitionOffset,
    PingResponse,
    RegisterConsumerRequest,
    StartFetcherRequest,
    StartFetcherResponse,
    StopFetcherResponse,
)
from kafka_bytes.push.partition_text import read_partition
from tests.support.processes.broker_process import BrokerProcess
from tests.support.processes.clients.wire_client import WireClient

SESSION_MS = 600
PARTITIONS, RECORDS = 4, 20
DEADLINE_S = 20.0
NONE, NOT_AVAILABLE, LOADING, NOT_COORDINATOR, UNRELEASED = 0, 15, 14, 16, 111


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    properties = {"group.min.session.timeout.ms": "100", "offsets.topic.num.partitions": "2"}
    with BrokerProcess(properties=properties) as process, WireClient(("127.0.0.1", process.port())) as client:
        topic = {"name": "orders", "num_partitions": PARTITIONS, "replication_factor": 1}
        client.ask("create_topics", 7, topics=[topic | {"assignments": [], "configs": []}], timeout=10_000)
        producer = Producer({"bootstrap.servers": process.bootstrap})
        for number in range(PARTITIONS * RECORDS):
            producer.produce("orders", b"x", partition=number % PARTITIONS)
        assert producer.flush(DEADLINE_S) == 0
        yield process


class Consumer:
    """A consumer that follows the protocol; `positions` is what it has read."""

    def __init__(self, broker: BrokerProcess, name: str, group: str) -> None:
        self.name, self.group = name, group
        self.positions: dict[int, int] = {}
        self.pings = 0
        self._client = WireClient(("127.0.0.1", broker.port()))

    def register(self) -> None:
        """Register as soon as the coordinator is available."""
        asked = RegisterConsumerRequest(self.group, self.name, '{"orders": 1}', True, "smallest", SESSION_MS)
        self._send(layouts.CLUSTER_METADATA_REQUEST, ClusterMetadataRequest(self.group))
        while self._read(layouts.CLUSTER_METADATA_RESPONSE).error_code:
            self._send(layouts.CLUSTER_METADATA_REQUEST, ClusterMetadataRequest(self.group))
        code = None
        while code in (None, NOT_AVAILABLE, LOADING, NOT_COORDINATOR, UNRELEASED):
            self._send(layouts.REGISTER_CONSUMER_REQUEST, asked)
            code = self._read(layouts.REGISTER_CONSUMER_RESPONSE).error_code
        assert code == NONE

    def answer(self, timeout_s: float) -> None:
        """Answer one call, if one arrives in time."""
        try:
            frame = self._client.receive(timeout_s)
        except TimeoutError:
            return
        assert frame is not None, "the broker has hung up"
        (kind,) = struct.unpack_from(">h", frame)
        told = tuple(PartitionOffset("orders", str(number), offset) for number, offset in self.positions.items())
        if kind == own_keys.PING:
            self.pings += 1
            self._send(layouts.PING_RESPONSE, PingResponse(0, self.name, told))
        elif kind == own_keys.STOP_FETCHER:
            self.positions = {}
            self._send(layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, self.name, told))
        else:
            start: StartFetcherRequest = layouts.START_FETCHER_REQUEST.read(memoryview(frame))
            parts = [part for thread in start.ownership_info for part in thread.assigned_parts]
            assert {part.partition.split("-")[0] for part in parts} <= {str(broker.id) for broker in start.brokers_info}
            self.positions = {read_partition(part.partition)[1]: part.offset for part in parts}
            self._send(layouts.START_FETCHER_RESPONSE, StartFetcherResponse(0, self.name))

    def say_that_it_stopped(self) -> None:
        """Send StopFetcher's answer without a call."""
        self._send(layouts.STOP_FETCHER_RESPONSE, StopFetcherResponse(0, self.name, ()))

    def is_hung_up_on(self) -> bool:
        try:
            return self._client.receive(0.02) is None
        except TimeoutError:
            return False

    def die(self) -> None:
        self._client.close()

    def _send(self, layout: layouts.Layout[Any], message: Any) -> None:
        self._client.send(layout.write(message))

    def _read(self, layout: layouts.Layout[Any]) -> Any:
        frame = self._client.receive()
        assert frame is not None
        return layout.read(memoryview(frame))


@pytest.fixture
def consumer(broker: BrokerProcess) -> Iterator[Callable[[str, str], Consumer]]:
    made: list[Consumer] = []

    def make(name: str, group: str) -> Consumer:
        made.append(Consumer(broker, name, group))
        return made[-1]

    yield make
    for each in made:
        each.die()


def until(done: Callable[[], bool], *consumers: Consumer) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not done():
        assert time.monotonic() < deadline_s
        for each in consumers:
            each.answer(0.02)


def test_consumers_share_what_they_read_and_take_over_from_the_dead_and_the_silent(
    broker: BrokerProcess, consumer: Callable[[str, str], Consumer]
) -> None:
    first, second, third = (consumer(name, "g") for name in ("a", "b", "c"))
    first.register()
    until(lambda: len(first.positions) == PARTITIONS, first)
    assert set(first.positions.values()) == {-2}
    first.positions = dict.fromkeys(first.positions, 11)
    second.register()
    until(lambda: len(first.positions) == len(second.positions) == 2, first, second)
    assert set(second.positions.values()) == {11}, "what the first told when it stopped"
    second.die()
    until(lambda: len(first.positions) == PARTITIONS, first)
    third.register()
    until(lambda: len(first.positions) == len(third.positions) == 2, first, third)
    silent_since_s = time.monotonic()
    until(lambda: len(first.positions) == PARTITIONS, first)
    assert time.monotonic() - silent_since_s >= SESSION_MS / 1000
    assert first.pings > 0
    assert set(first.positions.values()) == {11}
    with WireClient(("127.0.0.1", broker.port())) as client:
        fetched = client.ask("offset_fetch", 5, group_id="g", topics=None)
    (topic,) = fetched["topics"]
    assert {part["committed_offset"] for part in topic["partitions"]} == {11}


def test_consumers_register_again_with_a_broker_that_was_killed(
    broker: BrokerProcess, consumer: Callable[[str, str], Consumer]
) -> None:
    first, second = consumer("a", "other"), consumer("b", "other")
    first.register()
    second.register()
    until(lambda: len(first.positions) == len(second.positions) == 2, first, second)
    broker.kill()
    broker.start()
    back = [consumer(name, "other") for name in ("a", "b")]
    for each in back:
        each.register()
    until(lambda: [len(each.positions) for each in back] == [2, 2], *back)


def test_an_unrequested_answer_ends_its_connection_only(
    broker: BrokerProcess, consumer: Callable[[str, str], Consumer]
) -> None:
    good, odd, stranger = (consumer(name, "third") for name in ("good", "odd", "stranger"))
    good.register()
    odd.register()
    until(lambda: len(good.positions) == len(odd.positions) == 2, good, odd)
    for each in (odd, stranger):
        each.say_that_it_stopped()
        while not each.is_hung_up_on():
            good.answer(0.02)
    until(lambda: len(good.positions) == PARTITIONS, good)
