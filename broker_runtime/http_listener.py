"""The HTTP listener: /metrics (Prometheus), /healthz (the process lives), /readyz (registered, unfenced, caught up).

Nothing else is served and nothing is read of a request but its first line, within bounds.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

log = logging.getLogger(__name__)

_HEAD_BYTES_MAX = 8192
_TIMEOUT_S = 10.0
_CONNECTIONS_MAX = 64


class HttpListener:
    """`ready` gives None when ready, else the reason why not; `collect` the metrics of this moment."""

    def __init__(self, ready: Callable[[], str | None], collect: Callable[[], Iterable[Metric]]) -> None:
        self._ready = ready
        self._registry = CollectorRegistry()
        self._registry.register(_Snapshot(collect))
        self._server: asyncio.Server | None = None
        self._open = 0

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """The bound address; raises OSError when it is taken."""
        self._server = await asyncio.start_server(self._serve, host or None, port, limit=_HEAD_BYTES_MAX)
        bound = self._server.sockets[0].getsockname()
        return bound[0], bound[1]

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open > _CONNECTIONS_MAX:
                writer.write(_response(503, "text/plain", b"too many connections\n"))
            else:
                async with asyncio.timeout(_TIMEOUT_S):
                    head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head.split(b"\r\n", 1)[0].decode("latin-1")))
            await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("an HTTP request was not answered: %s", error)
        finally:
            self._open -= 1
            writer.close()

    def _answer(self, request_line: str) -> bytes:
        method, _, rest = request_line.partition(" ")
        path = rest.split(" ", 1)[0].split("?", 1)[0]
        if method not in ("GET", "HEAD"):
            return _response(405, "text/plain", b"only GET is served\n")
        if path == "/metrics":
            return _response(200, CONTENT_TYPE_LATEST, generate_latest(self._registry))
        if path == "/healthz":
            return _response(200, "text/plain", b"ok\n")
        if path == "/readyz":
            reason = self._ready()
            return _response(200 if reason is None else 503, "text/plain", f"{reason or 'ready'}\n".encode())
        return _response(404, "text/plain", b"served: /metrics /healthz /readyz\n")


class _Snapshot(Collector):
    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterable[Metric]:
        return self._collect()


_REASONS = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}


def _response(status: int, content_type: str, body: bytes) -> bytes:
    head = (
        f"HTTP/1.1 {status} {_REASONS[status]}\r\nContent-Type: {content_type}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
