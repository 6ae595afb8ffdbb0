"""/readyz reports problems, even of a broker that is ready."""

import asyncio

import pytest

from broker_runtime.http_listener import HttpListener, Readiness


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
