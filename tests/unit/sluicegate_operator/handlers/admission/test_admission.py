"""Warnings through kopf: the responses to API servers, from the content of the cache."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, cast

import kopf
import pytest

from sluicegate_operator.api.manifests import read_stored
from sluicegate_operator.handlers.admission import admission, admission_world
from sluicegate_operator.handlers.admission.admission import CHECK, CHECK_ANSWER, WARNINGS, Admission, Warner
from sluicegate_operator.handlers.admission.admission_metrics import AdmissionMetrics, AdmissionResult
from sluicegate_operator.handlers.admission.admission_world import AdmissionWorld, SharedPlaces, UncachedWorldError
from sluicegate_operator.handlers.kopf_operator import KopfOperator
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.cached_object import CachedObject, Reader
from sluicegate_operator.kube.cache.watched import Watched
from sluicegate_operator.kube.http.kinds import (
    AUDIT_PIPELINE,
    BROKER_CLUSTER,
    BROKER_LISTENER,
    BROKER_REGISTRATION,
    CONNECTION_QUOTA,
    KAFKA_USER,
    OBSERVER_PLUGIN,
    TOPIC,
    USER_KINDS,
    Kind,
)
from sluicegate_operator.planning.layout.images import Images
from tests.support.fakes.kube.scripted_api import PATIENCE_S, Script, page, until, without_pauses
from tests.support.manifests.bad_manifests import Json, cluster, listener, quota, registration, topic

NOW = datetime(2026, 1, 2, tzinfo=UTC)
KINDS = {kind.kind: kind for kind in (*USER_KINDS, BROKER_REGISTRATION)}


def stored(document: Json, name: str = "", version: int = 3, **meta: Any) -> Json:
    name = name or document["metadata"]["name"]
    own = {"name": name, "namespace": "default", "uid": f"uid-{name}", "resourceVersion": str(version), "generation": 1}
    return {**document, "metadata": {"creationTimestamp": "2026-01-01T00:00:00Z", **own, **meta}}


def cached(document: Json, name: str = "", **meta: Any) -> CachedObject:
    body = stored(document, name, **meta)
    return Reader().read(KINDS[body["kind"]], body)


class Stored(Cache):
    """A cache that knows these objects, as if all had been listed."""

    def __init__(self, *documents: Json, unlisted: tuple[Kind, ...] = ()) -> None:
        super().__init__([Watched(kind, 3600) for kind in USER_KINDS])
        for kind in USER_KINDS:
            if kind not in unlisted:
                self.hear(kind, *(one for one in documents if one["kind"] == kind.kind))

    def hear(self, kind: Kind, *documents: Json) -> None:
        items = [stored(one) for one in documents]
        for item in self.feed.replace(kind, items, 5, first=True, last=True):
            self.feed.apply(kind, None, item)


async def world_of(*documents: Json, unlisted: tuple[Kind, ...] = ()) -> AdmissionWorld:
    world = AdmissionWorld(Stored(*documents, unlisted=unlisted))
    await world.follow()
    return world


def names(found: Any) -> set[str]:
    return {f"{one.kind} {one.name}" for one in found}


async def test_a_quota_is_judged_with_the_quotas_of_its_target_alone() -> None:
    others = [stored(quota({"ip": f"10.0.0.{number}"}), f"other-{number}") for number in range(2, 9)]
    rival = stored(quota({"ip": "10.0.0.1"}), "rival")
    world = await world_of(cluster(), listener(), rival, *others)
    found = world.around(read_stored(stored(quota({"ip": "10.0.0.1"}), "new")), NOW)
    assert names(found) == {"BrokerCluster shop", "BrokerListener shop-external", "ConnectionQuota rival"}


async def test_of_many_rivals_those_that_decide_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    target = {"ip": "10.0.0.1"}
    many = [stored(quota(target, maxConnections=9, maxConnectionCreationRate=9), f"many-{n}") for n in range(200)]
    strict = stored(quota(target, maxConnections=5), "strict")
    slow = stored(quota(target, maxConnectionCreationRate=5), "slow")
    ended = stored(quota(target, maxConnections=1, expiresAt="2026-01-01T00:00:00Z"), "ended")
    world = await world_of(cluster(), *many, strict, slow, ended)
    applied = read_stored(stored(quota(target, maxConnections=8), "new"))
    decide = {"ConnectionQuota strict", "ConnectionQuota slow"}
    assert names(world.around(applied, NOW)) == {"BrokerCluster shop", *decide}
    itself = read_stored(stored(quota(target, maxConnections=5), "strict"))
    assert "ConnectionQuota strict" not in names(world.around(itself, NOW))
    monkeypatch.setattr(admission_world, "RIVALS_MAX", 100)
    with pytest.raises(UncachedWorldError, match="203 objects conflict with ConnectionQuota new"):
        world.around(applied, NOW)


async def test_the_oldest_topic_decides() -> None:
    old = stored(topic("old", topicName="orders"), creationTimestamp="2025-01-01T00:00:00Z")
    world = await world_of(cluster(), old, stored(topic("orders")))
    assert names(world.around(read_stored(stored(topic("new", topicName="orders"))), NOW)) == {
        "BrokerCluster shop",
        "Topic old",
    }


async def test_objects_of_other_clusters_and_namespaces_are_not_looked_at() -> None:
    elsewhere = stored(topic(), "elsewhere", namespace="other")
    world = await world_of(cluster(), cluster("second"), elsewhere)
    found = world.around(read_stored(stored(topic())), NOW)
    assert names(found) == {"BrokerCluster shop"}


@pytest.mark.parametrize(
    ("applied", "kind"),
    [
        (quota({"ip": "10.0.0.1"}), BROKER_CLUSTER),
        (quota({"ip": "10.0.0.1"}), BROKER_LISTENER),
        (quota({"ip": "10.0.0.1"}), CONNECTION_QUOTA),
        (topic(), TOPIC),
        (listener(), BROKER_LISTENER),
    ],
)
async def test_a_kind_that_is_not_known_is_no_empty_world(applied: Json, kind: Kind) -> None:
    world = await world_of(cluster(), listener(), unlisted=(kind,))
    with pytest.raises(UncachedWorldError):
        world.around(read_stored(stored(applied)), NOW)


async def test_a_listener_that_cannot_be_read_may_be_the_one_that_is_missing() -> None:
    unreadable = listener()
    unreadable["spec"] = {**unreadable["spec"], "port": "many"}
    world = await world_of(cluster(), unreadable)
    with pytest.raises(UncachedWorldError):
        world.around(read_stored(stored(quota({"listener": "EXTERNAL"}))), NOW)


def test_places_follow_what_is_applied_moved_and_deleted() -> None:
    places = SharedPlaces()
    one, two = cached(quota({"ip": "10.0.0.1"}), "one"), cached(quota({"ip": "10.0.0.1"}), "two")
    moved = cached(quota({"ip": "10.0.0.2"}), "two")
    applied = read_stored(stored(quota({"ip": "10.0.0.1"}), "new"))
    for before, after in ((None, one), (None, two), (None, two)):
        places.on_change(CONNECTION_QUOTA, before, after)
    assert sorted(places.names(applied)) == ["one", "two"], "also if it was told twice"
    places.on_change(CONNECTION_QUOTA, two, moved)
    assert list(places.names(applied)) == ["one"]
    places.on_change(CONNECTION_QUOTA, one, None)
    assert list(places.names(applied)) == []
    assert (
        list(places.names(read_stored(stored(quota({"workload": {"podSelector": {"matchLabels": {"a": "b"}}}}))))) == []
    )
    places.on_change(TOPIC, None, cached(topic("orders")))
    assert list(places.names(read_stored(stored(topic("second", topicName="orders"))))) == ["orders"]


async def warner_of(*documents: Json, unlisted: tuple[Kind, ...] = ()) -> tuple[Warner, AdmissionMetrics, Stored]:
    cache, figures = Stored(*documents, unlisted=unlisted), AdmissionMetrics()
    warner = Warner(cache, figures, Images(), lambda: NOW)
    await warner.world.follow()
    return warner, figures, cache


@pytest.mark.virtual_time
async def test_what_is_answered_is_counted() -> None:
    warner, figures, _ = await warner_of(cluster(), listener())
    assert await warner.warnings(stored(quota({"ip": "10.0.0.1"})), None) == ()
    [said] = await warner.warnings(stored(quota({"listener": "OTHER"})), None)
    assert said.startswith("no BrokerListener of cluster shop")
    assert await warner.warnings({"kind": "Pod"}, None) == ()
    assert figures.requests == {
        AdmissionResult.SILENT: 1,
        AdmissionResult.WARNED: 1,
        AdmissionResult.UNKNOWN: 1,
    }


async def test_a_cache_that_is_not_listed_says_nothing() -> None:
    warner, figures, _ = await warner_of(unlisted=USER_KINDS)
    assert await warner.warnings(stored(quota({"listener": "OTHER"})), None) == ()
    assert figures.requests == {AdmissionResult.UNKNOWN: 1}


async def test_a_fault_of_the_operator_refuses_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fault(*_: Any) -> None:
        raise ZeroDivisionError("a fault")

    warner, figures, _ = await warner_of(cluster())
    monkeypatch.setattr(admission, "admission_warnings", fault)
    assert await warner.warnings(stored(topic()), None) == ()
    assert figures.requests == {AdmissionResult.FAILED: 1}
    assert "the warnings for an object could not be computed" in caplog.text


@pytest.mark.virtual_time
async def test_a_cluster_that_was_applied_a_moment_before_is_waited_for() -> None:
    warner, _, cache = await warner_of()
    asyncio.get_running_loop().call_later(0.1, lambda: cache.hear(BROKER_CLUSTER, cluster()))
    assert await warner.warnings(stored(topic()), None) == ()


@pytest.mark.virtual_time
async def test_a_cluster_that_is_missing_is_waited_for_once() -> None:
    warner, _, _ = await warner_of()
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    for number in range(100):
        [said] = await warner.warnings(stored(topic(f"t{number}")), None)
        assert "BrokerCluster shop does not exist" in said
    assert loop.time() - began_s < 1.0


class Webhook:
    """Replaces the server of an Admission: keeps the function that kopf wants to be called."""

    def __init__(self, warner: Warner) -> None:
        self.warner = warner
        self.serve: kopf.WebhookFn | None = None

    @property
    def server(self) -> kopf.WebhookServerProtocol:
        return self._listen

    async def _listen(self, serve: kopf.WebhookFn) -> AsyncIterator[kopf.WebhookClientConfig]:
        self.serve = serve
        yield kopf.WebhookClientConfig()
        await asyncio.Event().wait()

    async def ask(self, path: str, kind: Kind, applied: Json, old: Json | None = None) -> Any:
        assert self.serve is not None
        group, _, api_version = kind.api_version.partition("/")
        request = {
            "uid": "r-1",
            "resource": {"group": group, "version": api_version, "resource": kind.plural},
            "operation": "CREATE" if old is None else "UPDATE",
            "userInfo": {"username": "someone"},
            "object": applied,
            "oldObject": old,
            "dryRun": False,
        }
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
        return await self.serve(cast(Any, review), webhook=path)


async def test_kopf_answers_by_the_handlers_of_this_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    without_pauses(monkeypatch)
    monkeypatch.setattr(admission, "HEARD_S", 0.0)
    warner, _, _ = await warner_of(cluster(), listener())
    webhook = Webhook(warner)
    watched = [Watched(kind, 30) for kind in (*USER_KINDS, BROKER_REGISTRATION)]
    operator = KopfOperator(lambda: Script(page()), None, lambda: None, Cache(watched), cast(Admission, webhook))
    operator.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            await until(lambda: webhook.serve is not None)
            told = await webhook.ask(WARNINGS, CONNECTION_QUOTA, stored(quota({"listener": "OTHER"})))
            changed = stored(cluster(config={"num.io.threads": "9"}))
            restarts = await webhook.ask(WARNINGS, BROKER_CLUSTER, changed, stored(cluster()))
            silent = await webhook.ask(WARNINGS, TOPIC, stored(topic()))
            checked = await webhook.ask(CHECK, BROKER_REGISTRATION, stored(registration()))
    finally:
        operator.stop()
        await operator.stopped()
    assert told["response"]["allowed"]
    assert told["response"]["warnings"] == [
        "no BrokerListener of cluster shop has spec.name OTHER; create it or correct target.listener"
    ]
    [restart] = restarts["response"]["warnings"]
    assert restart.startswith("restarts shop-brokers-0, ")
    assert silent["response"] == {"uid": "r-1", "allowed": True}
    assert checked["response"]["warnings"] == [CHECK_ANSWER]


def test_each_kind_that_users_write_has_its_surroundings() -> None:
    assert {
        AUDIT_PIPELINE,
        BROKER_CLUSTER,
        BROKER_LISTENER,
        CONNECTION_QUOTA,
        KAFKA_USER,
        OBSERVER_PLUGIN,
        TOPIC,
    } == set(USER_KINDS)
