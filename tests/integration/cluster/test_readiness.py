"""/readyz reports problems, even of a broker that is ready."""

import asyncio
import os
import socket

import pytest

from broker_runtime import http_listener
from broker_runtime.http_listener import HttpAnswer, HttpListener, HttpRequest, Readiness
from tests.support.processes.clients.broker_admin import until

LARGE = bytes(4 << 20)
"""More than the buffers of a connection take."""


@pytest.mark.parametrize(
    ("readiness", "status", "body"),
    [
        (Readiness(None), "200 OK", "ready\n"),
        (Readiness("starting"), "503 Service Unavailable", "starting\n"),
        (Readiness(None, ("a limit is not applied",)), "200 OK", "ready\na limit is not applied\n"),
        (Readiness("fenced", ("one", "two")), "503 Service Unavailable", "fenced\none\ntwo\n"),
    ],
)
async def test_readiness_and_notes(readiness: Readiness, status: str, body: str) -> None:
    listener = HttpListener(lambda: readiness, lambda: ())
    reader, writer = await asyncio.open_connection(*await listener.start("127.0.0.1", 0))
    writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
    answer = (await reader.read()).decode()
    assert answer.startswith(f"HTTP/1.1 {status}\r\n")
    assert answer.partition("\r\n\r\n")[2] == body
    writer.close()
    await listener.close()


async def test_a_probe_is_answered_beside_clients_that_send_nothing() -> None:
    """The connection that has been silent for the longest time makes room."""
    listener = HttpListener(lambda: Readiness(None), lambda: ())
    place = await listener.start("127.0.0.1", 0)
    silent = [await asyncio.open_connection(*place) for _ in range(100)]
    for _ in range(3):
        reader, writer = await asyncio.open_connection(*place)
        writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
        writer.close()
    for _, writer in silent:
        writer.close()
    await listener.close()


async def test_a_probe_is_answered_beside_clients_that_do_not_read_their_answers() -> None:
    """The connection whose client has not read for the longest time makes room."""
    listener = HttpListener(lambda: Readiness(None), lambda: (), {("GET", "/large"): large})
    place = await listener.start("127.0.0.1", 0)
    unread = [await unread_answer(place) for _ in range(70)]
    reader, writer = await asyncio.open_connection(*place)
    writer.write(b"GET /readyz HTTP/1.1\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")
    writer.close()
    for client in unread:
        client.close()
    await listener.close()


async def test_an_answer_that_its_client_does_not_read_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "_TIMEOUT_S", 0.1)
    listener = HttpListener(lambda: Readiness(None), lambda: (), {("GET", "/large"): large})
    place = await listener.start("127.0.0.1", 0)
    before = open_files()
    with await unread_answer(place):
        await asyncio.to_thread(until, lambda: open_files() == before + 1, "only the client's side is open")
    await listener.close()


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


async def large(_: HttpRequest) -> HttpAnswer:
    return HttpAnswer(200, LARGE)


async def unread_answer(place: tuple[str, int]) -> socket.socket:
    """Ask for the large answer, and read only its first byte."""
    loop, client = asyncio.get_running_loop(), socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await loop.sock_connect(client, place)
    await loop.sock_sendall(client, b"GET /large HTTP/1.1\r\n\r\n")
    assert await loop.sock_recv(client, 1) == b"H"
    return client


async def test_the_answer_to_a_head_request_has_no_body() -> None:
    listener = HttpListener(lambda: Readiness(None), lambda: ())
    reader, writer = await asyncio.open_connection(*await listener.start("127.0.0.1", 0))
    writer.write(b"HEAD /readyz HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    assert (answer.endswith(b"\r\n\r\n"), b"Content-Length: 6\r\n" in answer) == (True, True)
    writer.close()
    await listener.close()
