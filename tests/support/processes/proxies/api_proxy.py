"""A proxy between the operator and the API server: counts and stops writes, and plays the ways in which watches fail.

It presents the API server's own certificate, for which it needs its key. Each client connection has its own connection
to the API server. The proxy parses each request. It parses the responses of watches only, and relays others as bytes.
"""

import asyncio
import json
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

GONE = {
    "kind": "Status",
    "apiVersion": "v1",
    "status": "Failure",
    "reason": "Expired",
    "message": "too old resource version",
    "code": 410,
}


@dataclass(frozen=True, slots=True, eq=False)
class ApiRequest:
    """A request of the client. `path` has no query; `body` is unchanged."""

    method: str
    path: str
    query: str
    body: bytes

    @property
    def is_watch(self) -> bool:
        return parse_qs(self.query).get("watch", [""])[0] in ("1", "true", "True")

    @property
    def writes(self) -> bool:
        return self.method not in ("GET", "HEAD", "OPTIONS") and "dryRun=All" not in self.query


Hook = Callable[[ApiRequest], bool]
"""Returns whether to forward the request, or its response."""

Answer = Callable[[ApiRequest], Awaitable[bytes | None]]
"""Returns the response in place of the API server's; None to forward the request."""


def _pass(_: ApiRequest) -> bool:
    return True


async def _forward(_: ApiRequest) -> bytes | None:
    return None


class ApiProxy:
    """The proxy. Use it with `async with`; every other method is thread-safe.

    `before` is called before a request is forwarded to the API server, `after` when its response has begun to arrive.
    `answer` may respond in place of the API server.
    """

    def __init__(self, upstream: str, certificate: Path) -> None:
        parts = urlsplit(upstream)
        self._upstream = (parts.hostname or "", parts.port or 443)
        self._to = ssl.create_default_context(cafile=certificate)
        self._shown = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._shown.load_cert_chain(certificate, certificate.with_suffix(".key"))
        self.before: Hook = _pass
        self.after: Hook = _pass
        self.answer: Answer = _forward
        self.gone = 0
        """Number of next watches to answer with 410."""
        self.cut = False
        """Whether to close new connections at once; `hang_up` closes existing ones."""
        self.requests: list[ApiRequest] = []
        self._silent: set[ApiRequest] = set()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "ApiProxy":
        self._loop = asyncio.get_running_loop()
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._shown)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.close()
        self._abort_all()
        if self._serving:
            await asyncio.wait(self._serving)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def written(self) -> list[ApiRequest]:
        return [request for request in self.requests if request.writes]

    def kubeconfig(self, of: Path, path: Path) -> Path:
        """Write the kubeconfig `of` to `path`, with this proxy in place of the API server."""
        document = json.loads(of.read_text())
        document["clusters"][0]["cluster"]["server"] = self.url
        path.write_text(json.dumps(document))
        return path

    def silence_watches(self) -> None:
        """Discard further events of the current watches; no watch is ended."""
        self._silent |= {request for request in self.requests if request.is_watch}

    def hang_up(self) -> None:
        """Abort all connections."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._abort_all)

    def _abort_all(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        task = asyncio.current_task()
        assert task is not None, "the server runs this in a task"
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        try:
            if not self.cut:
                await self._relay(reader, writer)
        except (OSError, asyncio.IncompleteReadError, ssl.SSLError):
            return
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, port = self._upstream
        from_api, to_api = await asyncio.open_connection(host, port, ssl=self._to)
        self._open.add(to_api)
        current: list[ApiRequest] = []
        back = asyncio.create_task(self._answers(from_api, writer, current))
        try:
            while not back.done():
                head = await reader.readuntil(b"\r\n\r\n")
                request = await _request(head, reader)
                self.requests.append(request)
                if request.is_watch and self.gone > 0:
                    self.gone -= 1
                    writer.write(_answer(410, GONE))
                    continue
                if not self.before(request):
                    return
                if (own := await self.answer(request)) is not None:
                    writer.write(own)
                    continue
                current[:] = [request]
                to_api.write(head + request.body)
                await to_api.drain()
        finally:
            back.cancel()
            self._open.discard(to_api)
            to_api.transport.abort()

    async def _answers(
        self, from_api: asyncio.StreamReader, writer: asyncio.StreamWriter, current: list[ApiRequest]
    ) -> None:
        answered: ApiRequest | None = None
        try:
            while piece := await from_api.read(1 << 16):
                request = current[0]
                if request is not answered and not self.after(request):
                    return
                answered = request
                if request not in self._silent:
                    writer.write(piece)
                    await writer.drain()
            if answered in self._silent:
                # The client does not notice the end of the watch either.
                await asyncio.Event().wait()
        except (OSError, ssl.SSLError):
            return
        finally:
            writer.transport.abort()


async def _request(head: bytes, reader: asyncio.StreamReader) -> ApiRequest:
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = dict(line.lower().split(": ", 1) for line in lines if ": " in line)
    if "chunked" in headers.get("transfer-encoding", ""):
        raise ValueError("a request in chunks is not understood here")
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    path, _, query = target.partition("?")
    return ApiRequest(method, path, query, body)


def _answer(status: int, document: dict[str, object]) -> bytes:
    body = json.dumps(document).encode()
    head = f"HTTP/1.1 {status} Gone\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
