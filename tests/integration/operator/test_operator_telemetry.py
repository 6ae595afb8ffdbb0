"""The operator's /metrics, /healthz and /readyz, with clients that connect and send nothing."""

import socket
from collections.abc import Iterator

import pytest

from sluicegate_operator.fleet.kafka.http_get import http_get
from sluicegate_operator.handlers.process.health import Liveness, Readiness
from sluicegate_operator.handlers.process.telemetry_server import TelemetryServer
from tests.support.fakes.manual_clock import ManualClock

CONNECTIONS_MAX = 8


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
