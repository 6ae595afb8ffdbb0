"""Requests and replies over one connection: order, large requests, pending replies, slow readers, file regions."""

import os
import socket
import struct
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from broker_runtime.network.connection.connection import Connection
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.reply import NO_REPLY, FileRegion, PendingReply, Reply
from tests.support.processes.clients.socket_bench import BENCHES, PING, Bench, bench_on, echo


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_on(request.param)


def request(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class OpenFile:
    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def fileno(self) -> int:
        return self._file.fileno()

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self.fileno(), size, offset)


class Promises:
    """A handler whose replies come when the test completes them; a request `now:...` is answered at once."""

    def __init__(self) -> None:
        self.waiting: list[tuple[bytes, PendingReply]] = []
        self.cancelled: list[bytes] = []

    def handle(self, frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        body = bytes(frame)
        if body.startswith(b"now:"):
            return echo(frame, connection)
        promise = PendingReply(partial(self.cancelled.append, body))
        self.waiting.append((body, promise))
        return promise

    def keep(self) -> None:
        body, promise = self.waiting.pop(0)
        promise.complete((request(body),))


@pytest.mark.parametrize("length", [0, 1, 65_530, 262_140, 262_141, 300_000, 3_000_000])
def test_requests_of_all_sizes_are_answered(bench: Bench, length: int) -> None:
    bench.serve()
    client = bench.connect()
    body = bytes(range(256)) * (length // 256) + bytes(range(length % 256))
    sent = request(body) + PING
    answer = bench.exchange(client, sent, len(sent))
    assert answer == sent
    assert bench.buffered_bytes == 0


def test_many_requests_in_one_write_are_answered_in_order(bench: Bench) -> None:
    bench.serve()
    client = bench.connect()
    sent = b"".join(request(b"%d" % number) for number in range(20_000))
    assert bench.exchange(client, sent, len(sent)) == sent


@pytest.mark.parametrize("limits", [{"connection_turn_requests": 7}, {"connection_turn_requests": 1, "turn_s": 1e-9}])
def test_many_requests_are_answered_in_turns_and_in_order(bench: Bench, limits: dict[str, Any]) -> None:
    """Also requests that are split at the end of a read, and while others wait in between."""
    bench.serve(limits=NetworkLimits(**limits))
    first, second = bench.connect(), bench.connect()
    sent = b"".join(request(b"%d" % number * (number % 50)) for number in range(4_000))
    second.sendall(PING * 1_000)
    assert bench.exchange(first, sent, len(sent)) == sent
    assert bench.receive_exactly(second, len(PING) * 1_000) == PING * 1_000
    assert bench.buffered_bytes == 0


@pytest.mark.parametrize("bound", ["requests", "time"])
def test_a_client_that_sends_many_requests_at_once_leaves_the_loop_to_others(bench: Bench, bound: str) -> None:
    """Between two iterations a timer, a task or another client is served; the rest needs no new event of a client."""
    handled: list[bytes] = []
    loop_iterations: list[int] = []

    def handle(frame: memoryview, connection: ServedConnection) -> Reply:
        handled.append(bytes(frame))
        return echo(frame, connection)

    def look() -> None:
        loop_iterations.append(len(handled))
        if len(handled) < 1_000:
            bench.loop.call_soon(look)

    by_requests = NetworkLimits(connection_turn_requests=10, turn_s=1e-9)
    by_time = NetworkLimits(connection_turn_s=1e-9, turn_s=1e-9)
    bench.serve(handler=handle, limits=by_requests if bound == "requests" else by_time)
    client = bench.connect()
    client.sendall(PING * 1_000)
    bench.loop.call_soon(look)
    bench.run_until(lambda: len(handled) == 1_000)
    assert max(after - before for before, after in pairwise(loop_iterations)) <= 10
    assert bench.receive_exactly(client, len(PING) * 1_000) == PING * 1_000


def test_a_pending_reply_mutes_the_connection_until_it_is_there(bench: Bench) -> None:
    promises = Promises()
    bench.serve(handler=promises.handle)
    client, other = bench.connect(), bench.connect()
    client.sendall(request(b"now:1") + request(b"later") + request(b"now:2"))
    assert bench.receive_exactly(client, 9) == request(b"now:1")
    bench.run_until(lambda: len(promises.waiting) == 1)
    # More requests arrive while the connection is muted, and are not handled before their time slice.
    client.sendall(request(b"later too") + request(b"now:3"))
    other.sendall(request(b"now:x"))
    assert bench.receive_exactly(other, 9) == request(b"now:x")
    assert [body for body, _ in promises.waiting] == [b"later"]
    promises.keep()
    expected = request(b"later") + request(b"now:2")
    assert bench.receive_exactly(client, len(expected)) == expected
    bench.run_until(lambda: len(promises.waiting) == 1)
    promises.keep()
    expected = request(b"later too") + request(b"now:3")
    assert bench.receive_exactly(client, len(expected)) == expected


def test_a_promise_that_is_kept_already_is_answered_in_the_same_pass(bench: Bench) -> None:
    def handle(frame: memoryview, connection: ServedConnection) -> PendingReply:
        promise = PendingReply()
        promise.complete(echo(frame, connection))
        return promise

    bench.serve(handler=handle)
    client = bench.connect()
    assert bench.exchange(client, PING * 100, len(PING) * 100) == PING * 100


def test_a_client_that_resets_cancels_its_pending_reply(bench: Bench) -> None:
    promises = Promises()
    bench.serve(handler=promises.handle)
    client = bench.connect()
    client.sendall(request(b"later"))
    bench.run_until(lambda: len(promises.waiting) == 1)
    leave(client, "reset")
    if bench.poller_kind == "loop":
        # Without epoll the broker notices the reset when it cannot send the reply, or when it resumes reading.
        promises.keep()
        bench.run_until(lambda: bench.connection_count == 0)
        return
    bench.run_until(lambda: promises.cancelled == [b"later"])
    assert bench.connection_count == 0
    # A late reply has no effect.
    promises.keep()


@pytest.mark.parametrize("how", ["close", "half-close"])
def test_a_client_that_ends_its_side_is_answered_first(bench: Bench, how: str) -> None:
    """Only a read can show whether more requests arrived before the end, and Kafka does not read either."""
    promises = Promises()
    bench.serve(handler=promises.handle)
    client = bench.connect()
    client.sendall(request(b"later"))
    bench.run_until(lambda: len(promises.waiting) == 1)
    leave(client, how)
    bench.run_until(lambda: True)
    assert promises.cancelled == []
    promises.keep()
    bench.run_until(lambda: bench.connection_count == 0)
    if how == "half-close":
        assert bench.receive(client) == request(b"later")
        assert bench.receive(client) == b""


@pytest.mark.parametrize("when", ["at once", "while muted"])
def test_requests_behind_a_pending_one_are_answered_though_the_client_has_ended_its_side(
    bench: Bench, when: str
) -> None:
    promises = Promises()
    bench.serve(handler=promises.handle)
    client = bench.connect()
    behind = request(b"now:1") + request(b"later too") + request(b"now:2")
    client.sendall(request(b"later") + (behind if when == "at once" else b""))
    bench.run_until(lambda: len(promises.waiting) == 1)
    if when == "while muted":
        client.sendall(behind)
    client.shutdown(socket.SHUT_WR)
    for body in (b"later", b"later too"):
        bench.run_until(lambda: len(promises.waiting) == 1)
        assert promises.waiting[0][0] == body
        promises.keep()
    expected = request(b"later") + behind
    assert bench.receive_exactly(client, len(expected)) == expected
    assert bench.receive(client) == b""
    bench.run_until(lambda: bench.connection_count == 0)
    assert promises.cancelled == []
    assert bench.server.refusals.totals == {}


def leave(client: socket.socket, how: str) -> None:
    if how == "half-close":
        client.shutdown(socket.SHUT_WR)
        return
    if how == "reset":
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def test_no_reply_and_a_promise_of_a_hang_up(bench: Bench) -> None:
    promises: list[PendingReply] = []

    def handle(frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        if bytes(frame) == b"none":
            return NO_REPLY
        if bytes(frame) == b"hang up":
            promises.append(PendingReply())
            return promises[-1]
        return echo(frame, connection)

    bench.serve(handler=handle)
    client = bench.connect()
    client.sendall(request(b"none") + PING + request(b"hang up"))
    assert bench.receive_exactly(client, len(PING)) == PING
    bench.run_until(lambda: len(promises) == 1)
    promises[0].complete(None)
    assert bench.receive(client) == b""


def test_a_client_that_does_not_read_is_not_read_from(bench: Bench) -> None:
    handled: list[int] = []
    reply = request(bytes(1_000_000))

    def handle(frame: memoryview, connection: ServedConnection) -> Reply:
        del connection
        handled.append(len(frame))
        return (reply,)

    bench.serve(handler=handle)
    client, other = bench.connect(), bench.connect()
    client.sendall(PING * 100)
    bench.run_until(lambda: len(handled) >= 1)
    assert bench.receive_exactly(other_asks(other), len(reply)) == reply
    # The kernel's buffers hold a few megabytes; the other requests have to wait.
    assert len(handled) < 30
    assert bench.receive_exactly(client, 100 * len(reply)) == reply * 100
    assert len(handled) == 101


def other_asks(client: socket.socket) -> socket.socket:
    client.sendall(PING)
    return client


@pytest.mark.parametrize("length", [1, 30_000, 40_000, 5_000_000])
def test_file_regions_are_sent_between_bytes(bench: Bench, tmp_path: Path, length: int) -> None:
    content = bytes(range(251)) * (length // 251 + 2)
    path = tmp_path / "segment.log"
    path.write_bytes(content)
    with path.open("rb") as opened:
        file = OpenFile(opened)

        def handle(frame: memoryview, connection: ServedConnection) -> Reply:
            del frame, connection
            header = struct.pack(">i", 2 * length + 3)
            return (header, b"a", FileRegion(file, 7, length), bytearray(b"b"), FileRegion(file, 0, length), b"c")

        bench.serve(handler=handle)
        client = bench.connect()
        expected = struct.pack(">i", 2 * length + 3) + b"a" + content[7 : 7 + length] + b"b" + content[:length] + b"c"
        assert bench.exchange(client, PING * 3, 3 * len(expected)) == expected * 3


def test_a_file_that_is_too_short_ends_the_connection(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "segment.log"
    path.write_bytes(bytes(1_000))
    with path.open("rb") as opened:
        file = OpenFile(opened)

        def handle(frame: memoryview, connection: ServedConnection) -> Reply:
            del connection
            return (struct.pack(">i", 100_000), FileRegion(file, 0, 500 if bytes(frame) == b"ping" else 100_000))

        bench.serve(handler=handle)
        client = bench.connect()
        client.sendall(request(b"too much"))
        while bench.receive(client):
            continue
        assert bench.metric("refused_total", kind="reply-truncated") == 1


def test_shutdown_answers_what_is_in_progress_and_takes_nothing_more(bench: Bench) -> None:
    promises = Promises()
    bench.serve(handler=promises.handle)
    client, idle = bench.connect(), bench.connect()
    client.sendall(request(b"later"))
    bench.run_until(lambda: len(promises.waiting) == 1)
    stopping = bench.loop.create_task(bench.server.shutdown(drain_s=5))
    assert bench.receive(idle) == b""
    assert not stopping.done()
    client.sendall(request(b"now:too late"))
    promises.keep()
    assert bench.receive_exactly(client, 9) == request(b"later")
    assert bench.receive(client) == b""
    bench.loop.run_until_complete(stopping)
    assert promises.cancelled == []


def test_shutdown_has_a_deadline(bench: Bench) -> None:
    promises = Promises()
    bench.serve(handler=promises.handle)
    client = bench.connect()
    client.sendall(request(b"never"))
    bench.run_until(lambda: len(promises.waiting) == 1)
    bench.loop.run_until_complete(bench.server.shutdown(drain_s=0.05))
    assert promises.cancelled == [b"never"]
    assert bench.receive(client) == b""


def test_a_connection_knows_its_listener_its_peer_and_keeps_state_for_the_api_layer(bench: Bench) -> None:
    def handle(frame: memoryview, connection: ServedConnection) -> Reply:
        seen = connection.state
        connection.state = bytes(frame)
        text = f"{connection.listener} {connection.peer[0]} {connection.peer[1]} {seen!r}"
        return (request(text.encode()),)

    bench.serve(None, "EXTERNAL", "ADMIN", handler=handle, limits=NetworkLimits())
    first, second = bench.connect("ADMIN", "127.0.1.4"), bench.connect("EXTERNAL")
    first.sendall(PING)
    port = first.getsockname()[1]
    assert bench.receive(first)[4:] == b"ADMIN 127.0.1.4 %d None" % port
    first.sendall(PING)
    assert bench.receive(first)[4:] == b"ADMIN 127.0.1.4 %d b'ping'" % port
    second.sendall(PING)
    assert bench.receive(second)[4:].split()[0] == b"EXTERNAL"


@pytest.mark.parametrize("reset", [False, True])
def test_requests_that_have_arrived_are_carried_out_though_the_client_has_gone(bench: Bench, *, reset: bool) -> None:
    """As for a producer with acks=0: it sends its records, waits for no answer, and closes."""
    handled: list[bytes] = []

    def handle(frame: memoryview, connection: ServedConnection) -> Reply:
        del connection
        handled.append(bytes(frame))
        return NO_REPLY

    bench.serve(handler=handle, limits=NetworkLimits(connection_turn_requests=3, turn_s=1e-9))
    client = bench.connect()
    bench.run_until(lambda: bench.connection_count == 1)
    client.sendall(PING * 1_000)
    bench.run_until(lambda: len(handled) > 3)
    if reset:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    bench.run_until(lambda: bench.connection_count == 0)
    assert len(handled) == 1_000
    assert bench.buffered_bytes == 0


def test_a_frame_that_answers_nothing_is_sent_between_replies(bench: Bench) -> None:
    connections: list[ServedConnection] = []

    def handle(frame: memoryview, connection: ServedConnection) -> Reply:
        connections.append(connection)
        if bytes(frame) == b"call":
            connection.push(request(b"in between"))
        return echo(frame, connection)

    bench.serve(handler=handle)
    client = bench.connect()
    client.sendall(PING + request(b"call") + PING)
    expected = PING + request(b"in between") + request(b"call") + PING
    assert bench.receive_exactly(client, len(expected)) == expected
    assert connections[0].push(request(b"unasked"))
    assert bench.receive_exactly(client, 11) == request(b"unasked")
    client.close()
    bench.run_until(lambda: bench.connection_count == 0)
    assert not connections[0].push(request(b"too late"))


def test_a_frame_that_answers_nothing_reaches_a_client_whose_reply_is_pending(bench: Bench) -> None:
    promises, connections = Promises(), []

    def handle(frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        connections.append(connection)
        return promises.handle(frame, connection)

    bench.serve(handler=handle)
    client = bench.connect()
    client.sendall(request(b"later"))
    bench.run_until(lambda: len(promises.waiting) == 1)
    connections[0].push(request(b"meanwhile"))
    assert bench.receive_exactly(client, 13) == request(b"meanwhile")
    promises.keep()
    assert bench.receive_exactly(client, 9) == request(b"later")


def test_a_client_that_does_not_read_what_is_pushed_is_closed(bench: Bench) -> None:
    connections: list[ServedConnection] = []

    def handle(frame: memoryview, connection: ServedConnection) -> Reply:
        connections.append(connection)
        return echo(frame, connection)

    bench.serve(handler=handle, limits=NetworkLimits(push_max_bytes=1_000_000))
    client = bench.connect()
    assert bench.ask(client)
    pushed = 0
    while connections[0].push(bytes(100_000)):
        pushed += 1
        assert pushed < 1_000, "there is no bound"
    assert bench.connection_count == 0
    assert bench.metric("refused_total", kind="push-not-read") == 1


@pytest.mark.parametrize("how", ["client", "server", "shutdown"])
def test_each_close_callback_runs_once_unless_it_was_removed(bench: Bench, how: str) -> None:
    told: list[str] = []
    connections: list[Connection] = []

    def fail() -> None:
        told.append("failing")
        raise OSError("a mistake of the observer")

    def forgotten() -> None:
        told.append("forgotten")

    def handle(frame: memoryview, connection: ServedConnection) -> Reply:
        assert isinstance(connection, Connection)
        connections.append(connection)
        connection.closed.add(fail)
        connection.closed.add(forgotten)
        connection.closed.add(partial(told.append, "told"))
        connection.closed.remove(forgotten)
        return echo(frame, connection)

    bench.serve(handler=handle)
    client = bench.connect()
    assert bench.ask(client)
    assert told == []
    if how == "client":
        client.close()
    elif how == "server":
        connections[0].close()
        connections[0].close()
    else:
        bench.loop.run_until_complete(bench.server.shutdown(drain_s=1))
    bench.run_until(lambda: bench.connection_count == 0)
    assert told == ["failing", "told"]
    assert bench.server.refusals.totals["handler-failed"] == 1
