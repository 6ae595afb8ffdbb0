"""Requests that arrive slowly, or never completely: how much memory they may use, and which requests wait for it."""

import struct
from collections.abc import Iterator
from contextlib import suppress

import pytest

from broker_runtime.network.settings import NetworkLimits
from tests.support.processes.clients.socket_bench import BENCHES, Bench, bench_on

KB, MB = 1_000, 1_000_000
LIMITS = NetworkLimits(max_buffered_bytes=40 * MB, max_request_bytes=10 * MB)
ONE_READ_BYTES = 256 * 1024
"""Bytes that a connection may keep without a reservation: the rest of its last read."""


@pytest.fixture(params=BENCHES)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    yield from bench_on(request.param)


def request(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


class Sending:
    """Clients that send as much as the server accepts, and record their answers."""

    def __init__(self, bench: Bench, *requests: tuple[bytes, str]) -> None:
        """Connect the clients. `requests` are the bytes to send, and the source address."""
        self._unsent = [(bench.connect(source=source), memoryview(sent)) for sent, source in requests]
        self.answers = [bytearray() for _ in requests]
        self.most_buffered = 0.0
        self._bench = bench

    def go_on(self) -> None:
        for number, (client, unsent) in enumerate(self._unsent):
            with suppress(BlockingIOError):
                self._unsent[number] = (client, unsent[client.send(unsent) :] if unsent else unsent)
            with suppress(BlockingIOError):
                self.answers[number] += client.recv(1 << 20)
        self.most_buffered = max(self.most_buffered, self._bench.buffered_bytes)


@pytest.mark.parametrize("source", ["127.0.0.1", "127.0.0.2"])
def test_half_sent_requests_do_not_shut_out_a_small_one(bench: Bench, source: str) -> None:
    """The small request comes from the same address or from another one."""
    bench.serve(limits=LIMITS)
    half = request(bytes(10 * MB - 4))[: 5 * MB]
    bad = Sending(bench, *[(half, "127.0.0.1")] * 22)

    def memory_is_short() -> bool:
        bad.go_on()
        return bench.metric("requests_without_memory") > 10

    bench.run_until(memory_is_short)
    client = bench.connect(source=source)
    body = request(bytes(900 * KB))
    for _ in range(3):
        assert bench.exchange(client, body, len(body)) == body
    assert bench.ask(client)
    assert bad.most_buffered <= 40 * MB
    assert bench.server.refusals.totals == {}


def test_large_requests_over_the_memory_limit_wait_and_are_all_answered(bench: Bench) -> None:
    """More large requests than fit arrive at once: they wait, and every one is answered."""
    bench.serve(limits=LIMITS)
    bodies = [request(bytes([number]) * 9 * MB) for number in range(12)]
    clients = Sending(bench, *((body, f"127.0.0.{number % 3 + 1}") for number, body in enumerate(bodies)))
    waited = 0.0

    def all_answered() -> bool:
        nonlocal waited
        clients.go_on()
        waited = max(waited, bench.metric("requests_without_memory"))
        return all(len(answer) == len(body) for answer, body in zip(clients.answers, bodies, strict=True))

    bench.run_until(all_answered)
    assert [bytes(answer) for answer in clients.answers] == bodies
    assert waited > 0
    assert clients.most_buffered <= 40 * MB + len(bodies) * ONE_READ_BYTES
    assert bench.server.refusals.totals == {}
    assert (bench.buffered_bytes, bench.metric("requests_without_memory")) == (0, 0)


@pytest.mark.full
def test_a_slow_request_that_goes_on_arriving_is_never_cut(bench: Bench) -> None:
    """The request takes several times the timeout."""
    bench.serve(limits=NetworkLimits(frame_receive_timeout_s=1.0))
    client = bench.connect()
    body = request(bytes(600 * KB))
    sent = 0
    begun_s = bench.loop.time()

    def drip() -> bool:
        nonlocal sent
        due = int((bench.loop.time() - begun_s) * 150 * KB)
        if due - sent >= 20 * KB or due >= len(body):
            sent += client.send(body[sent:due])
        return sent == len(body)

    bench.run_until(drip)
    assert bench.loop.time() - begun_s > 3
    assert bench.receive_exactly(client, len(body)) == body


@pytest.mark.parametrize("then", ["nothing", "a byte now and then"])
def test_a_large_request_that_goes_no_further_is_cut(bench: Bench, then: str) -> None:
    bench.serve(limits=NetworkLimits(frame_receive_timeout_s=0.5))
    good, client = bench.connect(), bench.connect()
    client.sendall(request(bytes(600 * KB))[: 100 * KB])

    def is_cut() -> bool:
        if bench.server.refusals.totals.get("frame-too-slow"):
            return True
        if then != "nothing":
            client.send(b"x")
        return False

    bench.run_until(is_cut)
    assert bench.receive(client) == b""
    assert bench.buffered_bytes == 0
    assert bench.ask(good)


def test_a_favoured_connection_that_stalls_is_closed_so_that_the_next_one_continues(bench: Bench) -> None:
    limits = NetworkLimits(max_buffered_bytes=400 * KB, max_request_bytes=1_000 * KB, frame_receive_timeout_s=1.0)
    bench.serve(limits=limits)
    bad = bench.connect()
    bad.sendall(request(bytes(900 * KB))[: 300 * KB])
    bench.run_until(lambda: bench.buffered_bytes > 250 * KB)
    good = bench.connect(source="127.0.0.2")
    body = request(bytes(900 * KB))
    assert bench.exchange(good, body, len(body)) == body
    assert bench.server.refusals.totals.keys() == {"frame-memory-full"}
    assert bench.ask(good)
