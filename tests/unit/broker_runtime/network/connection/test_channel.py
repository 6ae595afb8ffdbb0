"""The shell around a machine, over transports in memory: its watched events, its reads, and how it continues."""

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterable
from itertools import accumulate
from random import Random
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.errors import ProtocolError
from broker_runtime.network.connection.channel import Channel
from broker_runtime.network.connection.connection import Origin
from broker_runtime.network.connection.connection_states import ConnectionState
from broker_runtime.network.connection.shared import Shared
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply
from tests.support.fakes.manual_clock import ManualClock
from tests.support.fakes.memory_transport import EncryptingTransport, MemoryTransport
from tests.support.fakes.noted_poller import NotedPoller
from tests.support.oracles.circles import no_circles


def request(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Alarm:
    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    """An event loop. `alarms` are by the seconds that they were requested for, from then."""

    def __init__(self) -> None:
        self._soon: list[Callable[[], None]] = []
        self.alarms: list[tuple[float, Alarm]] = []

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Alarm:
        self.alarms.append((delay_s, Alarm(callback)))
        return self.alarms[-1][1]

    def call_soon(self, callback: Callable[[], None]) -> None:
        self._soon.append(callback)

    def run(self) -> None:
        while self._soon:
            self._soon.pop(0)()


def _is_batch(frame: memoryview) -> bool:
    return bytes(frame[:5]) in (b"batch", b"bad b")


class Served:
    """One connection; a request `later` is answered when the test says so."""

    def __init__(self, transport: MemoryTransport, limits: NetworkLimits | None = None) -> None:
        self.transport = transport
        self.loop, self.poller = Loop(), NotedPoller()
        self.promises: list[PendingReply] = []
        self.numbers: list[int] = []
        """Numbers of the requests that promises were made for, if they have one."""
        self.meanwhile: dict[bytes, Callable[[], None]] = {}
        """Actions while these requests are handled."""
        self.ended = 0
        self.refusals: list[str] = []
        self.clock = ManualClock()
        shared = Shared(
            cast(AbstractEventLoop, self.loop), self.poller, self.clock, limits or NetworkLimits(), self._handle
        )
        shared.host = self
        self.shared = shared
        self.channel = Channel(transport, Origin(1, "EXTERNAL", ("10.0.0.1", 1), 1000.0), shared)
        self.connection = self.channel.connection
        self.channel.start()

    def _handle(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        self.meanwhile.get(bytes(frame), lambda: None)()
        if b"throttled" in bytes(frame):
            connection.throttle_s = 5.0
        if bytes(frame).startswith(b"bad"):
            raise ProtocolError("bad", "the test says so")
        if bytes(frame).endswith(b"later"):
            self.promises.append(PendingReply())
            self.numbers.append(int(bytes(frame).split()[1]) if len(bytes(frame).split()) == 3 else 0)
            if bytes(frame).startswith(b"batch") and b"checked" not in bytes(frame):
                self.promises[-1].admits = _is_batch
            return self.promises[-1]
        return (request(bytes(frame)),)

    def memory_freed(self, waiting: Iterable[int]) -> None:
        raise AssertionError("memory is ample")

    def connection_closed(self, connection: ServedConnection) -> None:
        self.ended += 1

    def connection_refused(self, connection: ServedConnection, kind: str, text: str) -> None:
        self.refusals.append(kind)

    request_refused = connection_refused

    def handler_failed(self, connection: ServedConnection, error: Exception) -> None:
        raise error

    def taken(self) -> bytes:
        sent = bytes(self.transport.sent)
        self.transport.sent.clear()
        return sent


@pytest.mark.parametrize("transport", [MemoryTransport(), EncryptingTransport()], ids=["plain", "encrypting"])
def test_requests_are_answered_and_a_muted_client_is_not_watched_once_it_has_sent_more(
    transport: MemoryTransport,
) -> None:
    served = Served(transport)
    transport.arrive(request(b"a") + request(b"later") + request(b"b"))
    served.channel.on_readable()
    assert served.taken() == request(b"a")
    assert served.poller.watched == (True, False), "as long as nothing comes it costs nothing to watch"
    transport.arrive(request(b"c"))
    transport.end()
    served.channel.on_readable()
    assert served.poller.watched == (False, False)
    served.promises[0].complete((request(b"at last"),))
    served.loop.run()
    assert served.taken() == request(b"at last") + request(b"b")
    assert served.poller.watched == (True, False)
    served.channel.on_readable()
    served.channel.on_readable()
    assert served.taken() == request(b"c")
    assert (served.ended, served.refusals) == (1, [])


def test_a_socket_that_is_full_is_watched_until_everything_is_sent() -> None:
    transport = MemoryTransport(room=3)
    served = Served(transport)
    transport.arrive(request(b"abc") + request(b"def"))
    served.channel.on_readable()
    assert served.poller.watched == (True, True)
    transport.room = 1_000
    served.channel.on_writable()
    assert served.taken() == request(b"abc") + request(b"def")
    assert served.poller.watched == (True, False)


def test_a_transport_that_must_read_before_it_may_write_is_written_to_when_it_has_read() -> None:
    transport = EncryptingTransport()
    served = Served(transport)
    transport.arrive(request(b"later"))
    served.channel.on_readable()
    transport.must_read_first = True
    served.promises[0].complete((request(b"at last"),))
    assert served.poller.watched == (True, False), "no place is waited for"
    transport.must_read_first = False
    served.channel.on_readable()
    assert served.taken() == request(b"at last")
    assert served.poller.watched == (True, False)


def test_what_a_transport_holds_is_handled_though_its_socket_shows_nothing() -> None:
    transport = EncryptingTransport()
    served = Served(transport, NetworkLimits(max_buffered_bytes=200_000, max_request_bytes=60_000))
    bodies = [bytes([number]) * 15_000 for number in range(8)]
    transport.arrive(b"".join(map(request, bodies)))
    for _ in range(20):
        served.channel.on_readable()
        served.loop.run()
    assert served.taken() == b"".join(map(request, bodies))
    assert not transport.holds_bytes


def test_a_client_over_its_quota_has_its_answer_at_once_and_the_next_one_when_the_throttle_time_is_over() -> None:
    transport = MemoryTransport()
    served = Served(transport)
    transport.arrive(request(b"throttled") + request(b"a"))
    served.channel.on_readable()
    assert served.taken() == request(b"throttled")
    transport.arrive(request(b"b"))
    served.channel.on_readable()
    assert served.poller.watched == (False, False)
    ((delay_s, alarm),) = served.loop.alarms
    assert delay_s == 5.0
    served.clock.advance(4.5)
    alarm.callback()
    served.loop.run()
    assert served.taken() == b"", "an alarm may ring too early"
    delay_s, alarm = served.loop.alarms[-1]
    assert delay_s == 0.5
    served.clock.advance(0.5)
    alarm.callback()
    served.loop.run()
    assert served.taken() == request(b"a")
    assert served.poller.watched == (True, False)
    served.channel.on_readable()
    assert served.taken() == request(b"b")


def test_a_client_may_be_throttled_by_an_answer_that_comes_later() -> None:
    transport = MemoryTransport()
    served = Served(transport)
    transport.arrive(request(b"later") + request(b"a"))
    served.channel.on_readable()
    served.connection.throttle_s = 2.0
    served.promises[0].complete((request(b"at last"),))
    assert served.taken() == request(b"at last")
    served.loop.run()
    assert served.taken() == b""
    ((delay_s, alarm),) = served.loop.alarms
    assert delay_s == 2.0
    served.clock.advance(2.0)
    alarm.callback()
    served.loop.run()
    assert served.taken() == request(b"a")


def test_nothing_waits_for_a_throttled_connection_that_has_ended() -> None:
    transport = MemoryTransport()
    served = Served(transport)
    transport.arrive(request(b"throttled"))
    served.channel.on_readable()
    served.connection.close(when_idle=True)
    assert served.ended == 1
    assert [alarm.cancelled for _, alarm in served.loop.alarms] == [True]


def test_batches_that_came_together_are_carried_out_together_and_answered_in_their_order() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(b"".join(map(request, (b"batch 1 later", b"batch 2", b"batch 3 later", b"metadata"))))
    served.channel.on_readable()
    first, third = served.promises

    third.complete((request(b"3"),))
    served.loop.run()
    assert not served.taken(), "nobody is answered before the first"

    first.complete((request(b"1"),))
    served.loop.run()
    assert served.taken() == b"".join(map(request, (b"1", b"batch 2", b"3", b"metadata")))
    assert served.channel.machine.state is ConnectionState.READING


def test_what_is_answered_leaves_while_a_later_batch_is_waited_for() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"batch 1 later") + request(b"batch 2 later") + request(b"metadata"))
    served.channel.on_readable()
    first, second = served.promises

    first.complete((request(b"1"),))
    served.loop.run()
    assert served.taken() == request(b"1")
    second.complete((request(b"2"),))
    served.loop.run()
    assert served.taken() == request(b"2") + request(b"metadata")


