"""A consumer and the coordinator that calls it, in virtual time and without sockets."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafka_bytes import own_keys
from kafka_bytes.frames import frame
from kafka_bytes.push.messages import Broker
from sluicegate_consumer.brokers import BrokerLink, Brokers
from sluicegate_consumer.config import Settings
from sluicegate_consumer.connections.connection import FrameConnection
from sluicegate_consumer.errors import CallbackFailedError, Code, CommitRefusedError, RegistrationRefusedError
from sluicegate_consumer.listener import Listener
from sluicegate_consumer.membership import Delivery, Membership
from sluicegate_consumer.record import TopicPartition
from sluicegate_consumer.streams import Flow, StreamQueue
from sluicegate_consumer.wire import push
from sluicegate_consumer.wire.fields import INT16, INT32, INT64, items, text
from sluicegate_consumer.wire.kafka import Request
from sluicegate_consumer.wire.push import PartitionOffset, Registration

pytestmark = pytest.mark.virtual_time

SESSION_S = 6.0
NODES = (Broker(1, "k1", 9092), Broker(2, "k2", 9092))
BROKERS = items(INT16, [INT32.pack(each.id) + text(each.host) + INT32.pack(each.port) for each in NODES])
ONE = TopicPartition("t", 0)


def metadata(code: int = 0, coordinator: int = 1) -> bytes:
    return INT16.pack(code) + INT32.pack(coordinator) + BROKERS


def call(kind: int, rest: bytes = b"") -> bytes:
    return frame(INT16.pack(kind), text("c"), rest)[4:]


PING = call(own_keys.PING, INT32.pack(0))
STOP = call(own_keys.STOP_FETCHER)


def start(*offsets: int, stream: int = 0) -> bytes:
    """A StartFetcher for the partitions from 0 on; without offsets, for the first one from 7 on."""
    parts = [text("t") + text(f"1-{number}") + INT64.pack(offset) for number, offset in enumerate(offsets or (7,))]
    return call(own_keys.START_FETCHER, items(INT16, [text(f"c-{stream}") + items(INT16, parts)]) + BROKERS)


def told(offset: int) -> list[PartitionOffset]:
    return [PartitionOffset("t", 0, offset)]


class Wire(FrameConnection):
    """A connection whose other end is the test."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address
        self.sent: deque[bytes] = deque()
        self.closed = False
        self._coming: asyncio.Queue[bytes | None] = asyncio.Queue()

    def say(self, *frames: bytes | None) -> None:
        """Send these frames; None ends the connection."""
        for each in frames:
            self._coming.put_nowait(each)

    async def receive(self) -> memoryview:
        found = None if self.closed else await self._coming.get()
        if found is None:
            raise ConnectionResetError("it has ended")
        return memoryview(found)

    def send(self, frame: bytes) -> None:
        self.sent.append(frame)

    def close(self) -> None:
        self.closed = True
        self.say(None)


class _SilentLink(BrokerLink):
    async def ask(self, request: Request, wait_s: float = 0.0) -> memoryview:
        await asyncio.sleep(100_000)
        raise ConnectionResetError("nobody answers")

    async def ready(self) -> None:
        pass


class Net(Brokers):
    """Every connection that was opened, in order."""

    def __init__(self) -> None:
        super().__init__([("first", 1), ("second", 2)], Settings())
        self.wires: deque[Wire] = deque()

    async def open(self, address: tuple[str, int]) -> FrameConnection:
        self.wires.append(Wire(address))
        return self.wires[-1]

    def link(self, node: int) -> BrokerLink | None:
        return _SilentLink(NODES[0], Settings())

    async def next(self) -> Wire:
        async with asyncio.timeout(60):
            while not self.wires:  # noqa: ASYNC110 - on virtual time
                await asyncio.sleep(0.01)
        return self.wires.popleft()

    async def refuse_all(self, code: int) -> None:
        while True:
            (await self.next()).say(metadata())
            (await self.next()).say(INT16.pack(code))

    async def registered(self) -> Wire:
        """Let the consumer find its coordinator and register there; return that connection."""
        (await self.next()).say(metadata())
        coordinator = await self.next()
        assert coordinator.address == ("k1", 9092)
        coordinator.say(INT16.pack(0))
        await settled()
        assert coordinator.sent.popleft() == REGISTRATION.request()
        return coordinator


