"""An API server for kopf with scripted responses, without a socket: kopf itself lists and watches it."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest

from sluicegate_operator.handlers.kopf_operator import KopfOperator
from sluicegate_operator.kube.cache import reflector
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.watched import Watched

Json = dict[str, Any]
Chunk = bytes | Exception | None
PATIENCE_S = 20.0


def page(*items: Json, version: int = 5, token: str = "") -> Json:
    return {"metadata": {"resourceVersion": str(version), "continue": token}, "items": list(items)}


def event(type_: str, item: Json) -> bytes:
    return json.dumps({"type": type_, "object": item}, separators=(",", ":")).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


FORGOTTEN = event("ERROR", {"metadata": {}, "code": 410, "message": "too old"})


class ScriptedResponse:
    """A response of the scripted API server.

    `said` are the chunks of a watch. None ends it, and an exception aborts it.
    """

    def __init__(self, status: int, body: bytes = b"", said: asyncio.Queue[Chunk] | None = None) -> None:
        self.status = status
        self._body = body
        self._said = said
        self._closed = asyncio.Event()

    @property
    def content(self) -> "ScriptedResponse":
        return self

    async def read(self) -> bytes:
        return self._body

    async def iter_chunked(self, _: int) -> AsyncIterator[bytes]:
        assert self._said is not None, "it is a watch"
        while (chunk := await self._next(self._said)) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def _next(self, said: asyncio.Queue[Chunk]) -> Chunk:
        getting, closing = asyncio.ensure_future(said.get()), asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({getting, closing}, return_when=asyncio.FIRST_COMPLETED)
            if self._closed.is_set():
                raise aiohttp.ClientConnectionError("Connection closed")
            return await getting
        finally:
            getting.cancel()
            closing.cancel()

    def close(self) -> None:
        self._closed.set()


class Script:
    """A Transport with scripted responses.

    `pages` answer lists, one after the other; a number is a status, an exception is raised. Watches get chunks from
    `said`.
    """

    def __init__(self, *pages: Json | int | Exception) -> None:
        self.pages = list(pages)
        self.watches: list[int | Exception] = []
        """Statuses or errors with which the next watches are refused."""
        self.closed = False
        self.said: asyncio.Queue[Chunk] = asyncio.Queue()
        self.asked: list[Mapping[str, str]] = []

    async def get(self, path: str, accept: str, timeout_s: float) -> ScriptedResponse:
        parts = urlsplit(path)
        query = dict(parse_qsl(parts.query))
        self.asked.append({**query, "accept": accept, "path": parts.path})
        if "watch" in query:
            refusal = self.watches.pop(0) if self.watches else 200
            return _answer(refusal) if refusal != 200 else ScriptedResponse(200, said=self.said)
        return _answer(self.pages.pop(0) if len(self.pages) > 1 else self.pages[0])

    async def close(self) -> None:
        self.closed = True

    def watched_from(self) -> list[str]:
        return [query["resourceVersion"] for query in self.asked if "watch" in query]


def _answer(wanted: Json | int | Exception) -> ScriptedResponse:
    if isinstance(wanted, Exception):
        raise wanted
    if isinstance(wanted, int):
        return ScriptedResponse(wanted, b'{"message":"no"}')
    return ScriptedResponse(200, json.dumps(wanted).encode())


def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the pauses of retries to a millisecond."""
    for name in ("SHORTEST_S", "AGAIN_FIRST_S", "NOT_SERVED_S"):
        monkeypatch.setattr(reflector, name, 0.001)


@asynccontextmanager
async def cached(script: Script, *watched: Watched) -> AsyncIterator[Cache]:
    """A cache that kopf fills from `script`."""
    cache = Cache(watched)
    kopf = KopfOperator(lambda: script, None, lambda: None, cache)
    kopf.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield cache
    finally:
        kopf.stop()
        await kopf.stopped()


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - it is kopf that makes it so
        await asyncio.sleep(0)
