"""kopf's session with refused requests and broken watches: an error of one kind affects only that kind."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from sluicegate_operator.kube.cache import reflector
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.kopf_answers import Document, WatchAnswer
from sluicegate_operator.kube.cache.reflector import ReflectorSession
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.http.discovery import discovery
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import CONFIG_MAP, NAMESPACE, TOPIC, Kind
from tests.support.fakes.kube.scripted_api import (
    Chunk,
    Script,
    ScriptedResponse,
    cached,
    event,
    page,
    until,
    without_pauses,
)

Json = dict[str, Any]
MAPS = Watched(CONFIG_MAP, 30)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)


def a_map(name: str, version: int) -> Json:
    return {"metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(version)}}


async def names(cache: Cache) -> list[str]:
    await cache.get(CONFIG_MAP, "default", "any")
    return sorted(name for _, name in cache.informers()[CONFIG_MAP].store.names())


async def until_named(cache: Cache, *wanted: str) -> None:
    await until(lambda: sorted(name for _, name in cache.informers()[CONFIG_MAP].store.names()) == list(wanted))


async def test_a_list_whose_continue_token_has_expired_begins_again() -> None:
    script = Script(page(a_map("gone", 3), token="old"), 410, page(a_map("a", 4), version=9))
    async with cached(script, MAPS) as cache:
        await until_named(cache, "a")
        assert await names(cache) == ["a"]
        await until(lambda: script.watched_from() == ["9"])
    assert [query.get("continue") for query in script.asked[:3]] == [None, "old", None]


@pytest.mark.parametrize("refusal", [403, 429, 500, TimeoutError(), aiohttp.ClientConnectionError("refused")])
async def test_a_list_that_is_refused_is_an_error_and_is_sent_again(refusal: int | Exception) -> None:
    script = Script(refusal)
    async with cached(script, MAPS) as cache:
        await until(lambda: len(script.asked) > 2)
        with pytest.raises(KubeError):
            await names(cache)
        script.pages = [page(a_map("a", 3))]
        await until(lambda: not cache.errors())
        assert await names(cache) == ["a"]


@pytest.mark.parametrize("items", [[None], ["a"], [{"metadata": None}], {"a": 1}, 7])
async def test_a_list_whose_items_are_not_objects_is_sent_again(items: Any) -> None:
    script = Script({**page(), "items": items}, page(a_map("a", 3)))
    async with cached(script, MAPS) as cache:
        await until(lambda: bool(cache.errors()))
        await until_named(cache, "a")


async def test_a_page_is_given_to_kopf_in_chunks_and_each_after_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    real = reflector._chunk

    def noted(one: reflector.Reflector) -> Document:
        document = real(one)
        pending = len(session_feed[0].informers[CONFIG_MAP]._pending)
        given.append((len(document._body["items"]), pending - len(one.rest)))
        return document

    session_feed: list[Any] = []
    monkeypatch.setattr(reflector, "_chunk", noted)
    first = page(*(a_map(f"a{number:03}", 3) for number in range(120)), token="more")
    script = Script(first, page(*(a_map(f"b{number:03}", 3) for number in range(20))))
    async with cached(script, MAPS) as cache:
        session_feed.append(cache.feed)
        await until(lambda: len(cache.informers()[CONFIG_MAP].store.names()) == 140)
        await until(lambda: script.watched_from() == ["5"])
    assert given == [(50, 50), (50, 50), (20, 20), (20, 20)], "objects of a chunk, and objects that kopf has then"
    assert [query.get("continue") for query in script.asked[:2]] == [None, "more"]


@pytest.mark.parametrize("refusal", [403, 500, TimeoutError(), aiohttp.ClientConnectionError("refused")])
async def test_a_watch_that_is_refused_continues_from_where_it_was(refusal: int | Exception) -> None:
    script = Script(page(a_map("a", 3)))
    script.watches = [refusal]
    async with cached(script, MAPS) as cache:
        await until(lambda: bool(cache.errors()))
        script.said.put_nowait(event("ADDED", a_map("b", 7)))
        await until_named(cache, "a", "b")
        assert not cache.errors()
        assert cache.informers()[CONFIG_MAP].lists == 1
    assert script.watched_from() == ["5", "5"]


async def test_a_kind_without_its_crd_is_listed_when_it_is_back() -> None:
    script = Script(page(a_map("a", 3)), 404, 404, page(a_map("b", 9), version=9))
    script.watches = [404]
    async with cached(script, MAPS) as cache:
        await until_named(cache, "b")
        assert cache.informers()[CONFIG_MAP].lists == 2


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (event("ERROR", {"code": 500, "message": "etcd is away"}), "etcd is away"),
        (b"<html>bad gateway</html>\n", "not an event"),
        (b'{"type":"ERROR","object":null}\n', "not an event"),
        (b'{"type":"ADDED"}\n', "not an event"),
        (b'{"type":"ADDED","object":{"metadata":{"name":"c"\n', "not an event"),
        (b"null\n", "not an event"),
    ],
)
async def test_an_error_of_a_watch_that_would_end_kopf_ends_this_watch_alone(said: bytes, why: str) -> None:
    script = Script(page())
    errors: list[str] = []
    async with cached(script, MAPS) as cache:
        cache.on_error = lambda: errors.extend(str(error) for error in cache.errors().values())
        await until(lambda: script.watched_from() == ["5"])
        script.said.put_nowait(event("ADDED", a_map("a", 6)) + said)
        script.said.put_nowait(event("ADDED", a_map("b", 7)))
        await until_named(cache, "b")
        assert await names(cache) == ["b"]
    assert why in errors[0]
    assert len(script.watched_from()) == 2


async def test_an_event_cut_in_two_is_not_parsed_as_a_whole_one() -> None:
    script = Script(page())
    async with cached(script, MAPS) as cache:
        await until(lambda: script.watched_from() == ["5"])
        script.pages = [page(a_map("a", 6), version=6)]
        script.said.put_nowait(event("ADDED", a_map("a", 6)) + event("ADDED", a_map("b", 7))[:30])
        script.said.put_nowait(None)
        await until(lambda: len(script.watched_from()) == 2)
        await until_named(cache, "a")
    assert script.watched_from()[1] == "6"


async def test_a_list_that_is_no_json_is_an_error_of_its_kind() -> None:
    script = Script({"metadata": {}})
    async with cached(script, MAPS) as cache:
        await until(lambda: bool(cache.errors()))
        assert "the response is not a list" in str(cache.errors()[CONFIG_MAP])
        script.pages = [page(a_map("a", 3))]
        assert await _eventually(cache) == ["a"]


async def _eventually(cache: Cache) -> list[str]:
    await until(lambda: not cache.errors())
    return await names(cache)


async def test_one_kind_that_is_refused_holds_up_no_other() -> None:
    class Forbidding(Script):
        async def get(self, path: str, accept: str, timeout_s: float) -> ScriptedResponse:
            if "/topics" in path:
                return ScriptedResponse(403, b'{"message":"topics is forbidden"}')
            return await super().get(path, accept, timeout_s)

    async with cached(Forbidding(page(a_map("a", 3))), MAPS, Watched(TOPIC, 30)) as cache:
        assert await names(cache) == ["a"]
        await until(lambda: bool(cache.errors()))
        assert set(cache.errors()) == {TOPIC}
        assert cache.errors()[TOPIC].status == 403


async def test_kopf_does_not_get_an_event_of_what_the_operator_has_written_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    handled: list[str] = []
    real = ReflectorSession.request

    async def noted(self: ReflectorSession, method: str, url: str, **more: Any) -> Any:
        answer = await real(self, method, url, **more)
        if isinstance(answer, WatchAnswer):
            chunks = answer.iter_chunked

            async def recorded(size: int) -> AsyncIterator[bytes]:
                async for chunk in chunks(size):
                    handled.extend(json.loads(line)["object"]["metadata"]["name"] for line in chunk.splitlines())
                    yield chunk

            monkeypatch.setattr(answer, "iter_chunked", recorded)
        return answer

    monkeypatch.setattr(ReflectorSession, "request", noted)
    script = Script(page(a_map("a", 3)))
    async with cached(script, MAPS) as cache:
        await until(lambda: script.watched_from() == ["5"])
        assert await names(cache) == ["a"]
        cache.note(CONFIG_MAP, a_map("a", 8))
        older, own, newer = event("MODIFIED", a_map("a", 7)), event("MODIFIED", a_map("a", 8)), a_map("a", 9)
        script.said.put_nowait(older + own)
        script.said.put_nowait(event("MODIFIED", newer) + event("ADDED", a_map("b", 10)))
        await until_named(cache, "a", "b")
        script.said.put_nowait(event("DELETED", newer))
        await until_named(cache, "b")
        assert cache.informers()[CONFIG_MAP].resource_version == 10
    assert handled == ["a", "b", "a"]


async def test_an_event_without_an_end_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate_operator.kube.cache.kopf_answers.LINE_MAX", 100)
    said: asyncio.Queue[Chunk] = asyncio.Queue()
    errors: list[KubeError] = []
    answer = WatchAnswer(
        ScriptedResponse(200, said=said),
        "configmaps",
        contact=lambda: None,
        fail=errors.append,
        ended=lambda: None,
        is_known=lambda type_, item: False,
    )
    for _ in range(3):
        said.put_nowait(b"x" * 60)
    with pytest.raises(aiohttp.ClientPayloadError, match="exceeds the size limit"):
        async for _ in answer.iter_chunked(1024):
            pass
    assert [str(error) for error in errors] == ["the API server sent an event that exceeds the size limit"]


async def test_a_request_that_is_no_list_and_no_watch_is_not_sent() -> None:
    script = Script(page())
    session = ReflectorSession(script, Cache([MAPS]).feed, None)
    with pytest.raises(RuntimeError, match="kopf sent PATCH /api/v1/namespaces/default/configmaps/a"):
        await session.request("PATCH", "https://kubernetes/api/v1/namespaces/default/configmaps/a")
    assert script.asked == []


def test_discovery_is_the_table_of_kinds_and_namespaces() -> None:
    found = discovery([TOPIC, CONFIG_MAP, Kind("apps/v1", "StatefulSet", "statefulsets")])
    assert [one["name"] for one in found["/apis"]["groups"]] == ["sluicegate.dev", "apps"]
    assert [one["name"] for one in found["/api/v1"]["resources"]] == [NAMESPACE.plural, CONFIG_MAP.plural]
    assert [one["namespaced"] for one in found["/api/v1"]["resources"]] == [False, True]
    assert [one["name"] for one in found["/apis/sluicegate.dev/v1alpha1"]["resources"]] == ["topics"]
