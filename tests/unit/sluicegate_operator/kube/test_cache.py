"""A cache on an API server that says what the test wants, in the threads of its watches."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from queue import Queue
from typing import Any

import pytest
import urllib3

from sluicegate_operator.api.connection_quota import ConnectionQuota
from sluicegate_operator.kube import cache as cache_module
from sluicegate_operator.kube import inbox, watchfulness, watching
from sluicegate_operator.kube.cache import Cache
from sluicegate_operator.kube.errors import KubeError, KubeUnavailableError
from sluicegate_operator.kube.held import Held
from sluicegate_operator.kube.kinds import CONFIG_MAP, CONNECTION_QUOTA, POD
from sluicegate_operator.kube.watching import Watched
from sluicegate_operator.resources.labels import CLUSTER_LABEL

Json = dict[str, Any]
QUOTAS = Watched(CONNECTION_QUOTA, 30)
PATIENCE_S = 20.0


def quota(name: str, version: int, **metadata: Any) -> Json:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version), **metadata}
    spec = {"clusterRef": {"name": "shop"}, "target": {"broker": {}}, "maxConnections": 10}
    return {"metadata": meta, "spec": spec}


def page(*items: Json, version: int = 5, token: str = "") -> Json:
    return {"metadata": {"resourceVersion": str(version), "continue": token}, "items": list(items)}


def event(type_: str, item: Json) -> bytes:
    return json.dumps({"type": type_, "object": item}).encode() + b"\n"


def bookmark(version: int) -> bytes:
    return event("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


FORGOTTEN = event("ERROR", {"metadata": {}, "code": 410, "message": "too old"})


class Answer:
    def __init__(self, status: int, body: Json | None = None, chunks: Iterator[bytes] | None = None) -> None:
        self.status = status
        self.data = json.dumps(body or {}).encode()
        self._chunks = chunks

    def stream(self, amount: int, decode_content: bool) -> Iterator[bytes]:
        return self._chunks or iter(())

    def close(self) -> None:
        pass

    def shutdown(self) -> None:
        pass


class Script:
    """In place of ApiServer: `pages` answer lists, one after the other; chunks come out of `said` until None ends the
    watch, or an exception."""

    def __init__(self, *pages: Json | int) -> None:
        self.pages = list(pages)
        self.said: Queue[bytes | Exception | None] = Queue()
        self.asked: list[Mapping[str, str]] = []

    def open(
        self, path: str, query: Mapping[str, str], *, timeout: urllib3.Timeout, accept: str, preload: bool
    ) -> Answer:
        self.asked.append({**query, "accept": accept})
        if "watch" in query:
            return Answer(200, chunks=self._chunks())
        found = self.pages.pop(0) if len(self.pages) > 1 else self.pages[0]
        return Answer(found, {"message": "no"}) if isinstance(found, int) else Answer(200, found)

    def _chunks(self) -> Iterator[bytes]:
        while (chunk := self.said.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    def watched_from(self) -> list[str]:
        return [query["resourceVersion"] for query in self.asked if "watch" in query]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SHORTEST_S", "AGAIN_FIRST_S", "NOT_SERVED_S"):
        monkeypatch.setattr(watching, name, 0.001)


@asynccontextmanager
async def cached(script: Script, *watched: Watched) -> AsyncIterator[Cache]:
    cache = Cache(script, None, watched or (QUOTAS,))  # type: ignore[arg-type]
    cache.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            yield cache
    finally:
        cache.close()
        script.said.put(None)


async def names(cache: Cache) -> list[str]:
    found = await cache.resources(CONNECTION_QUOTA, "default", "shop")
    return sorted(one.name for one in found if isinstance(one, ConnectionQuota))


def named(held: Held | None) -> str | None:
    return None if held is None else held.name


async def until(holds: Callable[[], bool]) -> None:
    while not holds():  # noqa: ASYNC110 - it is another thread that makes it so
        await asyncio.sleep(0)


async def until_named(cache: Cache, *wanted: str) -> None:
    while await names(cache) != list(wanted):  # noqa: ASYNC110 - as above
        await asyncio.sleep(0)


async def test_a_list_comes_in_pages_and_the_watch_goes_on_from_it() -> None:
    script = Script(page(quota("a", 3), token="more"), page(quota("b", 4), version=6))
    async with cached(script) as cache:
        assert await names(cache) == ["a", "b"]
        script.said.put(event("ADDED", quota("c", 7))[:30])
        script.said.put(event("ADDED", quota("c", 7))[30:] + event("DELETED", quota("a", 8)))
        await until_named(cache, "b", "c")
        script.said.put(bookmark(20))
        script.said.put(None)
        await until(lambda: script.watched_from() == ["6", "20"])
    assert [query.get("continue") for query in script.asked[:2]] == [None, "more"]


async def test_a_past_that_is_forgotten_is_listed_anew_and_who_has_gone_meanwhile_is_told() -> None:
    script = Script(page(quota("a", 3), quota("b", 4)), page(quota("b", 4), quota("c", 9), version=10))
    told: list[tuple[str | None, str | None]] = []
    async with cached(script) as cache:
        assert await names(cache) == ["a", "b"]
        await cache.subscribe(lambda _, before, after: told.append((named(before), named(after))))
        kept = await cache.resources(CONNECTION_QUOTA, "default", "shop")
        script.said.put(event("ERROR", {"code": 410, "message": "too old resource version"}))
        await until_named(cache, "b", "c")
        assert told == [(None, "a"), (None, "b"), (None, "c"), ("a", None)]
        assert (await cache.resources(CONNECTION_QUOTA, "default", "shop"))[0] is kept[1], "parsed once for its version"
    assert cache.watchfulness()[CONNECTION_QUOTA].lists == 2


async def test_a_watch_that_falls_silent_is_asked_again_from_where_it_was() -> None:
    script = Script(page())
    async with cached(script) as cache:
        await until(lambda: script.watched_from() == ["5"])
        script.said.put(urllib3.exceptions.ReadTimeoutError(None, "/", "silence"))  # type: ignore[arg-type]
        script.said.put(event("ADDED", quota("a", 6)))
        await until_named(cache, "a")
    assert script.watched_from()[:2] == ["5", "5"]


async def test_what_has_not_been_listed_is_no_empty_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "FILL_PATIENCE_S", 0.001)
    cache = Cache(Script(page()), None, (QUOTAS,))  # type: ignore[arg-type]
    with pytest.raises(KubeUnavailableError, match="connectionquotas have not been listed yet"):
        await names(cache)


async def test_a_kind_that_is_not_served_is_an_error_until_it_is() -> None:
    script = Script(404)
    async with cached(script) as cache:
        await until(lambda: bool(cache.troubles()))
        with pytest.raises(KubeError) as refused:
            await names(cache)
        assert refused.value.status == 404
        script.pages = [page(quota("a", 3))]
        await until(lambda: not cache.troubles())
        assert await names(cache) == ["a"]


async def test_a_kind_that_is_served_no_more_is_unknown_at_once_and_what_was_there_goes_when_it_comes_back() -> None:
    script = Script(page(quota("a", 3)), 404)
    async with cached(script) as cache:
        assert await names(cache) == ["a"]
        script.said.put(FORGOTTEN)
        await until(lambda: bool(cache.troubles()))
        with pytest.raises(KubeError) as refused:
            await names(cache)
        assert refused.value.status == 404
        script.pages = [page(quota("b", 9), version=9)]
        await until(lambda: not cache.troubles())
        assert await names(cache) == ["b"]


async def test_what_was_known_is_gone_by_for_a_while_after_its_watch_has_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(page(quota("a", 3)), 500)
    async with cached(script) as cache:
        assert await names(cache) == ["a"]
        script.said.put(FORGOTTEN)
        await until(lambda: bool(cache.troubles()))
        assert await names(cache) == ["a"]
        monkeypatch.setattr(watchfulness, "BROKEN_MAX_S", 0.0)
        with pytest.raises(KubeError) as refused:
            await names(cache)
        assert refused.value.status == 500


async def test_a_watch_that_says_nothing_at_all_is_not_gone_by(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(page(quota("a", 3)))
    async with cached(script) as cache:
        assert await names(cache) == ["a"]
        monkeypatch.setattr(watchfulness, "SILENT_PERIODS", 0.0)
        with pytest.raises(KubeUnavailableError, match="has been silent"):
            await names(cache)


async def test_a_document_is_not_peeked_at_while_its_watch_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    item = {"metadata": {"name": "a", "namespace": "default", "uid": "1", "resourceVersion": "3"}}
    async with cached(Script(page(item)), Watched(CONFIG_MAP, 30)) as cache:
        assert await cache.get(CONFIG_MAP, "default", "a") is not None
        known, document = cache.peek(CONFIG_MAP, "default", "a")
        assert known
        assert document is not None
        assert cache.peek(CONFIG_MAP, "default", "b") == (True, None)
        monkeypatch.setattr(watchfulness, "SILENT_PERIODS", 0.0)
        assert cache.peek(CONFIG_MAP, "default", "a") == (False, None)


async def test_an_own_write_is_seen_at_once_and_never_brings_back_what_has_gone_since() -> None:
    script = Script(page(quota("a", 3)))
    async with cached(script) as cache:
        assert await names(cache) == ["a"]
        cache.note(CONNECTION_QUOTA, quota("b", 7))
        assert await names(cache) == ["a", "b"]
        script.said.put(event("DELETED", quota("b", 8)))
        await until_named(cache, "a")
        cache.note(CONNECTION_QUOTA, quota("b", 7))
        assert await names(cache) == ["a"]
        cache.note_gone(CONNECTION_QUOTA, "default", "a", "uid-of-another")
        assert await names(cache) == ["a"]
        cache.note_gone(CONNECTION_QUOTA, "default", "a", "uid-a")
        assert await names(cache) == []


async def test_who_subscribes_hears_of_what_is_there_and_of_each_change() -> None:
    script = Script(page(quota("a", 3)))
    told: list[tuple[str | None, str | None]] = []

    def hear(_: object, before: Held | None, after: Held | None) -> None:
        told.append((named(before), named(after)))

    async with cached(script) as cache:
        assert await names(cache) == ["a"]
        await cache.subscribe(hear)
        assert told == [(None, "a")]
        script.said.put(event("MODIFIED", quota("a", 6)))
        await until(lambda: told[1:] == [("a", "a")])
        cache.unsubscribe(hear)
        script.said.put(event("DELETED", quota("a", 7)))
        await until_named(cache)
    assert len(told) == 2


async def test_each_watch_is_started_in_a_turn_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []
    monkeypatch.setattr(watching.Watching, "start", lambda watch: started.append(watch))
    kinds = (CONNECTION_QUOTA, CONFIG_MAP, POD)
    cache = Cache(Script(page()), None, [Watched(kind, 30) for kind in kinds])  # type: ignore[arg-type]
    cache.start()
    found = [len(started)]
    for _ in kinds:
        await asyncio.sleep(0)
        found.append(len(started))
    cache.close()
    assert found == [1, 2, 3, 3]


async def test_of_children_metadata_are_enough() -> None:
    labels = {CLUSTER_LABEL: "shop", "role": "x"}
    empty: Json = {"metadata": {"resourceVersion": "5"}, "items": None}
    async with cached(Script(empty), Watched(CONFIG_MAP, 30, CLUSTER_LABEL, metadata_only=True)) as cache:
        assert await cache.list(CONFIG_MAP, "default", "shop") == []
    script = Script(page({"metadata": {"name": "m", "namespace": "default", "resourceVersion": "3", "labels": labels}}))
    async with cached(script, Watched(CONFIG_MAP, 30, CLUSTER_LABEL, metadata_only=True)) as cache:
        found: Sequence[Mapping[str, Any]] = await cache.list(CONFIG_MAP, "default", "shop", role="x")
        assert [one["metadata"]["name"] for one in found] == ["m"]
        assert await cache.list(CONFIG_MAP, "default", "shop", role="y") == []
        assert await cache.get(CONFIG_MAP, "default", "n") is None
        assert cache.peek(CONFIG_MAP, "default", "m") == (True, found[0])
        cache.note(CONFIG_MAP, {"metadata": {"name": "n", "namespace": "default", "resourceVersion": "9"}})
        assert await cache.get(CONFIG_MAP, "default", "n") is None, "the watch would not tell of its end"
        await until(lambda: len(script.asked) > 1)
    assert [query["accept"].split(";")[1] for query in script.asked[:2]] == [
        "as=PartialObjectMetadataList",
        "as=PartialObjectMetadata",
    ]
    assert script.asked[0]["labelSelector"] == CLUSTER_LABEL


async def test_threads_wait_for_a_loop_that_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox, "WAITING_MAX", 4)
    script = Script(page(*(quota(f"q{number:03}", number + 1) for number in range(300)), version=900))
    async with cached(script) as cache:
        assert len(await names(cache)) == 300
    ended = threading.Event()
    closed = inbox.Inbox(lambda kind, news: None)

    def send() -> None:
        closed.send(KubeUnavailableError("away"), CONNECTION_QUOTA)
        ended.set()

    threading.Thread(target=send, daemon=True).start()
    assert ended.wait(PATIENCE_S), "nobody waits for a cache that is closed"


async def test_an_api_server_whose_storage_was_restored_is_believed() -> None:
    """Its versions are lower than those that are held, and it says nothing to who watches from a higher one."""
    script = Script(page(quota("a", 3), quota("b", 40), version=50))
    told: list[tuple[str | None, str | None]] = []
    async with cached(script) as cache:
        assert await names(cache) == ["a", "b"]
        await cache.subscribe(lambda _, before, after: told.append((named(before), named(after))))
        script.pages = [page(quota("a", 3, generation=7), quota("c", 9), version=20)]
        script.said.put(urllib3.exceptions.ProtocolError("it was ended"))
        await until_named(cache, "a", "c")
        assert told[2:] == [("a", "a"), (None, "c"), ("b", None)]
        script.said.put(event("MODIFIED", quota("a", 21)) + event("DELETED", quota("c", 22)))
        await until_named(cache, "a")
        cache.note(CONNECTION_QUOTA, quota("d", 23))
        assert await names(cache) == ["a", "d"]
    assert script.watched_from()[:2] == ["50", "20"]


async def test_what_was_cut_off_costs_one_small_request() -> None:
    script = Script(page(quota("a", 3)))
    async with cached(script) as cache:
        assert await names(cache) == ["a"]
        script.said.put(urllib3.exceptions.ProtocolError("it was ended"))
        await until(lambda: len(script.watched_from()) == 2)
        script.said.put(None)
        await until(lambda: len(script.watched_from()) == 3)
        assert cache.watchfulness()[CONNECTION_QUOTA].lists == 1
    assert [query.get("limit") for query in script.asked[:5]] == ["500", None, "1", None, None]


async def test_a_past_that_is_forgotten_each_time_is_not_listed_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[int] = []

    def no_pause(failures: int) -> float:
        pauses.append(failures)
        return 0.0

    monkeypatch.setattr(watching, "_pause_s", no_pause)
    script = Script(page(quota("a", 3)))
    async with cached(script) as cache:
        for _ in range(3):
            script.said.put(event("ERROR", {"code": 410, "message": "too old resource version"}))
        await until(lambda: len(script.watched_from()) == 4)
        assert await names(cache) == ["a"]
    assert pauses == [1, 2], "the first time it is listed at once"


async def test_who_fails_at_one_object_hears_of_the_others(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str | None] = []

    def hear(_: object, before: Held | None, after: Held | None) -> None:
        if "odd" in (named(before), named(after)):
            raise ValueError("what is this?")
        told.append(named(after))

    script = Script(page(quota("odd", 3), quota("a", 4)))
    async with cached(script) as cache:
        assert await names(cache) == ["a", "odd"]
        await cache.subscribe(hear)
        script.said.put(event("MODIFIED", quota("odd", 6)) + event("ADDED", quota("b", 7)))
        await until_named(cache, "a", "b", "odd")
    assert told == ["a", "b"]
    assert caplog.text.count("('default', 'odd') was not understood") == 2


async def test_of_what_we_write_ourselves_metadata_are_kept_where_no_more_is_watched() -> None:
    labels = {CLUSTER_LABEL: "shop"}
    script = Script(page())
    async with cached(script, Watched(CONFIG_MAP, 30, CLUSTER_LABEL, metadata_only=True)) as cache:
        assert await cache.list(CONFIG_MAP, "default", "shop") == []
        meta = {"name": "m", "namespace": "default", "resourceVersion": "9", "labels": labels}
        cache.note(CONFIG_MAP, {"metadata": meta, "data": {"long": "x" * 1000}})
        found = await cache.get(CONFIG_MAP, "default", "m")
        assert found is not None
        assert "data" not in found
