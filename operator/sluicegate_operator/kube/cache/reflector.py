"""kopf's HTTP session, with what client-go's reflector does for each kind around the requests that kopf sends.

kopf lists a kind with GET, page by page, then watches it from the list's resourceVersion, and lists it again after 410.
kopf gets a page in chunks, each after its handler has seen the chunk before, because kopf would queue all pages at
once. kopf's handlers receive only objects, so the session reports the rest to the cache. A list that was read to its
end names everything that exists; a watch that the API server accepts is a contact; a refused request is the error of
its kind.

The session sends refused requests again itself: a kind that is forbidden or not served stops neither kopf nor the
watches of other kinds. It answers kopf's discovery from the table of kinds, so CRDs may be created and deleted at any
time.
"""

import asyncio
import logging
import random
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import aiohttp

from sluicegate_operator.kube.cache.feed import Feed
from sluicegate_operator.kube.cache.kopf_answers import GONE, Answer, Document, Gone, WatchAnswer, has_metadata
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.http.api_server import refusal_of
from sluicegate_operator.kube.http.discovery import discovery
from sluicegate_operator.kube.http.errors import NOT_SERVED, KubeError, KubeUnavailableError
from sluicegate_operator.kube.http.json_body import json_object
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.kube.http.transport import Response, Transport

log = logging.getLogger(__name__)

Json = dict[str, Any]
Query = Mapping[str, str]

LIST_TIMEOUT_S = 30.0
HEADERS_TIMEOUT_S = 10.0
"""Time limit in seconds for accepting a watch, and for sending one object. A slower API server is stuck."""
SILENCE_MARGIN_S = 5.0
"""Seconds after the regular end of a watch from which it counts as cut off if it is still open."""
SHORTEST_S = 1.0
"""Minimum seconds between the starts of two watches of a kind."""
AGAIN_FIRST_S = 0.5
AGAIN_MAX_S = 10.0
NOT_SERVED_S = 2.0
"""Seconds before a retry for a kind that is not served: its CRD may be installed at any time."""
_OF_A_WATCH = ("watch", "allowWatchBookmarks", "resourceVersion", "timeoutSeconds")
CHUNK = 50
"""Number of objects of a list that kopf gets at once.

kopf starts a task for each of them in one iteration of the event loop.
"""
HANDED_ON_MAX_S = 5.0
"""Seconds after which kopf gets the next chunk, even if its handler has not seen the previous chunk."""
_MORE = "chunk"
"""The continue token of a chunk that is not the last one of its page."""
_NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError)
METADATA_ONLY = "application/json;as={};g=meta.k8s.io;v=v1"


class _ExpiredError(Exception):
    """410: the API server no longer has the resourceVersion, or the continue token, of the request."""


@dataclass(slots=True)
class Reflector:
    """Lists and watches the objects of one kind for the cache. Times are in seconds of time.monotonic."""

    watched: Watched
    path: str
    began_s: float = float("-inf")
    """Time when the last watch was accepted, in seconds."""
    cut_off: bool = False
    """Whether the last watch did not end in order: the next one may reach an API server whose storage was restored."""
    restored: bool = False
    """Whether the API server counts from a lower resourceVersion than the last watch."""
    must_list: bool = False
    lists: int = 0
    """Number of lists that began since a watch ended in order."""
    answer: WatchAnswer | None = None
    page: Json = field(default_factory=dict)
    """The page of the list that kopf is reading."""
    rest: Sequence[Mapping[str, Any]] = ()
    """Objects of this page that kopf has not received yet."""


