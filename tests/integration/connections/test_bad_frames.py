"""Invalid frames end their connection with one rate-limited log line and a counter; other connections continue."""

import logging
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from broker_runtime.errors import ProtocolError
from broker_runtime.network.settings import NetworkLimits
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.reply import PendingReply, Reply
from tests.support.processes.clients.socket_bench import BENCHES, PING, Bench, bench_on, echo

LISTENER = {"listener": "EXTERNAL"}


def size(count: int) -> bytes:
    return struct.pack(">i", count)


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_on(request.param)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.message for record in caplog.records if record.levelno >= logging.WARNING]


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


@pytest.mark.parametrize(
    ("sent", "kind"),
    [
        (size(-1), "frame-negative-size"),
        (size(-(2**31)) + b"abc", "frame-negative-size"),
        (size(2**31 - 1), "frame-too-large"),
        (size(104_857_601), "frame-too-large"),
        # The first bytes of an HTTP request and of a TLS hello, interpreted as a size.
        (b"GET / HTTP/1.1\r\n\r\n", "frame-too-large"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "frame-too-large"),
    ],
)
def test_a_size_that_is_not_allowed(bench: Bench, caplog: pytest.LogCaptureFixture, sent: bytes, kind: str) -> None:
    bench.serve()
    good = bench.connect()
    assert bench.ask(good)
    bad = bench.connect()
    bad.sendall(sent)
    assert bench.receive(bad) == b""
    assert bench.ask(good)
    assert bench.metric("refused_total", kind=kind) == 1
    (line,) = warnings(caplog)
    assert line.startswith(
        f"{kind}: closing the connection 127.0.0.1:{bad.getsockname()[1] if bad.fileno() >= 0 else ''}"
    )
    assert bench.connection_count == 1


def test_a_bad_size_after_good_requests_leaves_their_replies(bench: Bench) -> None:
    bench.serve()
    client = bench.connect()
    client.sendall(PING + PING + size(-5))
    assert bench.receive_exactly(client, 2 * len(PING)) == PING + PING
    assert bench.receive(client) == b""


