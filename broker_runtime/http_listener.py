"""The HTTP listener: /metrics (Prometheus), /healthz (the process runs), /readyz (registered, unfenced, caught up).

The process adds routes: /brokers of a controller, /controlled-shutdown and /connection-quotas of a broker. Only the
head of a request is read, within bounds (decision 62). The listener knows neither brokers nor controllers.
"""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import TypeVar
from urllib.parse import parse_qsl

from broker_runtime.config.declaring.addresses import peer_host
from broker_runtime.exposition import CONTENT_TYPE, MetricFamily, render

log = logging.getLogger(__name__)

T = TypeVar("T")

_HEAD_BYTES_MAX = 8192
_TIMEOUT_S = 10.0
_CONNECTIONS_MAX = 64
WAIT_MAX_S = 60.0
_LOOK_S = 0.2
_LONG_POLLS_MAX = 8


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """An HTTP request as routes get it: its first line, and the two addresses of its connection without ports."""

    method: str
    path: str
    peer_host: str
    local_host: str
    query: Mapping[str, str] = field(default_factory=dict)
    """Query parameters; if a name occurs twice, the last value counts."""

    @property
    def same_host(self) -> bool:
        """Return whether the request came from this machine or pod: by loopback, or from its own target address."""
        return self.peer_host == self.local_host or ip_address(self.peer_host).is_loopback


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A whole HTTP response. The status is one of those in `_REASONS`."""

    status: int
    body: bytes
    content_type: str = "text/plain"


def json_answer(status: int, content: Mapping[str, object]) -> HttpAnswer:
    return HttpAnswer(status, json.dumps(content).encode() + b"\n", "application/json")


def text_answer(status: int, text: str) -> HttpAnswer:
    return HttpAnswer(status, f"{text}\n".encode())


@dataclass(frozen=True, slots=True)
class Readiness:
    """The readiness of this process.

    `why_not` is None for a ready process; `notes` are problems that need attention, ready or not, a sentence each.
    """

    why_not: str | None
    notes: tuple[str, ...] = ()


Route = Callable[[HttpRequest], Awaitable[HttpAnswer]]
Routes = Mapping[tuple[str, str], Route]
"""Handlers by (method, path)."""


def wanted_wait_s(request: HttpRequest) -> float | None:
    """Return the seconds of the query parameter `wait`, 0 if it is absent; None if it is not a valid number."""
    try:
        wait_s = float(request.query.get("wait", "0"))
    except ValueError:
        return None
    return wait_s if 0 <= wait_s <= WAIT_MAX_S else None


class LongPolls:
    """The requests that are answered when there is a change. Requests beyond a limit are answered at once."""

    def __init__(self) -> None:
        self._waiting = 0

    async def wait_while(self, holds: Callable[[], bool], wait_s: float) -> None:
        """Wait while `holds` returns True, at most `wait_s`.

        `holds` is called a few times a second and must be cheap.
        """
        looks = int(wait_s / _LOOK_S) if self._waiting < _LONG_POLLS_MAX else 0
        self._waiting += 1
        try:
            for _ in range(looks):
                if not holds():
                    return
                await asyncio.sleep(_LOOK_S)
        finally:
            self._waiting -= 1


class HttpListener:
    """An HTTP server for the routes. `ready` and `collect` return the current readiness and metrics."""

    def __init__(
        self, ready: Callable[[], Readiness], collect: Callable[[], Iterable[MetricFamily]], more: Routes | None = None
    ) -> None:
        self._ready = ready
        self._collect = collect
        self._routes: Routes = {
            ("GET", "/metrics"): self._metrics,
            ("GET", "/healthz"): self._health,
            ("GET", "/readyz"): self._readiness,
        } | dict(more or {})
        self._server: asyncio.Server | None = None
        self._open = 0
        self._idle: dict[asyncio.StreamWriter, None] = {}
        """Connections whose client has to send a request or to read an answer, the longest idle one first.

        Any number of them must not delay a probe.
        """

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Start the server, and return the bound address. Raises OSError if the address is taken."""
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
            if self._open > _CONNECTIONS_MAX and not self._dropped_idle():
                answer, has_body = text_answer(503, "too many connections"), True
            else:
                request = await self._request(reader, writer)
                answer, has_body = await self._answer(request), request.method != "HEAD"
            writer.write(_encoded(answer, has_body=has_body))
            writer.close()
            await self._idle_for(writer, writer.wait_closed())
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("an HTTP request failed: %s", error)
        finally:
            self._open -= 1
            # Otherwise an answer that its client does not read would keep the connection, and itself in memory.
            writer.transport.abort()

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest:
        head = await self._idle_for(writer, reader.readuntil(b"\r\n\r\n"))
        return parse_request(head, _address(writer, "peername"), _address(writer, "sockname"))

    async def _idle_for(self, writer: asyncio.StreamWriter, until: Awaitable[T]) -> T:
        """Wait for the client of this connection. Raises TimeoutError."""
        self._idle[writer] = None
        try:
            async with asyncio.timeout(_TIMEOUT_S):
                return await until
        finally:
            self._idle.pop(writer, None)

    def _dropped_idle(self) -> bool:
        """Close the connection whose client has done nothing for the longest time. Return False if there is none."""
        oldest = next(iter(self._idle), None)
        if oldest is None:
            return False
        del self._idle[oldest]
        oldest.transport.abort()
        return True

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        method = "GET" if request.method == "HEAD" else request.method
        route = self._routes.get((method, request.path))
        if route is not None:
            return await route(request)
        allowed = sorted(m for m, path in self._routes if path == request.path)
        if allowed or method != "GET":
            return text_answer(405, f"only {' '.join(allowed) or 'GET'} is served")
        return text_answer(404, f"served: {' '.join(sorted(path for _, path in self._routes))}")

    async def _metrics(self, _: HttpRequest) -> HttpAnswer:
        return HttpAnswer(200, render(self._collect()), CONTENT_TYPE)

    async def _health(self, _: HttpRequest) -> HttpAnswer:
        return text_answer(200, "ok")

    async def _readiness(self, _: HttpRequest) -> HttpAnswer:
        found = self._ready()
        lines = [found.why_not or "ready", *found.notes]
        return text_answer(200 if found.why_not is None else 503, "\n".join(lines))


def parse_request(head: bytes, peer: str, own: str) -> HttpRequest:
    """Return the request whose head is `head`.

    `peer` is the address of its client, `own` the address that received it.
    """
    method, _, rest = head.split(b"\r\n", 1)[0].decode("latin-1").partition(" ")
    path, _, query = rest.split(" ", 1)[0].partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    return HttpRequest(method, path, peer, own, given)


def _address(writer: asyncio.StreamWriter, name: str) -> str:
    found = writer.get_extra_info(name)
    if found is None:
        raise ConnectionAbortedError("the client has disconnected")
    return peer_host(str(found[0]))


_REASONS = {
    200: "OK",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    503: "Service Unavailable",
    504: "Gateway Timeout",
}


def _encoded(answer: HttpAnswer, *, has_body: bool) -> bytes:
    head = (
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + (answer.body if has_body else b"")