class ReflectorSession:
    """A session that replaces the aiohttp.ClientSession of a kopf.AiohttpSession.

    kopf calls `request`, reads `headers` and `closed`, and awaits `close`.
    """

    def __init__(self, transport: Transport, feed: Feed, namespace: str | None) -> None:
        """`namespace` is the only one that is watched; None means all."""
        self._transport = transport
        self._feed = feed
        watched = [one.watched for one in feed.informers.values()]
        self._reflectors = {one.kind.path(namespace): Reflector(one, one.kind.path(namespace)) for one in watched}
        self._discovery = discovery([one.kind for one in watched])
        self.headers: dict[str, str] = {}
        self.closed = False

    async def request(self, method: str, url: str, **_: Any) -> Answer:
        """Return the answer to kopf's request. A failed request is reported to the cache and sent again."""
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        reflector = self._reflectors.get(parts.path)
        if reflector is not None:
            return await (self._watch(reflector, query) if "watch" in query else self._list(reflector, query))
        if method.upper() == "GET" and parts.path in self._discovery:
            return Document(self._discovery[parts.path])
        raise RuntimeError(f"kopf sent {method} {parts.path}, which is neither a list nor a watch of this operator")

    async def close(self) -> None:
        """Close this HTTP session of kopf. A second call does nothing."""
        if not self.closed:
            self.closed = True
            await self._transport.close()

    def relist(self, kind: Kind) -> None:
        """End the watch of the kind, after which kopf lists it again."""
        for reflector in self._reflectors.values():
            if reflector.watched.kind == kind:
                reflector.must_list = True
                if reflector.answer is not None:
                    reflector.answer.close()

    async def _list(self, one: Reflector, query: Query) -> Answer:
        """Return a chunk of a page.

        The list starts again at its first page if the API server's continue token has expired.
        """
        failures = 0
        if "continue" in query:
            await self._handed_on(one)
            if query["continue"] == _MORE:
                return _chunk(one)
        else:
            await self._begin_list(one)
        while True:
            try:
                page = await self._page(one, query)
                break
            except _ExpiredError:
                query = _without(query, "continue")
                await self._begin_list(one)
            except KubeError as error:
                failures += 1
                self._feed.fail(one.watched.kind, error)
                if error.status == NOT_SERVED:
                    # A kind that is served later has another list.
                    query = _without(query, "continue")
                await asyncio.sleep(pause_s(failures, error))
        meta = page["metadata"]
        version, first, last = int(meta["resourceVersion"]), "continue" not in query, not meta.get("continue")
        restored = first and self._is_restored(one, version)
        items = page.get("items") or ()
        one.page = page
        one.rest = self._feed.replace(one.watched.kind, items, version, first=first, last=last, restored=restored)
        if last:
            one.restored = one.cut_off = False
        return _chunk(one)

    async def _handed_on(self, one: Reflector) -> None:
        """Wait until kopf's handler has seen all objects that kopf received: kopf queues objects without a limit."""
        with suppress(TimeoutError):
            async with asyncio.timeout(HANDED_ON_MAX_S):
                await self._feed.informers[one.watched.kind].until_pending(len(one.rest))

    async def _begin_list(self, one: Reflector) -> None:
        one.must_list = False
        one.lists += 1
        # The first list, and the first one after a watch, are sent at once.
        if one.lists > 2:
            await asyncio.sleep(pause_s(one.lists - 2))

    def _is_restored(self, one: Reflector, version: int) -> bool:
        seen = self._feed.informers[one.watched.kind].resource_version
        if not one.restored and version >= seen:
            return False
        log.warning(
            "the API server returned an older resource version than before, so all %s are listed again",
            one.watched.kind.plural,
        )
        return True

    async def _watch(self, one: Reflector, query: Query) -> Answer:
        await asyncio.sleep(max(0.0, one.began_s + SHORTEST_S - time.monotonic()))
        kind, failures = one.watched.kind, 0
        while True:
            try:
                if one.must_list or (one.cut_off and await self._is_behind(one, query)):
                    return Gone()
                answer = await self._opened(one, query)
            except _ExpiredError:
                return Gone()
            except KubeError as error:
                failures += 1
                one.cut_off = True
                self._feed.fail(kind, error)
                if error.status == NOT_SERVED:
                    # The list waits until the kind is served again.
                    return Gone()
                await asyncio.sleep(pause_s(failures, error))
                continue
            one.began_s, one.cut_off = time.monotonic(), True
            self._feed.contact(kind, int(query["resourceVersion"]))
            one.answer = WatchAnswer(
                answer,
                kind.plural,
                contact=lambda: self._feed.contact(kind),
                fail=lambda error: self._feed.fail(kind, error),
                ended=lambda: self._ended(one),
                is_known=lambda type_, item: self._feed.take_if_known(kind, type_, item),
            )
            return one.answer

    def _ended(self, one: Reflector) -> None:
        """Note that the API server has closed a watch, as it does at the end of each period."""
        one.lists, one.cut_off = 1, False

    async def _is_behind(self, one: Reflector, query: Query) -> bool:
        """Return whether the API server is behind the watch's resourceVersion.

        A watch from there would be silent until new versions are higher than the lost ones.
        """
        page = await self._page(one, {**_without(query, *_OF_A_WATCH), "limit": "1"}, HEADERS_TIMEOUT_S)
        one.cut_off = False
        one.restored = int(page["metadata"]["resourceVersion"]) < int(query["resourceVersion"])
        return one.restored

    async def _page(self, one: Reflector, query: Query, timeout_s: float = LIST_TIMEOUT_S) -> Json:
        """Return one page of a list. Raises KubeError, _ExpiredError."""
        answer = await self._get(one, query, "List", timeout_s)
        try:
            body = await answer.read()
        except _NO_ANSWER as error:
            raise _unavailable(error) from error
        page = json_object(body, f"GET {one.path}")
        try:
            int(page["metadata"]["resourceVersion"])
            # With `metadata_only`, the items of an empty list are null.
            if not all(map(has_metadata, page.get("items") or ())):
                raise ValueError("an item is not an object")
        except (LookupError, TypeError, ValueError) as error:
            raise KubeUnavailableError(f"GET {one.path}: the response is not a list: {body[:80]!r}") from error
        return page

    async def _opened(self, one: Reflector, query: Query) -> Response:
        """Return a watch that the API server has accepted. Raises as `_page`."""
        query = {**query, "timeoutSeconds": str(one.watched.period_s)}
        try:
            async with asyncio.timeout(HEADERS_TIMEOUT_S):
                return await self._get(one, query, "", one.watched.period_s + SILENCE_MARGIN_S)
        except TimeoutError as error:
            raise _unavailable(error) from error

    async def _get(self, one: Reflector, query: Query, of_many: str, timeout_s: float) -> Response:
        accept = "application/json"
        if one.watched.metadata_only:
            accept = METADATA_ONLY.format(f"PartialObjectMetadata{of_many}")
        try:
            answer = await self._transport.get(f"{one.path}?{urlencode(query)}", accept, timeout_s)
            if answer.status == 200:
                return answer
            text = (await answer.read()).decode("utf-8", "replace")
        except _NO_ANSWER as error:
            raise _unavailable(error) from error
        if answer.status == GONE:
            raise _ExpiredError
        raise refusal_of("GET", one.path, answer.status, text)


def _chunk(one: Reflector) -> Document:
    """Return the next objects of the page that kopf is reading."""
    some, one.rest = one.rest[:CHUNK], one.rest[CHUNK:]
    meta = {**one.page["metadata"], "continue": _MORE} if one.rest else one.page["metadata"]
    return Document({**one.page, "metadata": meta, "items": some})


def _unavailable(error: BaseException) -> KubeUnavailableError:
    return KubeUnavailableError(f"the API server does not answer: {error!r}")


def _without(query: Query, *names: str) -> Query:
    return {name: value for name, value in query.items() if name not in names}


def pause_s(failures: int, error: KubeError | None = None) -> float:
    """Return the seconds to wait before a request is sent again.

    They are random in part, because the watches of all kinds fail at once.
    """
    if error is not None and error.status == NOT_SERVED:
        return NOT_SERVED_S
    return float(min(AGAIN_MAX_S, AGAIN_FIRST_S * 2 ** min(failures - 1, 8)) * random.uniform(0.5, 1.0))