def test_a_request_that_is_no_batch_waits_for_those_before_it() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"batch later") + request(b"fetch later"))
    served.channel.on_readable()
    assert len(served.promises) == 1
    served.promises[0].complete((request(b"1"),))
    served.loop.run()
    assert len(served.promises) == 2


@pytest.mark.parametrize("pieces", [1, 3])
def test_nothing_is_carried_out_behind_a_batch_that_is_to_be_checked_first(pieces: int) -> None:
    """The batch is appended only later, and the batches behind it must not be appended before."""
    served = Served(MemoryTransport())
    requests = [request(body) for body in (b"batch 1 later", b"batch to be checked later", b"batch 3 later")]
    for piece in requests if pieces > 1 else [b"".join(requests)]:
        served.transport.arrive(piece)
        served.channel.on_readable()
    assert len(served.promises) == 2
    served.promises[0].complete((request(b"1"),))
    served.loop.run()
    assert len(served.promises) == 2
    served.promises[1].complete((request(b"2"),))
    served.loop.run()
    served.channel.on_readable()
    served.loop.run()
    assert len(served.promises) == 3
    assert served.taken() == request(b"1") + request(b"2")


def test_a_client_that_waits_for_something_else_is_not_read() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"fetch later"))
    served.channel.on_readable()
    served.transport.arrive(request(b"batch"))
    served.channel.on_readable()
    assert served.poller.watched == (False, False)
    assert served.transport.receive_into(memoryview(bytearray(100))) == len(request(b"batch"))


