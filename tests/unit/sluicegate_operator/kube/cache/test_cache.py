"""A cache that kopf fills, from a scripted API server."""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import aiohttp
import pytest

from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.kube.cache import cache as cache_module
from sluicegate_operator.kube.cache import informer, reflector
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.cached_object import CachedObject
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.http.errors import KubeError, KubeUnavailableError
from sluicegate_operator.kube.http.kinds import CONFIG_MAP, CONNECTION_QUOTA
from sluicegate_operator.resources.labels import CLUSTER_LABEL
from tests.support.fakes.kube.scripted_api import (
    FORGOTTEN,
    Script,
    bookmark,
    cached,
    event,
    page,
    until,
    without_pauses,
)

Json = dict[str, Any]
QUOTAS = Watched(CONNECTION_QUOTA, 30)


def quota(name: str, version: int, **metadata: Any) -> Json:
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version), **metadata}
    spec = {"clusterRef": {"name": "shop"}, "target": {"broker": {}}, "maxConnections": 10}
    return {"metadata": meta, "spec": spec}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)


async def names(cache: Cache) -> list[str]:
    found = await cache.resources(CONNECTION_QUOTA, "default", "shop")
    return sorted(one.name for one in found if isinstance(one, ConnectionQuota))


def named(held: CachedObject | None) -> str | None:
    return None if held is None else held.name


async def until_named(cache: Cache, *wanted: str) -> None:
    while await names(cache) != list(wanted):  # noqa: ASYNC110 - it is kopf that makes it so
        await asyncio.sleep(0)


async def test_a_list_is_read_in_pages_and_the_watch_continues_from_it() -> None:
    script = Script(page(quota("a", 3), token="more"), page(quota("b", 4), version=6))
    async with cached(script, QUOTAS) as cache:
        assert await names(cache) == ["a", "b"]
        script.said.put_nowait(event("ADDED", quota("c", 7))[:30])
        script.said.put_nowait(event("ADDED", quota("c", 7))[30:] + event("DELETED", quota("a", 8)))
        await until_named(cache, "b", "c")
        script.said.put_nowait(bookmark(20))
        script.said.put_nowait(None)
        await until(lambda: script.watched_from() == ["6", "20"])
    assert [query.get("continue") for query in script.asked[:2]] == [None, "more"]


async def test_objects_of_all_namespaces_are_known_together_without_those_that_are_being_deleted() -> None:
    going = quota("going", 4, deletionTimestamp="2026-01-01T00:00:00Z")
    elsewhere, unreadable = quota("elsewhere", 5, namespace="retail"), quota("odd", 6)
    unreadable["spec"]["maxConnections"] = "many"
    async with cached(Script(page(quota("a", 3), going, elsewhere, unreadable)), QUOTAS) as cache:
        found = await cache.everywhere(CONNECTION_QUOTA, ConnectionQuota)
    assert sorted((one.namespace, one.name) for one in found) == [("default", "a"), ("retail", "elsewhere")]


async def test_an_expired_watch_relists_and_reports_objects_deleted_meanwhile() -> None:
    script = Script(page(quota("a", 3), quota("b", 4)), page(quota("b", 4), quota("c", 9), version=10))
    told: list[tuple[str | None, str | None]] = []
    async with cached(script, QUOTAS) as cache:
        assert await names(cache) == ["a", "b"]
        await cache.subscribe(lambda _, before, after: told.append((named(before), named(after))))
        kept = await cache.resources(CONNECTION_QUOTA, "default", "shop")
        script.said.put_nowait(event("ERROR", {"code": 410, "message": "too old resource version"}))
        await until_named(cache, "b", "c")
        assert told == [(None, "a"), (None, "b"), (None, "c"), ("a", None)]
        assert (await cache.resources(CONNECTION_QUOTA, "default", "shop"))[0] is kept[1], "parsed once for its version"
    assert cache.informers()[CONNECTION_QUOTA].lists == 2


async def test_a_silent_watch_is_restarted_from_its_last_version() -> None:
    script = Script(page())
    async with cached(script, QUOTAS) as cache:
        await until(lambda: script.watched_from() == ["5"])
        script.said.put_nowait(TimeoutError("silence"))
        script.said.put_nowait(event("ADDED", quota("a", 6)))
        await until_named(cache, "a")
    assert script.watched_from()[:2] == ["5", "5"]


