"""Calls to one consumer: held back until it has its answer, in order, and a limited number in each time slice."""

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import cast
from uuid import UUID

import pytest

from broker_runtime.apis.push.push_callee import Callee, Outgoing, known_brokers
from broker_runtime.groups.push.state.calls import Ping, StartAt, StartFetcher, StopFetcher
from broker_runtime.metadata.areas.brokers import BrokerEndpoint, RegisterBroker, UnfenceBroker
from broker_runtime.metadata.image import MetadataImage
from broker_runtime.wire.handler import ServedConnection
from kafka_bytes import own_keys
from kafka_bytes.push.messages import Broker
from tests.support.requests.calls import NotedConnection


class Called:
    """A callee, and the frames sent to it."""

    def __init__(self) -> None:
        self.connection = NotedConnection()
        connection = cast("ServedConnection", self.connection)
        self.callee = Callee("g", "c", connection, MetadataImage(), Outgoing())

    async def sent(self) -> list[int | None]:
        """Types of messages."""
        await asyncio.sleep(0)
        return [own_keys.type_of(memoryview(frame)[4:]) for frame in self.connection.pushed]


async def test_nothing_is_sent_before_the_answer_to_the_registration_and_then_all_in_its_order() -> None:
    called = Called()
    called.callee.take(Ping("c", 0))
    called.callee.take(StopFetcher("c"))
    assert await called.sent() == []
    called.callee.release()
    called.callee.take(Ping("c", 1))
    assert await called.sent() == [own_keys.PING, own_keys.STOP_FETCHER, own_keys.PING]


async def test_an_answer_may_be_about_what_was_to_be_read_before_the_last_start() -> None:
    """The answer may have been in flight."""
    called = Called()
    called.callee.release()
    least = called.callee.answer_bytes_max
    sizes = []
    for partitions in (3, 1, 0):
        parts = tuple(StartAt("orders", number, 0) for number in range(partitions))
        called.callee.take(StartFetcher("c", (("c-0", parts),)))
        await called.sent()
        sizes.append(called.callee.answer_bytes_max - least)
    of_one = sizes[0] // 3
    assert sizes == [3 * of_one, 3 * of_one, of_one]
    assert of_one > 0


async def test_thousands_of_calls_leave_over_many_time_slices_in_their_order() -> None:
    """Each time slice sends as many calls as its time allows, even if other work makes time slices long."""
    outgoing, sent = Outgoing(), list[int]()

    def send(number: int) -> None:
        begun_s = time.perf_counter()
        while time.perf_counter() < begun_s + 0.0002:
            pass
        sent.append(number)

    for number in range(200):
        outgoing.add(partial(send, number))
    assert sent == []
    slices = 0
    while len(sent) < 200:
        before = len(sent)
        await asyncio.sleep(0)
        slices += 1
        assert before < len(sent) <= before + 20
    assert slices >= 10
    assert sent == list(range(200))


async def test_a_call_that_cannot_be_sent_holds_no_other_up() -> None:
    outgoing, sent = Outgoing(), list[str]()
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, said: failures.append(said["exception"]))

    def fail() -> None:
        raise ValueError("beyond a limit")

    sends: list[Callable[[], None]] = [partial(sent.append, "first"), fail, partial(sent.append, "last")]
    for send in sends:
        outgoing.add(send)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert sent == ["first", "last"]
    assert [str(each) for each in failures] == ["beyond a limit"]


@pytest.mark.parametrize(("listener", "known"), [("CLIENTS", (Broker(1, "k1", 9092),)), ("NOSUCH", ())])
def test_consumers_are_told_of_brokers_that_serve_on_their_listener(listener: str, known: tuple[Broker, ...]) -> None:
    image = MetadataImage()
    for offset, (broker_id, name) in enumerate([(1, "CLIENTS"), (2, "CLIENTS"), (3, "OTHERS")]):
        endpoints = (BrokerEndpoint(name, f"k{broker_id}", 9092),)
        image.apply(RegisterBroker(broker_id, UUID(int=broker_id), offset, endpoints), offset)
    for offset, broker_id in ((3, 1), (4, 3)):
        image.apply(UnfenceBroker(broker_id, image.brokers[broker_id].epoch), offset)
    assert known_brokers(image, listener) == known