def test_a_batch_may_be_done_with_the_one_behind_it() -> None:
    """The answer to the batch waits until the one behind it is handled, and is sent before that one's answer."""
    served = Served(MemoryTransport())
    served.meanwhile[b"batch 2"] = lambda: served.promises[0].complete((request(b"1"),))
    served.transport.arrive(request(b"batch 1 later"))
    served.channel.on_readable()
    served.transport.arrive(request(b"batch 2"))
    served.channel.on_readable()
    served.loop.run()
    assert served.taken() == request(b"1") + request(b"batch 2")
    assert served.channel.machine.state is ConnectionState.READING


def test_batches_behind_others_have_no_longer_time_slice_than_other_requests() -> None:
    served = Served(MemoryTransport())
    served.meanwhile[b"batch 2 later"] = lambda: served.clock.advance(1.0)
    for requests in ([b"batch 1 later"], [b"batch 2 later", b"batch 3 later"]):
        served.transport.arrive(b"".join(map(request, requests)))
        served.channel.on_readable()
    assert len(served.promises) == 2
    for promise in served.promises:
        promise.complete((request(b"done"),))
    served.loop.run()
    assert len(served.promises) == 3


def test_a_client_over_its_quota_is_not_read_while_its_batches_wait() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"batch 1 later") + request(b"batch throttled"))
    served.channel.on_readable()
    served.transport.arrive(request(b"batch 3 later"))
    served.channel.on_readable()
    assert len(served.promises) == 1
    served.clock.advance(5.1)
    served.promises[0].complete((request(b"1"),))
    served.loop.run()
    served.channel.on_readable()
    assert len(served.promises) == 2


def test_a_bad_request_behind_a_batch_ends_the_connection_once_that_is_answered() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"batch later") + request(b"bad batch") + request(b"batch never"))
    served.channel.on_readable()
    assert served.refusals == []
    served.promises[0].complete((request(b"1"),))
    served.loop.run()
    assert served.taken() == request(b"1")
    assert served.refusals == ["bad"]
    assert served.ended == 1


@pytest.mark.parametrize("which", [0, 1])
def test_a_batch_that_cannot_be_answered_ends_the_connection_and_the_waits_of_the_others(which: int) -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(b"".join(map(request, (b"batch 1 later", b"batch 2 later", b"batch 3 later"))))
    served.channel.on_readable()
    for promise in served.promises[:which]:
        promise.complete((request(b"1"),))
    served.promises[which].complete(None)
    served.loop.run()
    assert served.ended == 1
    assert all(promise.done for promise in served.promises)
    assert served.taken() in (b"", request(b"1"))


