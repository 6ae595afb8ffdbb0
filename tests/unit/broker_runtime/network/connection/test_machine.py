"""One connection without a socket: its input, its output, and its memory, in every state."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_runtime.network.connection.commands import Command
from broker_runtime.network.connection.connection_states import (
    DATA,
    ConnectionEvent,
    ConnectionState,
    UnknownEventError,
    after,
)
from broker_runtime.network.connection.machine import ConnectionMachine
from broker_runtime.network.connection.received.incoming import SharedBuffers
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.wire.reply import PendingReply, Reply

NOW_S = 100.0


def request(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Driven:
    """A machine, driven as by a shell whose socket takes bytes in `sent` only; requests `later` are deferred."""

    def __init__(self, limits: NetworkLimits | None = None) -> None:
        self.freed = 0
        self.buffers = SharedBuffers(limits or NetworkLimits(), self._note_freed)
        self.machine = ConnectionMachine(7, "127.0.0.1", self.buffers)
        self.handled: list[bytes] = []
        self.promise = PendingReply()
        """The reply to the last request that was deferred."""
        self.now_s = NOW_S

    def _note_freed(self) -> None:
        self.freed += 1

    def receive(self, data: bytes) -> None:
        """Pass data as a socket does: a piece at a time, as much as there is space for."""
        while data:
            space = self.machine.space(self.now_s)
            assert space is not None
            count = min(len(data), len(space))
            space[:count] = data[:count]
            data = data[count:]
            self.serve(self.machine.received(count, self.now_s))
            assert not data or self.machine.state is ConnectionState.READING

    def serve(self, command: Command) -> Command:
        """Handle requests until the machine wants something else."""
        while command is Command.HANDLE:
            self.check_data()
            body = bytes(self.machine.request)
            self.handled.append(body)
            command = self.machine.answered(self.handle(self.machine.request), self.now_s)
        self.check_data()
        return command

    def check_data(self) -> None:
        """Check that the machine has only data that its state allows."""
        machine, frame = self.machine, self.machine.incoming.frame
        existing = {
            "request": len(machine.request) > 0,
            "owed": machine.owed is not None,
            "outgoing": bool(machine.outgoing),
            "blocked": machine.blocked,
            "complete request": frame is not None and frame.complete,
            "throttle": machine.throttled_until_s > self.now_s,
            "is_heavy": machine.is_heavy,
            "problem": machine.problem is not None,
        }
        assert existing.keys() == DATA.keys()
        forbidden = [name for name, exists in existing.items() if exists and machine.state not in DATA[name].states]
        assert not forbidden, f"{forbidden} in state {machine.state.name}"
        assert machine.outgoing or not machine.blocked

    def handle(self, frame: memoryview) -> Reply | PendingReply:
        if bytes(frame[:5]) != b"later":
            return (request(bytes(frame)),)
        self.promise = PendingReply()
        return self.promise

    def is_now(self, state: ConnectionState) -> bool:
        return self.machine.state is state

    def sent(self) -> bytes:
        """The pending output, all of it taken as by a socket."""
        outgoing = self.machine.outgoing or []
        taken = b"".join(bytes(chunk) for chunk in outgoing if isinstance(chunk, bytes))
        if taken:
            outgoing.clear()
            self.machine.sent(self.now_s)
            self.check_data()
        return taken

    def reply(self, body: bytes) -> Command:
        self.promise.complete((request(body),))
        command = self.machine.collect(self.now_s, at_once=True)
        return self.machine.collect(self.now_s, at_once=False) if command is Command.COLLECT else command


@given(st.lists(st.binary(max_size=60), max_size=40), st.lists(st.integers(1, 90), min_size=1, max_size=20))
def test_requests_come_out_as_they_were_put_in_however_the_stream_is_cut(bodies: list[bytes], cuts: list[int]) -> None:
    driven = Driven(NetworkLimits(connection_turn_requests=3))
    stream = b"".join(request(b"#" + body) for body in bodies)
    answers = b""
    position = number = 0
    while position < len(stream):
        end = position + cuts[number % len(cuts)]
        number += 1
        driven.receive(stream[position:end])
        position = end
        answers += driven.sent()
        while driven.machine.state is ConnectionState.QUEUED:
            driven.serve(driven.machine.begin_slice(NOW_S))
            answers += driven.sent()
    assert answers == stream
    assert driven.handled == [b"#" + body for body in bodies]
    assert driven.is_now(ConnectionState.READING)
    assert driven.buffers.memory.total == 0
    assert not driven.buffers.memory.holders


@pytest.mark.parametrize("body", [b"now", b"later"])
def test_a_blocked_connection_has_unsent_bytes_until_the_socket_takes_them(body: bytes) -> None:
    driven = Driven()
    driven.receive(request(body))
    assert driven.machine.push(b"unasked")
    driven.serve(driven.machine.sent(NOW_S))
    assert driven.machine.blocked
    assert driven.sent()
    assert not driven.machine.blocked


def test_a_request_that_arrives_alone_takes_three_commands() -> None:
    driven = Driven()
    space = driven.machine.space(NOW_S)
    assert space is not None
    space[: len(request(b"a"))] = request(b"a")
    assert driven.machine.received(len(request(b"a")), NOW_S) is Command.HANDLE
    assert bytes(driven.machine.request) == b"a"
    assert driven.machine.answered((b"reply",), NOW_S) is Command.SEND
    assert driven.machine.outgoing == [b"reply"]
    driven.machine.outgoing.clear()
    assert driven.machine.sent(NOW_S) is Command.READ
    assert driven.is_now(ConnectionState.READING)


@pytest.mark.parametrize("takes", [True, False], ids=["a fast client", "a slow client"])
def test_large_replies_are_sent_within_a_time_slice_which_ends_if_the_client_does_not_read_them(takes: bool) -> None:
    driven = Driven()
    data = b"".join(map(request, (b"a", b"b", b"c")))
    space = driven.machine.space(NOW_S)
    assert space is not None
    space[: len(data)] = data
    assert driven.machine.received(len(data), NOW_S) is Command.HANDLE
    assert driven.machine.answered((bytes(200_000),), NOW_S) is Command.HANDLE
    assert driven.machine.answered((bytes(100_000),), NOW_S) is Command.SEND
    assert driven.machine.outgoing is not None
    if takes:
        driven.machine.outgoing.clear()
        assert driven.machine.sent(NOW_S) is Command.HANDLE
        assert bytes(driven.machine.request) == b"c"
    else:
        assert driven.machine.sent(NOW_S) is Command.WAIT
        assert driven.is_now(ConnectionState.SENDING)
        assert driven.machine.blocked
        assert len(driven.sent()) == 300_000
        assert driven.is_now(ConnectionState.QUEUED)
        driven.serve(driven.machine.begin_slice(NOW_S))
        assert driven.handled == [b"c"]


@pytest.mark.parametrize("length", [0, 65_530, 262_141, 3_000_000])
def test_requests_of_all_sizes(length: int) -> None:
    driven = Driven()
    body = bytes(range(256)) * (length // 256) + bytes(length % 256)
    for start in range(0, len(request(body)), 200_000):
        driven.receive(request(body)[start : start + 200_000])
        driven.sent()
    assert driven.handled == [body]
    assert driven.buffers.memory.total == 0


def test_complete_requests_behind_a_deferred_one_wait_and_are_served_before_the_end_of_the_stream() -> None:
    driven = Driven()
    driven.receive(request(b"later") + request(b"a") + request(b"b"))
    assert driven.is_now(ConnectionState.AWAITING)
    with pytest.raises(UnknownEventError, match="Awaiting cannot get the event: the client has closed its side"):
        driven.machine.end(ConnectionEvent.END_OF_STREAM)
    driven.reply(b"at last")
    assert driven.sent() == request(b"at last")
    assert driven.is_now(ConnectionState.QUEUED)
    driven.serve(driven.machine.begin_slice(NOW_S))
    assert driven.sent() == request(b"a") + request(b"b")
    assert driven.machine.received(0, NOW_S) is Command.END_OF_STREAM
    assert driven.machine.problem is None
    driven.machine.end(ConnectionEvent.END_OF_STREAM)
    assert driven.is_now(ConnectionState.CLOSED)
    assert driven.handled == [b"later", b"a", b"b"]


def test_replies_before_a_deferred_one_are_sent_while_it_is_awaited() -> None:
    driven = Driven()
    driven.receive(request(b"a") + request(b"later"))
    assert driven.sent() == request(b"a")
    assert driven.is_now(ConnectionState.AWAITING)
    driven.reply(b"now")
    assert driven.sent() == request(b"now")
    assert driven.is_now(ConnectionState.READING)


def test_requests_left_over_by_a_turn_are_returned_by_the_next() -> None:
    driven = Driven()
    data = b"".join(request(b"%d" % number) for number in range(5))
    space = driven.machine.space(NOW_S)
    assert space is not None
    space[: len(data)] = data
    assert driven.machine.received(len(data), NOW_S) is Command.HANDLE
    assert driven.machine.answered((request(b"0"),), NOW_S) is Command.HANDLE
    assert driven.machine.answered((request(b"1"),), NOW_S + 1) is Command.SEND, "its time is over"
    assert driven.sent() == request(b"0") + request(b"1")
    driven.serve(driven.machine.begin_slice(NOW_S))
    assert driven.handled == [b"2", b"3", b"4"]


def test_a_size_that_is_not_allowed_is_refused_after_what_was_before_it() -> None:
    driven = Driven()
    driven.receive(request(b"a") + b"\xff\xff\xff\xff")
    assert driven.sent() == request(b"a")
    assert driven.is_now(ConnectionState.QUEUED)
    assert driven.machine.begin_slice(NOW_S) is Command.REFUSE
    assert "announced -1 bytes" in str(driven.machine.problem)
    driven.machine.end(ConnectionEvent.REFUSE)
    assert driven.is_now(ConnectionState.CLOSED)
    assert driven.buffers.memory.total == 0


def test_the_time_out_of_a_request_runs_only_while_it_is_read_and_begins_anew_after_a_reply() -> None:
    timeout_s = NetworkLimits().frame_receive_timeout_s
    driven = Driven()
    driven.receive(request(b"later") + request(b"half")[:5])
    driven.sent()
    assert driven.machine.overdue(NOW_S + 10 * timeout_s) is None
    driven.now_s = NOW_S + 20 * timeout_s
    assert driven.reply(b"at last") is Command.SEND
    assert driven.machine.sent(driven.now_s) is Command.WAIT, "the socket has taken nothing"
    assert driven.machine.blocked
    assert driven.machine.overdue(driven.now_s + 10 * timeout_s) is None
    driven.sent()
    assert driven.machine.overdue(driven.now_s + timeout_s) is None
    problem = driven.machine.overdue(driven.now_s + timeout_s + 1)
    assert problem is not None
    assert problem.kind == "frame-too-slow"


def test_bytes_now_and_then_do_not_make_a_request_faster() -> None:
    driven = Driven()
    driven.receive(request(b"slowly")[:4])
    driven.sent()
    driven.now_s += 20
    driven.receive(b"s")
    driven.sent()
    assert driven.machine.overdue(NOW_S + 31) is not None


def test_a_stream_that_ends_in_the_middle_of_a_request_is_refused() -> None:
    driven = Driven()
    driven.receive(request(b"cut")[:5])
    driven.sent()
    assert driven.machine.received(0, NOW_S) is Command.END_OF_STREAM
    problem = driven.machine.problem
    assert problem is not None
    assert problem.kind == "frame-truncated"
    driven.machine.end(ConnectionEvent.END_OF_STREAM)
    assert driven.is_now(ConnectionState.CLOSED)
    assert driven.buffers.memory.total == 0
    assert driven.freed == 1


def test_a_request_without_memory_is_not_read_until_there_is_some() -> None:
    driven = Driven(NetworkLimits(max_buffered_bytes=100_000, max_request_bytes=50_000))
    # Another connection waits longer, and has been admitted.
    driven.buffers.memory.take(1, "127.0.0.2", 90_000)
    assert driven.buffers.memory.room(1, "127.0.0.2", 90_000, 1_000, NOW_S) > 0
    driven.receive(request(bytes(40_000))[:10_000])
    driven.sent()
    assert driven.machine.space(NOW_S) is None
    assert driven.is_now(ConnectionState.SHORT_OF_MEMORY)
    assert driven.machine.begin_slice(NOW_S) is Command.WAIT
    assert driven.is_now(ConnectionState.SHORT_OF_MEMORY)
    driven.buffers.memory.give_back(1, "127.0.0.2", 90_000)
    assert driven.machine.begin_slice(NOW_S) is Command.READ
    assert driven.is_now(ConnectionState.READING)


def test_a_connection_awaiting_its_reply_does_not_block_the_memory_reserved_for_one_request() -> None:
    driven = Driven(NetworkLimits(max_buffered_bytes=1_000_000, max_request_bytes=200_000))
    memory = driven.buffers.memory
    driven.receive(request(b"later") + request(bytes(100_000))[:50_000])
    assert driven.is_now(ConnectionState.AWAITING)
    memory.take(1, "127.0.0.2", 900_000)
    assert driven.machine.space(NOW_S) is None
    assert memory.room(2, "127.0.0.3", 0, 100_000, NOW_S) == 100_000, "the one that waits is let through"


def test_a_connection_that_is_to_end_answers_what_it_has_taken_and_no_more() -> None:
    driven = Driven()
    driven.receive(request(b"later") + request(b"not taken"))
    driven.machine.end(ConnectionEvent.FINISH)
    assert not driven.is_now(ConnectionState.CLOSED)
    assert driven.is_now(ConnectionState.ENDING)
    driven.reply(b"the last one")
    assert driven.sent() == request(b"the last one")
    assert driven.is_now(ConnectionState.CLOSED)
    assert driven.handled == [b"later"]
    assert driven.buffers.memory.total == 0


def test_waiting_requests_are_executed_although_the_peer_has_disconnected() -> None:
    driven = Driven(NetworkLimits(connection_turn_requests=1))
    driven.receive(request(b"a") + request(b"b"))
    driven.sent()
    driven.machine.end(ConnectionEvent.LOST)
    assert not driven.is_now(ConnectionState.CLOSED)
    driven.serve(driven.machine.begin_slice(NOW_S))
    assert driven.handled == [b"a", b"b"]
    driven.machine.end(ConnectionEvent.LOST)
    assert driven.is_now(ConnectionState.CLOSED)


def test_a_connection_that_its_own_handler_closes_sends_nothing_more() -> None:
    driven = Driven()
    data = request(b"a")
    space = driven.machine.space(NOW_S)
    assert space is not None
    space[: len(data)] = data
    assert driven.machine.received(len(data), NOW_S) is Command.HANDLE
    driven.machine.end(ConnectionEvent.CLOSE)
    assert driven.is_now(ConnectionState.CLOSED)
    late = PendingReply()
    assert driven.machine.answered(late, NOW_S) is Command.WAIT
    assert driven.is_now(ConnectionState.CLOSED)
    assert late.done, "nobody waits for it"
    assert driven.machine.collect(NOW_S, at_once=False) is Command.WAIT
    assert driven.machine.outgoing is None
    driven.machine.end(ConnectionEvent.CLOSE)
    assert driven.is_now(ConnectionState.CLOSED), "it is closed once"


def test_a_frame_that_answers_nothing_goes_between_replies() -> None:
    driven = Driven()
    assert driven.machine.push(b"first")
    assert driven.is_now(ConnectionState.SENDING)
    assert driven.sent() == b"first"
    assert driven.is_now(ConnectionState.READING)
    driven.receive(request(b"a") + request(b"later") + request(b"b"))
    assert driven.machine.push(b"second")
    assert driven.is_now(ConnectionState.AWAITING)
    driven.reply(b"at last")
    assert driven.machine.push(b"third")
    assert driven.sent() == request(b"a") + b"second" + request(b"at last") + b"third"
    assert driven.is_now(ConnectionState.QUEUED)
    assert driven.machine.push(b"fourth")
    assert driven.sent() == b"fourth"
    assert driven.is_now(ConnectionState.QUEUED), "what waits for its time slice is not forgotten"
    driven.serve(driven.machine.begin_slice(NOW_S))
    assert driven.handled == [b"a", b"later", b"b"]


def test_one_frame_that_answers_nothing_is_sent_whatever_its_size() -> None:
    driven = Driven(NetworkLimits(push_max_bytes=10))
    assert driven.machine.push(b"x" * 1_000)
    assert not driven.machine.push(b"1")


def test_frames_that_nobody_reads_are_bounded_and_what_was_read_does_not_count() -> None:
    driven = Driven(NetworkLimits(push_max_bytes=10))
    for _ in range(3):
        assert driven.machine.push(b"12345")
        assert driven.machine.push(b"67890")
        assert driven.sent() == b"1234567890"
    assert driven.machine.push(b"12345")
    assert not driven.machine.push(b"123456")
    assert driven.machine.outgoing == [b"12345"]


def test_nothing_is_pushed_to_a_connection_that_has_ended() -> None:
    driven = Driven()
    driven.machine.end(ConnectionEvent.CLOSE)
    assert driven.is_now(ConnectionState.CLOSED)
    assert driven.machine.push(b"too late")
    assert driven.machine.outgoing is None


def test_what_cannot_happen_raises() -> None:
    driven = Driven()
    driven.receive(request(b"half")[:5])
    driven.sent()
    with pytest.raises(UnknownEventError, match="Reading cannot get the event: all replies are sent"):
        driven.machine.sent(NOW_S)
    with pytest.raises(UnknownEventError, match="Reading cannot get the event: memory is free again"):
        after(driven.machine.state, ConnectionEvent.MEMORY)
    driven.machine.outgoing = []
    with pytest.raises(UnknownEventError, match="Reading cannot get the event: the requests of this time slice"):
        driven.machine.answered((), NOW_S)


def test_a_client_over_its_quota_is_answered_at_once_and_then_left_alone() -> None:
    timeout_s = NetworkLimits().frame_receive_timeout_s
    driven = Driven()
    driven.machine.throttled_until_s = NOW_S + 5
    driven.receive(request(b"a") + request(b"half")[:5])
    assert driven.sent() == request(b"a")
    assert driven.is_now(ConnectionState.THROTTLED)
    assert driven.machine.overdue(NOW_S + 10 * timeout_s) is None
    assert driven.machine.begin_slice(NOW_S + 4.9) is Command.WAKE
    assert driven.is_now(ConnectionState.THROTTLED)
    assert driven.machine.begin_slice(NOW_S + 5) is Command.READ
    assert driven.is_now(ConnectionState.READING)
    assert driven.machine.overdue(NOW_S + 5 + timeout_s) is None
    assert driven.machine.overdue(NOW_S + 6 + timeout_s) is not None


def test_requests_that_have_arrived_wait_for_the_end_of_the_throttle_time() -> None:
    driven = Driven(NetworkLimits(connection_turn_requests=1))
    driven.machine.throttled_until_s = NOW_S + 5
    driven.receive(request(b"a") + request(b"b"))
    assert driven.sent() == request(b"a")
    assert driven.machine.push(b"unasked")
    assert driven.sent() == b"unasked"
    assert driven.is_now(ConnectionState.THROTTLED), "what answers nothing ends no throttle time"
    assert driven.machine.begin_slice(NOW_S + 5) is Command.QUEUE
    assert driven.is_now(ConnectionState.QUEUED)
    driven.now_s = NOW_S + 5
    driven.serve(driven.machine.begin_slice(NOW_S + 5))
    assert driven.sent() == request(b"b")
    assert driven.is_now(ConnectionState.READING)


@pytest.mark.parametrize(
    "event", [ConnectionEvent.CLOSE, ConnectionEvent.REFUSE, ConnectionEvent.FINISH, ConnectionEvent.LOST]
)
def test_a_throttled_client_has_no_pending_reply(event: ConnectionEvent) -> None:
    driven = Driven()
    driven.machine.throttled_until_s = NOW_S + 5
    driven.receive(request(b"a"))
    driven.sent()
    driven.machine.end(event)
    assert driven.is_now(ConnectionState.CLOSED)


class Keeping(Driven):
    """A machine whose handler reads frames after its call."""

    def handle(self, frame: memoryview) -> Reply | PendingReply:
        self.kept = [self.machine.incoming.hold(frame)]
        return super().handle(frame)


@pytest.mark.parametrize("length", [10, 100_000, 3_000_000])
def test_a_kept_frame_is_valid_until_it_is_answered_and_a_large_one_counts_as_long(length: int) -> None:
    driven = Keeping()
    body = b"later" + bytes(range(250)) * (length // 250)
    for start in range(0, len(request(body)), 200_000):
        driven.receive(request(body)[start : start + 200_000])
    assert driven.is_now(ConnectionState.AWAITING)
    driven.buffers.scratch[:] = b"\xee" * len(driven.buffers.scratch)
    (frame,) = driven.kept
    assert bytes(frame) == body
    assert (driven.buffers.memory.total >= len(body)) is (length > 1_000_000)
    freed = driven.freed
    driven.reply(b"done")
    assert driven.sent() == request(b"done")
    assert driven.buffers.memory.total == 0
    assert driven.freed == freed + (length > 1_000_000)
    assert bytes(frame) == body, "it is still the same"


@pytest.mark.parametrize("end", ["released", "closed"])
def test_the_memory_of_a_kept_frame_is_given_back_once(end: str) -> None:
    driven = Keeping()
    body = b"later" + bytes(1_000_000)
    for start in range(0, len(request(body)), 200_000):
        driven.receive(request(body)[start : start + 200_000])
    assert driven.buffers.memory.total >= len(body)
    if end == "released":
        driven.machine.incoming.release()
    else:
        driven.machine.end(ConnectionEvent.LOST)
        assert driven.is_now(ConnectionState.CLOSED)
    assert driven.buffers.memory.total == 0
    driven.machine.incoming.release()
    assert driven.buffers.memory.total == 0


@pytest.mark.parametrize("end", ["released", "answered", "closed"])
def test_copies_of_a_request_count_as_memory_until_the_request_is_done(end: str) -> None:
    driven = Driven()
    driven.receive(request(b"later"))
    driven.machine.incoming.release(1_000)
    assert driven.buffers.memory.total == 1_000
    freed = driven.freed
    if end == "released":
        driven.machine.incoming.release()
    elif end == "answered":
        driven.reply(b"done")
    else:
        driven.machine.end(ConnectionEvent.LOST)
    assert driven.buffers.memory.total == 0
    assert driven.freed == freed + 1


def test_the_memory_of_answers_is_counted_while_the_socket_takes_no_more() -> None:
    driven = Driven()
    answers = driven.buffers.answers
    driven.receive(request(b"now"))
    driven.serve(driven.machine.sent(NOW_S))
    assert (answers.used, answers.unread) == (len(request(b"now")), 1)
    assert driven.machine.push(b"unasked")
    assert answers.used == len(request(b"now")) + len(b"unasked")
    assert driven.sent()
    assert (answers.used, answers.unread) == (0, 0)


def test_an_answer_that_comes_while_the_socket_takes_no_more_is_counted_too() -> None:
    driven = Driven()
    answers = driven.buffers.answers
    driven.receive(request(b"later"))
    assert driven.machine.push(b"unasked")
    driven.machine.sent(NOW_S)
    driven.reply(b"it comes")
    assert answers.used == len(b"unasked") + len(request(b"it comes"))
    driven.machine.end(ConnectionEvent.CLOSE)
    assert (answers.used, answers.unread) == (0, 0)