class Told(Listener):
    """A Listener that notes its calls, and reacts to them."""

    def __init__(self) -> None:
        self.told: list[tuple[str, set[TopicPartition]]] = []
        self.on_revoked: Callable[[], object] = lambda: None
        self.assigned_takes_s = self.revoked_takes_s = 0.0
        self.cancelled = 0

    async def assigned(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("assigned", set(partitions)))
        try:
            await asyncio.sleep(self.assigned_takes_s)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def revoked(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("revoked", set(partitions)))
        await asyncio.sleep(self.revoked_takes_s)
        self.on_revoked()

    async def lost(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("lost", set(partitions)))


REGISTRATION = Registration("g", "c", '{"t":1}', True, "smallest", round(SESSION_S * 1000))


class Scene:
    """One consumer."""

    def __init__(self, **settings: Any) -> None:
        self.net = Net()
        self.listener = Told()
        self.flow = Flow(asyncio.get_running_loop().time)
        delivery = Delivery([StreamQueue()], self.flow, self.listener)
        chosen = Settings(**({"close_by": "pings"} | settings))
        self.membership = Membership(REGISTRATION, self.net, delivery, chosen)
        self.running = asyncio.create_task(self.membership.run())

    def acknowledge(self, offset: int) -> None:
        for reader in self.membership.assignment._readers.values():
            assert reader.acknowledge(offset)


@asynccontextmanager
async def scene(**settings: Any) -> AsyncIterator[Scene]:
    found = Scene(**settings)
    try:
        yield found
    finally:
        found.running.cancel()
        await asyncio.wait([found.running])


async def settled() -> None:
    await asyncio.sleep(0.001)


async def test_start_ping_and_stop_are_answered_with_what_was_acknowledged() -> None:
    async with scene() as here:
        coordinator = await here.net.registered()
        coordinator.say(start())
        await settled()
        assert here.membership.assignment.partitions == {ONE}
        assert here.flow.may_deliver
        here.acknowledge(9)
        coordinator.say(PING, STOP)
        await settled()
        assert list(coordinator.sent) == [
            push.start_answer("c"), push.ping_answer("c", told(10)), push.stop_answer("c", told(10))
        ]  # fmt: skip
        assert here.membership.assignment.partitions == set()
        assert here.listener.told == [("assigned", {ONE}), ("revoked", {ONE})]


async def test_a_stop_waits_for_the_application_which_may_acknowledge_and_pings_do_not() -> None:
    async with scene() as here:
        here.listener.revoked_takes_s = 1.0
        here.listener.on_revoked = lambda: here.acknowledge(20)
        coordinator = await here.net.registered()
        coordinator.say(start(), STOP, PING)
        await settled()
        assert list(coordinator.sent)[1:] == [push.ping_answer("c", told(7))]
        await asyncio.sleep(1.0)
        assert coordinator.sent[-1] == push.stop_answer("c", told(21))


async def test_no_record_is_delivered_before_assigned_returns() -> None:
    async with scene() as here:
        here.listener.assigned_takes_s = 1.0
        coordinator = await here.net.registered()
        assert here.flow.may_deliver, "nothing holds it before the first start"
        coordinator.say(start())
        await asyncio.sleep(0.9)
        assert coordinator.sent.popleft() == push.start_answer("c"), "the coordinator does not wait for that"
        assert not here.flow.may_deliver
        await asyncio.sleep(0.2)
        assert here.flow.may_deliver


async def test_it_does_not_wait_for_an_application_that_takes_too_long() -> None:
    async with scene(callback_timeout_s=2.0) as here:
        here.listener.revoked_takes_s = 100.0
        coordinator = await here.net.registered()
        coordinator.say(start(), STOP)
        await asyncio.sleep(1.9)
        assert len(coordinator.sent) == 1
        await asyncio.sleep(0.2)
        assert coordinator.sent[-1] == push.stop_answer("c", told(7))


async def test_a_stop_that_is_said_again_has_an_answer_of_its_own() -> None:
    async with scene() as here:
        here.listener.revoked_takes_s = 1.0
        coordinator = await here.net.registered()
        coordinator.say(start(), STOP, STOP)
        await asyncio.sleep(1.1)
        assert list(coordinator.sent)[1:] == [push.stop_answer("c", told(7)), push.stop_answer("c", [])]
        assert here.listener.told == [("assigned", {ONE}), ("revoked", {ONE})]