async def test_an_unlisted_kind_raises_an_error_instead_of_appearing_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "FILL_PATIENCE_S", 0.001)
    cache = Cache((QUOTAS,))
    with pytest.raises(KubeUnavailableError, match="connectionquotas have not been listed yet"):
        await names(cache)


async def test_a_kind_that_is_not_served_is_an_error_until_it_is() -> None:
    script = Script(404)
    async with cached(script, QUOTAS) as cache:
        await until(lambda: bool(cache.errors()))
        with pytest.raises(KubeError) as refused:
            await names(cache)
        assert refused.value.status == 404
        script.pages = [page(quota("a", 3))]
        await until(lambda: not cache.errors())
        assert await names(cache) == ["a"]


async def test_a_kind_not_served_any_more_is_unknown_and_its_objects_are_dropped_when_it_returns() -> None:
    script = Script(page(quota("a", 3)), 404)
    async with cached(script, QUOTAS) as cache:
        assert await names(cache) == ["a"]
        script.said.put_nowait(FORGOTTEN)
        await until(lambda: bool(cache.errors()))
        with pytest.raises(KubeError) as refused:
            await names(cache)
        assert refused.value.status == 404
        script.pages = [page(quota("b", 9), version=9)]
        await until(lambda: not cache.errors())
        assert await names(cache) == ["b"]


async def test_the_cache_is_used_for_a_while_after_its_watch_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    script = Script(page(quota("a", 3)), 500)
    async with cached(script, QUOTAS) as cache:
        assert await names(cache) == ["a"]
        script.said.put_nowait(FORGOTTEN)
        await until(lambda: bool(cache.errors()))
        assert await names(cache) == ["a"]
        monkeypatch.setattr(informer, "BROKEN_MAX_S", 0.0)
        with pytest.raises(KubeError) as refused:
            await names(cache)
        assert refused.value.status == 500


async def test_a_silent_watch_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script(page(quota("a", 3)))
    async with cached(script, QUOTAS) as cache:
        assert await names(cache) == ["a"]
        monkeypatch.setattr(informer, "SILENT_PERIODS", 0.0)
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
        monkeypatch.setattr(informer, "SILENT_PERIODS", 0.0)
        assert cache.peek(CONFIG_MAP, "default", "a") == (False, None)


async def test_an_own_write_is_visible_at_once_and_never_restores_a_deleted_object() -> None:
    script = Script(page(quota("a", 3)))
    async with cached(script, QUOTAS) as cache:
        assert await names(cache) == ["a"]
        cache.note(CONNECTION_QUOTA, quota("b", 7))
        assert await names(cache) == ["a", "b"]
        script.said.put_nowait(event("DELETED", quota("b", 8)))
        await until_named(cache, "a")
        cache.note(CONNECTION_QUOTA, quota("b", 7))
        assert await names(cache) == ["a"]
        cache.note_gone(CONNECTION_QUOTA, "default", "a", "uid-of-another")
        assert await names(cache) == ["a"]
        cache.note_gone(CONNECTION_QUOTA, "default", "a", "uid-a")
        assert await names(cache) == []


async def test_a_subscriber_receives_existing_objects_and_each_change() -> None:
    script = Script(page(quota("a", 3)))
    told: list[tuple[str | None, str | None]] = []

    def hear(_: object, before: CachedObject | None, after: CachedObject | None) -> None:
        told.append((named(before), named(after)))

    async with cached(script, QUOTAS) as cache:
        assert await names(cache) == ["a"]
        await cache.subscribe(hear)
        assert told == [(None, "a")]
        script.said.put_nowait(event("MODIFIED", quota("a", 6)))
        await until(lambda: told[1:] == [("a", "a")])
        cache.unsubscribe(hear)
        script.said.put_nowait(event("DELETED", quota("a", 7)))
        await until_named(cache)
    assert len(told) == 2


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