def test_nobody_waits_for_a_client_that_has_gone() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"batch 1 later") + request(b"batch 2 later"))
    served.channel.on_readable()
    served.channel.on_hang_up()
    assert served.ended == 1
    assert all(promise.done for promise in served.promises)


def test_a_connection_that_is_to_end_answers_all_batches_that_it_has_taken() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"batch 1 later") + request(b"batch 2 later"))
    served.channel.on_readable()
    served.connection.close(when_idle=True)
    for number, promise in enumerate(served.promises):
        assert not served.ended
        promise.complete((request(b"%d" % number),))
        served.loop.run()
    assert served.taken() == request(b"0") + request(b"1")
    assert served.ended == 1


def test_a_client_over_its_quota_has_the_answers_to_its_batches_and_is_then_left_alone() -> None:
    served = Served(MemoryTransport())
    batches = (b"batch 1 later", b"batch throttled", b"batch 3")
    served.transport.arrive(b"".join(map(request, batches)))
    served.channel.on_readable()
    served.promises[0].complete((request(b"1"),))
    served.loop.run()
    assert served.taken() == request(b"1") + request(b"batch throttled")
    assert served.channel.machine.state is ConnectionState.THROTTLED


def test_batches_that_come_while_others_wait_are_carried_out_and_answered_behind_them() -> None:
    served = Served(MemoryTransport())
    for number in range(3):
        served.transport.arrive(request(b"batch %d later" % number))
        served.channel.on_readable()
    assert len(served.promises) == 3
    for number in (2, 0, 1):
        served.promises[number].complete((request(b"%d" % number),))
    served.loop.run()
    assert served.taken() == request(b"0") + request(b"1") + request(b"2")
    assert served.channel.machine.state is ConnectionState.READING


def test_a_batch_that_comes_in_pieces_is_carried_out_while_others_wait() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"batch 0 later"))
    served.channel.on_readable()
    large = request(b"batch" + bytes(100_000) + b"later")
    for start in range(0, len(large), 30_000):
        served.transport.arrive(large[start : start + 30_000])
        served.channel.on_readable()
    assert len(served.promises) == 2
    for number, promise in enumerate(served.promises):
        promise.complete((request(b"%d" % number),))
        served.loop.run()
    assert served.taken() == request(b"0") + request(b"1")


def test_what_is_no_batch_mutes_the_client_until_the_batches_are_answered() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"batch later"))
    served.channel.on_readable()
    served.transport.arrive(request(b"metadata"))
    served.channel.on_readable()
    served.transport.arrive(request(b"batch later"))
    served.channel.on_readable()
    assert served.poller.watched == (False, False)
    served.promises[0].complete((request(b"0"),))
    served.loop.run()
    assert served.taken() == request(b"0") + request(b"metadata")
    assert served.poller.watched == (True, False)
    served.channel.on_readable()
    assert len(served.promises) == 2


def test_no_more_batches_wait_than_a_time_slice_allows_and_each_answer_makes_room() -> None:
    served = Served(MemoryTransport(), NetworkLimits(connection_turn_requests=2))
    for _ in range(4):
        served.transport.arrive(request(b"batch later"))
        served.channel.on_readable()
    assert len(served.promises) == 2
    assert served.poller.watched == (False, False)
    served.promises[0].complete((request(b"0"),))
    served.loop.run()
    assert served.poller.watched == (True, False)
    served.channel.on_readable()
    assert len(served.promises) == 3


@pytest.mark.parametrize(
    "rest", [b"", request(b"batch later")[:6]], ids=["after a whole request", "in the middle of one"]
)
def test_a_client_that_ends_its_side_has_the_answers_to_its_batches_first(rest: bytes) -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"batch later"))
    served.channel.on_readable()
    served.transport.arrive(rest)
    served.transport.end()
    served.channel.on_readable()
    served.channel.on_readable()
    assert served.refusals == []
    served.promises[0].complete((request(b"0"),))
    served.loop.run()
    assert served.taken() == request(b"0")
    served.channel.on_readable()
    assert served.ended == 1
    assert served.refusals == (["frame-truncated"] if rest else [])


