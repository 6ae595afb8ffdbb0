"""/metrics, /healthz and /readyz on a separate thread and event loop, so that they can report a stuck event loop.

Each connection serves one request, bounded in time and size. A client that opens connections and sends nothing, or
reads no answer, blocks no other client: above the maximum, the oldest connection is closed for the newest.
"""

import asyncio
import logging
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from prometheus_client.exposition import choose_encoder

from sluicegate_operator.handlers.process.health import Liveness, Readiness
from sluicegate_operator.handlers.process.telemetry import REGISTRY
from sluicegate_operator.kube.lease.loop_thread import LoopThread

log = logging.getLogger(__name__)

REQUEST_BYTES_MAX = 8192
REQUEST_TIMEOUT_S = 5.0
"""Time limit in seconds to send a request, and again to read its answer."""
PLAIN = "text/plain; charset=utf-8"


class TelemetryServer:
    """The HTTP server of health and metrics, used as `with TelemetryServer(...) as server`.

    Raises OSError if it cannot listen on the address.
    """

    def __init__(
        self,
        host: str,
        port: int,
        liveness: Liveness,
        readiness: Readiness,
        *,
        connections_max: int,
        timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self.port = port
        self._host = host
        self._liveness = liveness
        self._readiness = readiness
        self._connections_max = connections_max
        self._timeout_s = timeout_s
        self._open: dict[asyncio.StreamWriter, None] = {}
        """Connections that are not closed, the oldest first."""
        self._thread = LoopThread("telemetry")
        self._server: asyncio.Server | None = None

    def __enter__(self) -> Self:
        self._thread.__enter__()
        try:
            self._thread.call(self._listen())
        except BaseException:
            self._thread.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.call(self._close())
        self._thread.__exit__(kind, error, trace)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, self._host, self.port, limit=REQUEST_BYTES_MAX)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = None
        while len(self._open) > self._connections_max:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.transport.abort()
        try:
            async with asyncio.timeout(self._timeout_s):
                head = await reader.readuntil(b"\r\n\r\n")
            answer = self._answer(head)
            writer.write(_without_body(answer) if head.startswith(b"HEAD ") else answer)
            writer.close()
            async with asyncio.timeout(self._timeout_s):
                await writer.wait_closed()
        except (TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            log.debug("a client of the metrics listener got no response: %s", error)
        finally:
            self._open.pop(writer, None)
            # Otherwise an answer that its client does not read would keep the connection, and itself in memory.
            writer.transport.abort()

    def _answer(self, head: bytes) -> bytes:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or words[0] not in ("GET", "HEAD"):
            return _reply("400 Bad Request", PLAIN, b"only GET is served\n")
        match words[1].partition("?")[0]:
            case "/metrics":
                encode, content_type = choose_encoder(_header(lines, "accept"))
                return _reply("200 OK", content_type, encode(REGISTRY))
            case "/healthz":
                return _verdict([] if self._liveness.alive else ["the event loop is blocked"])
            case "/readyz":
                return _verdict(self._readiness.reasons)
        return _reply("404 Not Found", PLAIN, b"there are /metrics, /healthz and /readyz\n")


def _header(lines: list[str], name: str) -> str:
    found = (line.partition(":")[2].strip() for line in lines[1:] if line.lower().startswith(f"{name}:"))
    return next(found, "")


def _without_body(answer: bytes) -> bytes:
    head, end, _ = answer.partition(b"\r\n\r\n")
    return head + end


def _verdict(reasons: Sequence[str]) -> bytes:
    if reasons:
        return _reply("503 Service Unavailable", PLAIN, "".join(f"{reason}\n" for reason in reasons).encode())
    return _reply("200 OK", PLAIN, b"ok\n")


def _reply(status: str, content_type: str, body: bytes) -> bytes:
    headers = f"Content-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close"
    return f"HTTP/1.1 {status}\r\n{headers}\r\n\r\n".encode() + body