async def test_a_consumer_whose_session_expired_stops_reading_and_finds_its_coordinator_again() -> None:
    async with scene() as here:
        coordinator = await here.net.registered()
        coordinator.say(start())
        await asyncio.sleep(SESSION_S - 0.1)
        coordinator.say(PING)
        await asyncio.sleep(SESSION_S - 0.1)
        assert here.membership.assignment.partitions == {ONE}
        assert here.flow.may_deliver
        await asyncio.sleep(0.2)
        assert not here.flow.may_deliver
        assert here.membership.assignment.partitions == set()
        assert coordinator.closed
        assert here.listener.told[-1] == ("lost", {ONE})
        await here.net.registered()


async def test_a_broker_that_is_not_the_coordinator_is_left_for_the_next_one() -> None:
    async with scene() as here:
        addresses = []
        for answer in (metadata(Code.NOT_COORDINATOR), metadata(Code.COORDINATOR_NOT_AVAILABLE), metadata(0, 3), None):
            wire = await here.net.next()
            addresses.append(wire.address)
            wire.say(answer)
        assert len(set(addresses)) > 2
        await here.net.registered()


@pytest.mark.parametrize("why", [None, b"\x00", start(stream=1), call(30_009)])
async def test_a_connection_that_ends_or_brings_what_it_may_not_is_replaced(why: bytes | None) -> None:
    async with scene() as here:
        coordinator = await here.net.registered()
        coordinator.say(start())
        await settled()
        coordinator.say(why)
        await settled()
        assert coordinator.closed
        assert here.membership.assignment.partitions == set()
        await here.net.registered()
        assert here.listener.told[1:] == [("lost", {ONE})]


async def test_a_missing_coordinator_is_logged_once_per_session(caplog: pytest.LogCaptureFixture) -> None:
    async with scene() as here:
        refusing = asyncio.create_task(here.net.refuse_all(Code.COORDINATOR_NOT_AVAILABLE))
        await asyncio.sleep(SESSION_S * 0.9)
        assert not caplog.records
        await asyncio.sleep(SESSION_S * 3)
        assert 2 <= len(caplog.records) <= 3
        assert {each.levelname for each in caplog.records} == {"WARNING"}
        assert "COORDINATOR_NOT_AVAILABLE" in caplog.text
        refusing.cancel()


async def test_an_id_that_is_taken_is_tried_again_but_not_for_ever() -> None:
    async with scene() as here:
        attempts = asyncio.create_task(here.net.refuse_all(Code.UNRELEASED_INSTANCE_ID))
        began_s = asyncio.get_running_loop().time()
        with pytest.raises(RegistrationRefusedError, match="another consumer"):
            await here.running
        assert 3 * SESSION_S < asyncio.get_running_loop().time() - began_s < 4 * SESSION_S
        attempts.cancel()


async def test_a_refusal_for_good_ends_it() -> None:
    async with scene() as here:
        (await here.net.next()).say(metadata())
        (await here.net.next()).say(INT16.pack(Code.INCONSISTENT_GROUP_PROTOCOL))
        with pytest.raises(RegistrationRefusedError, match="another protocol"):
            await here.running


async def test_an_offset_out_of_its_log_has_it_registered_anew_and_begin_elsewhere() -> None:
    async with scene() as here:
        coordinator = await here.net.registered()
        coordinator.say(start(7))
        await settled()
        here.membership.assignment._readers[ONE].out_of_range = True
        coordinator.say(PING)
        await settled()
        assert coordinator.closed
        assert coordinator.sent[-1] == push.ping_answer("c", told(7)), "what the others came to is told"
        coordinator = await here.net.registered()
        coordinator.say(start(7))
        await settled()
        assert [each.offset for each in here.membership.assignment.positions] == [-2]


async def test_partitions_that_run_out_of_their_logs_one_after_the_other_are_all_read_in_the_end() -> None:
    """The first partition is assigned its invalid offset again before the consumer could report a new one."""
    async with scene() as here:
        for out_of_range, begun in ((0, [7, 9]), (1, [-2, 9]), (None, [-2, -2])):
            coordinator = await here.net.registered()
            coordinator.say(start(7, 9))
            await settled()
            assert [each.offset for each in here.membership.assignment.positions] == begun
            if out_of_range is not None:
                here.membership.assignment._readers[TopicPartition("t", out_of_range)].out_of_range = True
                coordinator.say(PING)
                await settled()
                assert coordinator.closed
        for offset in (8, 7):
            coordinator.say(STOP)
            await settled()
            coordinator.say(start(offset, 9))
            await settled()
            assert [each.offset for each in here.membership.assignment.positions] == [offset, -2], (
                "what was told since counts"
            )


