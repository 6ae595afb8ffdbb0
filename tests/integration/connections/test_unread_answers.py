"""Answers that clients do not read: together they take a bounded amount of memory, and other clients are served."""

import socket
import weakref
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import pytest

from broker_runtime.network.settings import NetworkLimits
from broker_runtime.wire.answer_memory import AnswerMemory
from broker_runtime.wire.handler import ServedConnection
from broker_runtime.wire.reply import Reply
from tests.support.processes.clients.socket_bench import BENCHES, Bench, bench_on

MB = 1_000_000
ANSWER_BYTES = 16 * MB
"""More than the kernel keeps for a client that does not read."""
LIMIT = 80 * MB
LARGE = b"\x00\x00\x00\x05large"
LIMITS = NetworkLimits(send_buffer_bytes=64 * 1024)


class Answer(bytearray):
    """An answer whose end of life can be observed."""


class LargeAnswers:
    """Handles requests: `large` gets an answer of ANSWER_BYTES, any other request gets itself."""

    def __init__(self) -> None:
        self._alive: list[weakref.ref[Answer]] = []
        self.answered = 0
        self.most_bytes = 0

    def handle(self, frame: memoryview, connection: ServedConnection) -> Reply:
        del connection
        if bytes(frame) != b"large":
            return len(frame).to_bytes(4, "big"), bytes(frame)
        answer = Answer(ANSWER_BYTES)
        answer[:4] = (ANSWER_BYTES - 4).to_bytes(4, "big")
        self.answered += 1
        self._alive = [each for each in self._alive if each() is not None] + [weakref.ref(answer)]
        self.most_bytes = max(self.most_bytes, ANSWER_BYTES * len(self._alive))
        return (answer,)


@dataclass
class World:
    bench: Bench
    answers: LargeAnswers

    def connect(self, count: int) -> list[socket.socket]:
        """Connect clients that request a large answer, one after the other, and do not read it."""
        found = []
        for _ in range(count):
            client, wanted = self.bench.connect(), self.answers.answered + 1
            client.sendall(LARGE)
            self.bench.run_until(lambda wanted=wanted: self.answers.answered == wanted)  # type: ignore[misc]
            found.append(client)
        return found

    def read_large(self, client: socket.socket) -> bool:
        """Whether the client gets a whole large answer."""
        client.sendall(LARGE)
        left = ANSWER_BYTES

        def is_read() -> bool:
            nonlocal left
            with suppress(BlockingIOError):
                part = client.recv(1 << 20)
                assert part, f"the connection ended with {left} bytes missing"
                left -= len(part)
            return left == 0

        self.bench.run_until(is_read)
        return True


@pytest.fixture(params=BENCHES)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    for bench in bench_on(request.param):
        answers = LargeAnswers()
        bench.serve(limits=LIMITS, handler=answers.handle, answers=AnswerMemory(LIMIT))
        yield World(bench, answers)


def test_clients_that_do_not_read_share_one_limit_and_others_are_served(world: World) -> None:
    bench = world.bench
    reading, quick = bench.connect(), bench.connect()
    for _ in range(4):
        world.connect(25)
        bench.run_until(lambda: bench.metric("buffered_response_bytes") <= LIMIT)
        assert world.read_large(reading)
        assert bench.ask(quick)
    bench.run_until(lambda: bench.metric("buffered_response_bytes") <= LIMIT)
    assert world.answers.most_bytes <= 1.25 * LIMIT + 2 * ANSWER_BYTES
    refused = bench.server.refusals.totals
    assert refused.keys() == {"response-not-read"}
    assert refused["response-not-read"] + bench.metric("unread_responses") == 100


def test_memory_is_free_again_when_the_clients_have_gone(world: World) -> None:
    bench = world.bench
    clients = world.connect(4)
    bench.run_until(lambda: bench.metric("unread_responses") == 4)
    assert bench.metric("buffered_response_bytes") == 4 * ANSWER_BYTES
    for client in clients:
        client.close()
    bench.run_until(lambda: bench.metric("unread_responses") == 0)
    assert bench.metric("buffered_response_bytes") == 0
    assert bench.server.refusals.totals == {}


def test_a_slow_reader_outlives_clients_that_do_not_read(world: World) -> None:
    """The slow client reads some hundred kilobytes between two connections of other clients."""
    bench = world.bench
    slow = bench.connect()
    slow.sendall(LARGE)
    left = ANSWER_BYTES

    def read_some() -> None:
        nonlocal left
        with suppress(BlockingIOError):
            part = slow.recv(200_000)
            assert part, f"the connection ended with {left} bytes missing"
            left -= len(part)

    bench.run_until(lambda: bench.metric("unread_responses") == 1)
    for _ in range(40):
        read_some()
        world.connect(1)
    assert bench.server.refusals.totals["response-not-read"] >= 30

    def is_read() -> bool:
        read_some()
        return left == 0

    bench.run_until(is_read)
