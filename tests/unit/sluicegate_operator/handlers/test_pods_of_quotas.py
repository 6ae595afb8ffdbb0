"""Pods are watched while a quota selects some, and what is heard of them comes to the cluster of the quota."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from sluicegate_operator.api import ConnectionQuota, parse_resource
from sluicegate_operator.handlers import pods_of_quotas
from sluicegate_operator.handlers.pods_of_quotas import PodsOfQuotas
from sluicegate_operator.kube.errors import KubeError
from sluicegate_operator.kube.held import Held, Reader
from sluicegate_operator.kube.kinds import NAMESPACE, POD, Kind
from sluicegate_operator.kube.watching import Watched
from sluicegate_operator.planning.connection_groups import number_of_pod
from sluicegate_operator.planning.workloads import Members
from tests.support.bad_manifests import quota
from tests.support.quota_manifests import of_pods

SHOP = ("default", "shop")


class Filled:
    def __init__(self) -> None:
        self.filled = asyncio.Event()
        self.trouble: KubeError | None = None
        self.has_patience = True

    def why_unknown(self, _: float) -> KubeError | None:
        return None if self.has_patience else self.trouble


class OneCache:
    """Of kube.cache.Cache, what is used here."""

    def __init__(self, watched: Sequence[Watched]) -> None:
        self.watched = {one.kind: one for one in watched}
        self.kinds = {one.kind: Filled() for one in watched}
        self.running = False
        self.trouble: dict[Kind, KubeError] = {}
        self.on_trouble: Any = None
        self._subscriber: Any = None
        self._held: dict[tuple[Kind, str], Held] = {}

    def start(self) -> None:
        self.running = True

    def close(self) -> None:
        self.running = False

    async def subscribe(self, subscriber: Any) -> None:
        self._subscriber = subscriber

    def watchfulness(self) -> dict[Kind, Filled]:
        return self.kinds

    def troubles(self) -> dict[Kind, KubeError]:
        return self.trouble

    def tell(self, kind: Kind, body: dict[str, Any], *, gone: bool = False) -> None:
        held = Reader(self.watched[kind].trim).held(kind, body)
        before = self._held.get((kind, held.name))
        self._held[kind, held.name] = held
        self._subscriber(kind, held if gone else before, None if gone else held)

    def fill(self) -> None:
        for one in self.kinds.values():
            one.filled.set()


class Kube:
    def __init__(self) -> None:
        self.caches: list[OneCache] = []

    def other_cache(self, watched: Sequence[Watched]) -> OneCache:
        self.caches.append(OneCache(watched))
        return self.caches[-1]


class Watching:
    def __init__(self, namespace: str | None = None) -> None:
        self.kube = Kube()
        self.told: list[tuple[str, str]] = []
        self.pods = PodsOfQuotas(self.kube, namespace, self.told.append)  # type: ignore[arg-type]

    @property
    def cache(self) -> OneCache:
        return self.kube.caches[-1]

    async def turns(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)


def a_quota(**workload: Any) -> ConnectionQuota:
    parsed = parse_resource(quota(of_pods(**workload), maxConnections=3) | {"metadata": {"name": "pods"}})
    assert isinstance(parsed, ConnectionQuota)
    return parsed


def a_pod(name: str, address: str, phase: str = "Running") -> dict[str, Any]:
    labels = {"app.kubernetes.io/name": "billing"}
    meta = {"uid": name, "name": name, "namespace": "default", "labels": labels, "resourceVersion": "7"}
    return {"metadata": meta, "spec": {}, "status": {"phase": phase, "podIP": address}}


async def test_nothing_is_watched_before_a_quota_selects_pods_and_after_the_last_one_has_gone() -> None:
    watching = Watching()
    watching.pods.keep(SHOP, [])
    assert watching.kube.caches == []
    watching.pods.keep(SHOP, [a_quota()])
    await watching.turns()
    assert watching.cache.running
    assert set(watching.cache.watched) == {POD, NAMESPACE}
    watching.pods.keep(SHOP, [a_quota()])
    assert len(watching.kube.caches) == 1
    watching.pods.keep(SHOP, [])
    assert not watching.cache.running


async def test_pods_are_told_once_all_are_known_and_then_as_they_come_and_go() -> None:
    watching = Watching()
    watching.pods.keep(SHOP, [a_quota()])
    await watching.turns()
    watching.cache.tell(POD, a_pod("a", "10.0.0.1"))
    assert watching.pods.take_news(SHOP) == {}
    watching.cache.fill()
    await watching.turns()
    assert watching.told == [SHOP]
    assert watching.pods.take_news(SHOP) == {"pods": Members({"10.0.0.1": number_of_pod("a")})}
    watching.cache.tell(POD, a_pod("b", "10.0.0.2"))
    assert watching.pods.take_news(SHOP)["pods"].addresses.keys() == {"10.0.0.1", "10.0.0.2"}
    watching.cache.tell(POD, a_pod("a", "10.0.0.1"), gone=True)
    watching.cache.tell(POD, a_pod("b", "10.0.0.2", "Succeeded"))
    assert watching.pods.take_news(SHOP) == {"pods": Members()}
    watching.pods.close()


async def test_namespaces_are_selected_by_their_labels() -> None:
    watching = Watching()
    watching.pods.keep(SHOP, [a_quota(namespaceSelector={"matchLabels": {"team": "payments"}})])
    await watching.turns()
    watching.cache.tell(POD, a_pod("a", "10.0.0.1"))
    watching.cache.tell(NAMESPACE, {"metadata": {"name": "default", "labels": {"team": "payments"}}})
    watching.cache.fill()
    await watching.turns()
    assert watching.pods.take_news(SHOP)["pods"].addresses.keys() == {"10.0.0.1"}
    watching.cache.tell(NAMESPACE, {"metadata": {"name": "default"}})
    assert watching.pods.take_news(SHOP)["pods"].addresses == {}
    watching.pods.close()


async def test_an_operator_of_one_namespace_asks_for_no_namespaces() -> None:
    watching = Watching("default")
    watching.pods.keep(SHOP, [a_quota()])
    await watching.turns()
    assert set(watching.cache.watched) == {POD}
    assert not watching.pods.in_all_namespaces
    watching.pods.close()


async def test_pods_that_are_not_seen_for_longer_than_a_watch_may_be_in_trouble_are_told_of_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pods_of_quotas, "LOOK_S", 0.0)
    watching = Watching()
    watching.pods.keep(SHOP, [a_quota()])
    await watching.turns()
    assert (watching.pods.unseen, watching.told) == ("", []), "it is being listed"
    watching.cache.tell(POD, a_pod("a", "10.0.0.1"))
    watching.cache.fill()
    await watching.turns()
    watching.pods.take_news(SHOP)
    watching.told.clear()
    pods = watching.cache.kinds[POD]
    pods.trouble = KubeError("403 Forbidden", 403)
    watching.cache.on_trouble()
    assert (watching.pods.unseen, watching.told) == ("", []), "it may be over in a moment"
    pods.has_patience = False
    await watching.turns()
    assert (watching.pods.unseen, watching.told) == ("403 Forbidden", [SHOP])
    pods.trouble = KubeError("503", 503)
    await watching.turns()
    assert watching.told == [SHOP]
    assert watching.pods.take_news(SHOP) == {}, "what is known stays known"
    pods.trouble, pods.has_patience = None, True
    watching.cache.on_trouble()
    assert (watching.pods.unseen, watching.told) == ("", [SHOP, SHOP])
    watching.pods.close()


async def test_pods_that_may_not_be_listed_at_all_are_told_of_with_the_reason() -> None:
    watching = Watching()
    watching.pods.keep(SHOP, [a_quota()])
    await watching.turns()
    pods = watching.cache.kinds[POD]
    pods.trouble, pods.has_patience = KubeError("403 Forbidden", 403), False
    watching.cache.on_trouble()
    assert (watching.pods.unseen, watching.told) == ("403 Forbidden", [SHOP])
    watching.pods.keep(SHOP, [])
    assert watching.pods.unseen == "", "nobody asks for them"