def test_a_request_that_the_handler_refuses(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    def refuse(frame: memoryview, connection: ServedConnection) -> Reply:
        if bytes(frame) == b"bad!":
            raise ProtocolError("unknown-api-key", "no such request")
        return echo(frame, connection)

    bench.serve(handler=refuse)
    good, bad = bench.connect(), bench.connect()
    bad.sendall(PING + size(4) + b"bad!" + PING)
    assert bench.receive_exactly(bad, len(PING)) == PING
    assert bench.receive(bad) == b""
    assert bench.ask(good)
    assert bench.metric("refused_total", kind="unknown-api-key") == 1
    assert len(warnings(caplog)) == 1


def test_a_request_that_turns_out_bad_later(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    waiting: list[ServedConnection] = []
    cancelled: list[bool] = []

    def promise(frame: memoryview, connection: ServedConnection) -> Reply | PendingReply:
        if bytes(frame) != b"bad!":
            return echo(frame, connection)
        waiting.append(connection)
        return PendingReply(lambda: cancelled.append(True))

    bench.serve(handler=promise)
    good = bench.connect()
    bad = [bench.connect() for _ in range(5)]
    for client in bad:
        client.sendall(size(4) + b"bad!")
    bench.run_until(lambda: len(waiting) == 5)
    for connection in waiting:
        connection.refuse("malformed", "a field is missing")
        connection.refuse("malformed", "told twice, counted once")
    assert [bench.receive(client) for client in bad] == [b""] * 5
    assert bench.ask(good)
    assert bench.metric("refused_total", kind="malformed") == 5
    assert len(warnings(caplog)) == 1
    assert len(cancelled) == 5


def test_an_internal_error_ends_one_connection_and_is_logged_with_its_traceback(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(frame: memoryview, connection: ServedConnection) -> Reply:
        if bytes(frame) == b"fail":
            raise KeyError("a mistake")
        return echo(frame, connection)

    bench.serve(handler=fail)
    good, unlucky = bench.connect(), bench.connect()
    unlucky.sendall(size(4) + b"fail")
    assert bench.receive(unlucky) == b""
    assert bench.ask(good)
    (record,) = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert record.exc_info is not None
    assert bench.metric("refused_total", kind="handler-failed") == 1


@pytest.mark.parametrize("sent", [b"\x00", size(100), size(100) + b"some", size(300_000) + bytes(280_000)])
def test_a_request_that_stops_in_the_middle(bench: Bench, sent: bytes) -> None:
    bench.serve()
    client = bench.connect()
    client.sendall(sent)
    bench.run_until(lambda: bench.connection_count == 1)
    client.shutdown(socket.SHUT_WR)
    assert bench.receive(client) == b""
    bench.run_until(lambda: bench.connection_count == 0)
    assert bench.metric("refused_total", kind="frame-truncated") == 1
    assert bench.buffered_bytes == 0


def test_a_reset_in_the_middle_of_a_request(bench: Bench) -> None:
    bench.serve()
    good, client = bench.connect(), bench.connect()
    client.sendall(size(100_000) + bytes(50_000))
    bench.run_until(lambda: bench.buffered_bytes > 0)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    bench.run_until(lambda: bench.connection_count == 1)
    assert bench.buffered_bytes == 0
    assert bench.ask(good)


def test_a_half_closed_connection_gets_its_answers_and_ends(bench: Bench) -> None:
    bench.serve()
    client = bench.connect()
    client.sendall(PING)
    client.shutdown(socket.SHUT_WR)
    assert bench.receive_exactly(client, len(PING)) == PING
    assert bench.receive(client) == b""
    assert bench.server.refusals.totals == {}


def test_a_request_that_drips_in_too_slowly(bench: Bench) -> None:
    bench.serve(limits=NetworkLimits(frame_receive_timeout_s=0.5))
    good, slow = bench.connect(), bench.connect()
    assert bench.ask(good)
    slow.sendall(size(1_000))

    def drip() -> bool:
        if bench.server.refusals.totals.get("frame-too-slow"):
            return True
        slow.send(b"x")
        return False

    bench.run_until(drip)
    assert bench.receive(slow) == b""
    assert bench.ask(good)
    assert bench.buffered_bytes == 0


def test_a_client_of_many_requests_is_never_too_slow(bench: Bench) -> None:
    """The reads of the client always end in the middle of some request, but never for long in the same request."""
    bench.serve(limits=NetworkLimits(frame_receive_timeout_s=0.6))
    client = bench.connect()
    end_s = bench.loop.time() + 2.0
    sent = received = 0

    def keep_the_end_back() -> bool:
        nonlocal sent, received
        client.sendall((PING[4:] if sent else b"") + PING + size(4))
        sent += 1
        received += len(bench_recv(client))
        return bench.loop.time() > end_s

    bench.run_until(keep_the_end_back)
    assert bench.is_open(client)
    assert sent > 50
    assert received > 0


def bench_recv(client: socket.socket) -> bytes:
    try:
        return client.recv(65536)
    except BlockingIOError:
        return b""


def test_a_request_byte_by_byte_is_served(bench: Bench) -> None:
    bench.serve()
    client = bench.connect()
    for byte in PING:
        client.sendall(bytes([byte]))
        bench.run_until(lambda: True)
    assert bench.receive_exactly(client, len(PING)) == PING


def test_two_hundred_announcements_of_a_hundred_megabytes_leave_memory_flat(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    bench.serve(limits=NetworkLimits(listen_backlog=250))
    good = bench.connect()
    assert bench.ask(good)
    before = resident_bytes()
    bad = [bench.connect() for _ in range(200)]
    for client in bad:
        client.sendall(size(100_000_000) + bytes(10_000))
    bench.run_until(lambda: bench.metric("unfinished_requests") == 200)
    assert bench.ask(good)
    assert resident_bytes() - before < 40_000_000
    for client in bad:
        client.shutdown(socket.SHUT_WR)
    bench.run_until(lambda: bench.connection_count == 1)
    assert bench.buffered_bytes == 0
    assert bench.metric("refused_total", kind="frame-truncated") == 200
    assert len(warnings(caplog)) == 1
    assert bench.ask(good)


def test_the_second_log_line_counts_the_omitted_ones(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    bench.serve(limits=NetworkLimits(log_interval_s=0.3))
    end_s = bench.loop.time() + 30
    sent = 0
    while len(warnings(caplog)) < 2:
        assert bench.loop.time() < end_s, "there is no second line"
        client = bench.connect()
        client.sendall(size(-1))
        assert bench.receive(client) == b""
        sent += 1
    assert sent > 2
    assert f"({sent - 2} more like this since the last line)" in warnings(caplog)[1]