async def test_a_list_does_not_hold_up_the_event_loop() -> None:
    script = Script(page(*(quota(f"q{number:03}", number + 1) for number in range(300)), version=900))
    async with cached(script, QUOTAS) as cache:
        store, held = cache.informers()[CONNECTION_QUOTA].store, [0]
        while held[-1] < 300:
            await asyncio.sleep(0)
            held.append(len(store))
        assert max(after - before for before, after in pairwise(held)) <= 3
        assert len(await names(cache)) == 300


async def test_an_api_server_whose_storage_was_restored_is_believed() -> None:
    """The server's versions are lower than the cached ones, and it sends no events to a watch from a higher version."""
    script = Script(page(quota("a", 3), quota("b", 40), version=50))
    told: list[tuple[str | None, str | None]] = []
    async with cached(script, QUOTAS) as cache:
        assert await names(cache) == ["a", "b"]
        await cache.subscribe(lambda _, before, after: told.append((named(before), named(after))))
        script.pages = [page(quota("a", 3, generation=7), quota("c", 9), version=20)]
        script.said.put_nowait(aiohttp.ClientPayloadError("it was ended"))
        await until_named(cache, "a", "c")
        # kopf calls handlers of different objects in any order. Objects missing in a list are removed after them.
        assert sorted(told[2:4], key=str) == [("a", "a"), (None, "c")]
        assert told[4:] == [("b", None)]
        script.said.put_nowait(event("MODIFIED", quota("a", 21)) + event("DELETED", quota("c", 22)))
        await until_named(cache, "a")
        cache.note(CONNECTION_QUOTA, quota("d", 23))
        assert await names(cache) == ["a", "d"]
    assert script.watched_from()[:2] == ["50", "20"]


async def test_a_broken_watch_costs_one_small_request() -> None:
    script = Script(page(quota("a", 3)))
    async with cached(script, QUOTAS) as cache:
        assert await names(cache) == ["a"]
        script.said.put_nowait(aiohttp.ClientPayloadError("it was ended"))
        await until(lambda: len(script.watched_from()) == 2)
        script.said.put_nowait(None)
        await until(lambda: len(script.watched_from()) == 3)
        assert cache.informers()[CONNECTION_QUOTA].lists == 1
    assert [query.get("limit") for query in script.asked[:5]] == ["200", None, "1", None, None]


async def test_a_past_that_is_forgotten_each_time_is_not_listed_without_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[int] = []

    def no_pause(failures: int) -> float:
        pauses.append(failures)
        return 0.0

    monkeypatch.setattr(reflector, "pause_s", no_pause)
    script = Script(page(quota("a", 3)))
    async with cached(script, QUOTAS) as cache:
        for _ in range(3):
            script.said.put_nowait(event("ERROR", {"code": 410, "message": "too old resource version"}))
        await until(lambda: len(script.watched_from()) == 4)
        assert await names(cache) == ["a"]
    assert pauses == [1, 2], "the first time it is listed at once"


async def test_a_subscriber_that_raises_for_one_object_receives_the_others(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str | None] = []

    def hear(_: object, before: CachedObject | None, after: CachedObject | None) -> None:
        if "odd" in (named(before), named(after)):
            raise ValueError("what is this?")
        told.append(named(after))

    script = Script(page(quota("odd", 3), quota("a", 4)))
    async with cached(script, QUOTAS) as cache:
        assert await names(cache) == ["a", "odd"]
        await cache.subscribe(hear)
        script.said.put_nowait(event("MODIFIED", quota("odd", 6)) + event("ADDED", quota("b", 7)))
        await until_named(cache, "a", "b", "odd")
    assert told == ["a", "b"]
    assert caplog.text.count("a subscriber failed on a change of") == 2


async def test_only_metadata_of_own_writes_is_kept_if_only_metadata_is_watched() -> None:
    labels = {CLUSTER_LABEL: "shop"}
    script = Script(page())
    async with cached(script, Watched(CONFIG_MAP, 30, CLUSTER_LABEL, metadata_only=True)) as cache:
        assert await cache.list(CONFIG_MAP, "default", "shop") == []
        meta = {"name": "m", "namespace": "default", "resourceVersion": "9", "labels": labels}
        cache.note(CONFIG_MAP, {"metadata": meta, "data": {"long": "x" * 1000}})
        found = await cache.get(CONFIG_MAP, "default", "m")
        assert found is not None
        assert "data" not in found