async def test_nothing_that_the_listener_is_told_outlives_the_connection() -> None:
    """Otherwise two calls would overlap, and the end of the older one would start the delivery."""
    async with scene() as here:
        here.listener.assigned_takes_s = 1.5
        coordinator = await here.net.registered()
        coordinator.say(start(), STOP)
        await asyncio.sleep(0.1)
        coordinator.say(None)
        coordinator = await here.net.registered()
        coordinator.say(start())
        await settled()
        began_s = asyncio.get_running_loop().time()
        while not here.flow.may_deliver:  # noqa: ASYNC110 - on virtual time
            await asyncio.sleep(0.01)
        assert asyncio.get_running_loop().time() - began_s >= 1.4
        assert here.listener.cancelled == 1


def _fail() -> None:
    raise TimeoutError("of something that the listener waits for")


async def test_a_listener_that_fails_ends_the_consumer() -> None:
    async with scene() as here:
        here.listener.on_revoked = _fail
        coordinator = await here.net.registered()
        coordinator.say(start(), STOP)
        with pytest.raises(CallbackFailedError, match="of something"):
            await here.running
        assert coordinator.closed


async def test_a_listener_whose_method_is_not_async_fails_as_any(monkeypatch: pytest.MonkeyPatch) -> None:
    async with scene() as here:
        monkeypatch.setattr(here.listener, "assigned", lambda partitions: _fail())
        (await here.net.registered()).say(start())
        with pytest.raises(CallbackFailedError, match="of something"):
            await here.running


async def test_the_consumer_leaves_after_the_ping_that_follows_its_last_offsets() -> None:
    async with scene() as here:
        coordinator = await here.net.registered()
        coordinator.say(start())
        await settled()
        here.listener.on_revoked = lambda: here.acknowledge(8)
        assert await here.membership.leave(), "there is something to wait for"
        assert not here.running.done()
        coordinator.say(PING)
        await settled()
        assert coordinator.sent[-1] == push.ping_answer("c", told(9))
        coordinator.say(PING)
        await here.running
        assert coordinator.closed
        assert here.listener.told == [("assigned", {ONE}), ("revoked", {ONE})]


async def test_a_consumer_stopped_while_leaving_ends_when_others_start() -> None:
    async with scene() as here:
        coordinator = await here.net.registered()
        coordinator.say(start())
        await settled()
        await here.membership.leave()
        assert not here.membership.assignment._readers[ONE].acknowledge(8), (
            "its last offsets are those when revoked returned"
        )
        coordinator.say(STOP, start())
        await here.running
        assert [each[0] for each in here.listener.told] == ["assigned", "revoked"]


async def test_a_consumer_that_reads_nothing_may_leave_at_once() -> None:
    async with scene() as here:
        await here.net.registered()
        assert not await here.membership.leave()


async def test_a_place_of_the_log_is_no_offset_that_could_be_committed() -> None:
    async with scene() as here:
        coordinator = await here.net.registered()
        coordinator.say(start(-2))
        await settled()
        assert here.membership.assignment.partitions == {ONE}
        async with asyncio.timeout(1.0):
            await here.membership.commit()


async def test_a_commit_without_a_coordinator_says_so_and_so_does_one_without_an_answer() -> None:
    async with scene() as here:
        coordinator = await here.net.registered()
        await here.membership.commit()
        coordinator.say(start())
        await settled()
        commit = asyncio.create_task(here.membership.commit())
        coordinator.say(None)
        await asyncio.sleep(200_000)
        with pytest.raises(CommitRefusedError):
            await commit


async def test_a_stop_is_not_answered_while_a_commit_is_on_its_way_but_not_for_long() -> None:
    """Otherwise other consumers would have continued by the time it arrives."""
    async with scene(callback_timeout_s=2.0) as here:
        coordinator = await here.net.registered()
        coordinator.say(start())
        await settled()
        commits = [asyncio.create_task(here.membership.commit()) for _ in range(2)]
        await settled()
        coordinator.say(STOP)
        await settled()
        commits[0].cancel()
        await asyncio.sleep(1.9)
        assert len(coordinator.sent) == 1
        await asyncio.sleep(0.2)
        assert coordinator.sent[-1] == push.stop_answer("c", told(7))
        commits[1].cancel()
