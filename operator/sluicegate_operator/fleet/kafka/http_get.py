"""GET requests to nodes (/readyz, /metrics, /brokers): one for each connection, with limits of time and size."""

import asyncio
from dataclasses import dataclass

MAX_RESPONSE_BYTES = 4 << 20

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP answer: its status code, whatever that is, and its body."""

    status: int
    body: str


async def http_get(address: Address, path: str, *, timeout_s: float = 2.0) -> HttpAnswer:
    """Send a GET request to `address`, a host and a port.

    Raises OSError (TimeoutError included) without a complete answer in time.
    """
    host, port = address
    async with asyncio.timeout(timeout_s):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
            raw = await _read_all(reader, f"http://{host}:{port}{path}")
        finally:
            writer.close()
    return _parse(raw, f"http://{host}:{port}{path}")


async def _read_all(reader: asyncio.StreamReader, url: str) -> bytes:
    raw = bytearray()
    while piece := await reader.read(65_536):
        raw += piece
        if len(raw) > MAX_RESPONSE_BYTES:
            raise ConnectionError(f"{url}: the answer is larger than {MAX_RESPONSE_BYTES} bytes")
    return bytes(raw)


def _parse(raw: bytes, url: str) -> HttpAnswer:
    head, separator, body = raw.partition(b"\r\n\r\n")
    words = head.split(b"\r\n", 1)[0].split(b" ")
    if not separator or len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ConnectionError(f"{url}: the answer is not HTTP")
    return HttpAnswer(int(words[1]), body.decode(errors="replace"))
