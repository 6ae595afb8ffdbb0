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