def test_bytes_that_are_no_request_end_the_connection_once_the_batches_before_are_answered() -> None:
    served = Served(MemoryTransport())
    served.transport.arrive(request(b"batch later"))
    served.channel.on_readable()
    served.transport.arrive(b"\xff" * 8)
    served.channel.on_readable()
    served.transport.arrive(request(b"batch later"))
    served.channel.on_readable()
    assert served.refusals == []
    served.promises[0].complete((request(b"0"),))
    served.loop.run()
    assert served.taken() == request(b"0")
    assert served.refusals == ["frame-negative-size"]
    assert len(served.promises) == 1


def test_a_client_that_does_not_read_its_answers_is_not_read_either() -> None:
    served = Served(MemoryTransport(room=0))
    served.transport.arrive(request(b"batch later") + request(b"batch later"))
    served.channel.on_readable()
    served.promises[0].complete((request(b"0"),))
    served.loop.run()
    served.transport.arrive(request(b"batch later"))
    served.channel.on_readable()
    assert len(served.promises) == 2
    assert served.poller.watched == (False, True)
    served.transport.room = 1000
    served.channel.on_writable()
    assert served.taken() == request(b"0")
    assert served.poller.watched == (True, False)


@given(
    st.lists(st.sampled_from([b"batch later", b"batch", b"fetch later", b"metadata"]), max_size=30),
    st.lists(st.one_of(st.none(), st.integers(1, 40)), min_size=1, max_size=20),
    st.randoms(use_true_random=False),
    st.integers(1, 5),
)
def test_answers_come_in_the_order_of_requests_whatever_waits_and_however_the_stream_is_cut(
    kinds: list[bytes], cuts: list[int | None], choices: Random, limit: int
) -> None:
    served = Served(MemoryTransport(), NetworkLimits(connection_turn_requests=limit))
    bodies = [b"%s %d%s" % (kind.split()[0], number, kind[len(kind.split()[0]) :]) for number, kind in enumerate(kinds)]
    stream, number, sent = b"".join(map(request, bodies)), 0, 0
    ends = list(accumulate(len(request(body)) for body in bodies))

    def answer_one() -> None:
        open_ones = [promise for promise in served.promises if not promise.done]
        if open_ones:
            promise = choices.choice(open_ones)
            promise.complete((request(b"answer to %d" % served.numbers[served.promises.index(promise)]),))

    for _ in range(1_000):
        if stream:
            size = cuts[number % len(cuts)] or next(end for end in ends if end > sent) - sent
            sent += size
            served.transport.arrive(stream[:size])
            stream = stream[size:]
            number += 1
        if served.poller.watched == (True, False):
            served.channel.on_readable()
        if not stream or choices.random() < 0.5:
            answer_one()
        served.loop.run()
        if not stream and not served.transport.holds_unread and all(promise.done for promise in served.promises):
            break
    expected = [b"answer to %d" % number if b"later" in body else body for number, body in enumerate(bodies)]
    assert served.taken() == b"".join(map(request, expected))
    assert served.channel.machine.state is ConnectionState.READING


def refuse_behind_a_batch(served: Served, sent: bytes) -> None:
    served.transport.arrive(request(b"batch later"))
    served.channel.on_readable()
    served.transport.arrive(sent)
    served.channel.on_readable()
    served.promises.pop().complete((request(b"stored"),))
    served.loop.run()
    assert served.taken() == request(b"stored")
    assert (served.ended, len(served.refusals)) == (1, 1)


@pytest.mark.parametrize("sent", [request(b"bad batch"), b"\xff\xff\xff\xff"], ids=["by its handler", "by its size"])
def test_a_refusal_that_waits_for_the_answers_before_it_keeps_nothing(sent: bytes) -> None:
    served = Served(MemoryTransport())
    with no_circles():
        refuse_behind_a_batch(served, sent)


@pytest.mark.parametrize("transport", [MemoryTransport(), EncryptingTransport()], ids=["plain", "encrypting"])
def test_a_client_whose_request_took_long_is_read_from_in_its_time_slice(transport: MemoryTransport) -> None:
    served = Served(transport)
    transport.arrive(request(b"a"))
    served.channel.on_readable()
    served.channel.was_heavy(0.001)
    assert served.taken() == request(b"a")
    transport.arrive(request(b"b"))
    served.channel.on_readable()
    assert served.taken() == b"", "others come first"
    assert served.poller.watched == (False, False)
    served.loop.run()
    assert served.taken() == request(b"b")
    assert served.poller.watched == (True, False)
    transport.arrive(request(b"c"))
    served.channel.on_readable()
    assert served.taken() == request(b"c"), "its last request was short"
