"""The operator's /metrics, /healthz and /readyz, with clients that send nothing or read nothing."""

import os
import socket
from collections.abc import Iterator

import pytest

from sluicegate_operator.fleet.kafka.http_get import http_get
from sluicegate_operator.handlers.process import telemetry_server
from sluicegate_operator.handlers.process.health import Liveness, Readiness
from sluicegate_operator.handlers.process.telemetry_server import TelemetryServer
from tests.support.fakes.manual_clock import ManualClock
from tests.support.processes.clients.broker_admin import until

CONNECTIONS_MAX = 8
LARGE = bytes(4 << 20)
"""More than the buffers of a connection take."""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def readiness() -> Readiness:
    return Readiness()


@pytest.fixture
def server(clock: ManualClock, readiness: Readiness) -> Iterator[TelemetryServer]:
    liveness = Liveness(clock.monotonic)
    with TelemetryServer("127.0.0.1", 0, liveness, readiness, connections_max=CONNECTIONS_MAX) as server:
        yield server


async def ask(server: TelemetryServer, path: str) -> tuple[int, str]:
    answer = await http_get(("127.0.0.1", server.port), path, timeout_s=30)
    return answer.status, answer.body


@pytest.mark.parametrize("idle", [1, 4 * CONNECTIONS_MAX])
async def test_silent_connections_do_not_block_other_requests(server: TelemetryServer, idle: int) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(idle)]
    try:
        for client in silent[1::2]:
            client.sendall(b"GET /healthz HTTP/1.1\r\n")
        assert await ask(server, "/healthz") == (200, "ok\n")
        assert "sluicegate_leading" in (await ask(server, "/metrics"))[1]
    finally:
        for client in silent:
            client.close()


async def test_a_request_that_is_not_sent_in_time_ends_its_connection(clock: ManualClock) -> None:
    with (
        TelemetryServer(
            "127.0.0.1", 0, Liveness(clock.monotonic), Readiness(), connections_max=CONNECTIONS_MAX, timeout_s=0.2
        ) as server,
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as client,
    ):
        client.sendall(b"GET /met")
        assert client.recv(100) == b""


async def test_clients_that_do_not_read_their_answers_do_not_block_other_requests(
    server: TelemetryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_server, "choose_encoder", lambda _: (lambda _: LARGE, "text/plain"))
    unread = [client_of(server) for _ in range(4 * CONNECTIONS_MAX)]
    try:
        for client in unread:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert await ask(server, "/healthz") == (200, "ok\n")
    finally:
        for client in unread:
            client.close()


def test_an_answer_that_its_client_does_not_read_is_dropped(
    clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telemetry_server, "choose_encoder", lambda _: (lambda _: LARGE, "text/plain"))
    liveness = Liveness(clock.monotonic)
    with TelemetryServer(
        "127.0.0.1", 0, liveness, Readiness(), connections_max=CONNECTIONS_MAX, timeout_s=0.2
    ) as server:
        before = len(os.listdir("/proc/self/fd"))
        with client_of(server) as client:
            client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            assert client.recv(1) == b"H"
            until(lambda: len(os.listdir("/proc/self/fd")) == before + 1, "only the client's side is open")


def client_of(server: TelemetryServer) -> socket.socket:
    """Return a connection whose client has room for little of an answer."""
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", server.port))
    return client


async def test_readiness_has_its_reasons_and_health_is_about_the_event_loop(
    server: TelemetryServer, clock: ManualClock, readiness: Readiness
) -> None:
    assert await ask(server, "/readyz") == (200, "ok\n")
    readiness.note("watch", "waits for CRDs")
    assert await ask(server, "/readyz") == (503, "waits for CRDs\n")
    assert await ask(server, "/healthz") == (200, "ok\n")
    clock.advance(Liveness.STALE_S)
    assert await ask(server, "/healthz") == (503, "the event loop is blocked\n")
    assert (await ask(server, "/nothing"))[0] == 404


def test_the_answer_to_a_head_request_has_no_body(server: TelemetryServer) -> None:
    with socket.create_connection(("127.0.0.1", server.port)) as client, client.makefile("rb") as answer:
        client.sendall(b"HEAD /healthz HTTP/1.1\r\n\r\n")
        told = answer.read()
    assert (told.endswith(b"\r\n\r\n"), b"Content-Length: 3\r\n" in told) == (True, True)
