"""Pods are watched while a quota selects some, and their events reach the cluster of the quota."""

import asyncio
from typing import Any

import pytest

from sluicegate_operator.api import ConnectionQuota, parse_resource
from sluicegate_operator.handlers.reconcilers import pods_of_quotas
from sluicegate_operator.handlers.reconcilers.pods_of_quotas import PodsOfQuotas
from sluicegate_operator.kube.cache.cache import Cache
from sluicegate_operator.kube.cache.cached_object import CachedObject
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import NAMESPACE, POD, Kind
from sluicegate_operator.planning.limits.connection_groups import number_of_pod
from sluicegate_operator.planning.limits.workloads import Members
from tests.support.manifests.bad_manifests import quota
from tests.support.manifests.quota_manifests import of_pods

SHOP = ("default", "shop")


class Kopf:
    """Feeds a cache with scripted events."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.running = False
        self._version = 0

    def start(self) -> None:
        self.running = True

    def stop(self) -> None:
        self.running = False

    @property
    def watched(self) -> set[Kind]:
        return set(self.cache.informers())

    def tell(self, kind: Kind, body: dict[str, Any], *, gone: bool = False) -> None:
        self._version += 1
        meta = {**body["metadata"], "resourceVersion": str(self._version)}
        self.cache.feed.apply(kind, "DELETED" if gone else "MODIFIED", {**body, "metadata": meta})

    def fill(self) -> None:
        """Complete a list of each kind, which has the objects reported before."""
        for kind, one in self.cache.informers().items():
            kept = [_named(held) for held in one.store.values()]
            self.cache.feed.replace(kind, kept, self._version, first=True, last=True)

    def fail(self, kind: Kind, error: KubeError) -> None:
        self.cache.feed.fail(kind, error)

    def lose_patience(self, kind: Kind) -> None:
        self.cache.informers()[kind].last_contact_s = float("-inf")


def _named(held: CachedObject) -> dict[str, Any]:
    return {"metadata": {"namespace": held.namespace, "name": held.name, "resourceVersion": str(held.version)}}


class Watching:
    def __init__(self, namespace: str | None = None) -> None:
        self.fed: list[Kopf] = []
        self.told: list[tuple[str, str]] = []
        self.pods = PodsOfQuotas(self._feed, namespace, self.told.append)

    def _feed(self, cache: Cache) -> Kopf:
        self.fed.append(Kopf(cache))
        return self.fed[-1]

    @property
    def cache(self) -> Kopf:
        return self.fed[-1]

    async def iterations(self) -> None:
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


async def test_pods_are_watched_only_while_a_quota_selects_pods() -> None:
    watching = Watching()
    watching.pods.keep(SHOP, [])
    assert watching.fed == []
    watching.pods.keep(SHOP, [a_quota()])
    await watching.iterations()
    assert watching.cache.running
    assert watching.cache.watched == {POD, NAMESPACE}
    watching.pods.keep(SHOP, [a_quota()])
    assert len(watching.fed) == 1
    watching.pods.keep(SHOP, [])
    assert not watching.cache.running


async def test_pods_are_reported_once_all_are_known_and_then_at_each_change() -> None:
    watching = Watching()
    watching.pods.keep(SHOP, [a_quota()])
    await watching.iterations()
    watching.cache.tell(POD, a_pod("a", "10.0.0.1"))
    assert watching.pods.take_news(SHOP) == {}
    watching.cache.fill()
    await watching.iterations()
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
    await watching.iterations()
    watching.cache.tell(POD, a_pod("a", "10.0.0.1"))
    watching.cache.tell(NAMESPACE, {"metadata": {"name": "default", "labels": {"team": "payments"}}})
    watching.cache.fill()
    await watching.iterations()
    assert watching.pods.take_news(SHOP)["pods"].addresses.keys() == {"10.0.0.1"}
    watching.cache.tell(NAMESPACE, {"metadata": {"name": "default"}})
    assert watching.pods.take_news(SHOP)["pods"].addresses == {}
    watching.pods.close()


async def test_an_operator_of_one_namespace_asks_for_no_namespaces() -> None:
    watching = Watching("default")
    watching.pods.keep(SHOP, [a_quota()])
    await watching.iterations()
    assert watching.cache.watched == {POD}
    assert not watching.pods.in_all_namespaces
    watching.pods.close()


async def test_pods_unseen_for_longer_than_a_watch_failure_may_last_are_reported_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pods_of_quotas, "LOOK_S", 0.0)
    watching = Watching()
    watching.pods.keep(SHOP, [a_quota()])
    await watching.iterations()
    assert (watching.pods.unseen, watching.told) == ("", []), "it is being listed"
    watching.cache.tell(POD, a_pod("a", "10.0.0.1"))
    watching.cache.fill()
    await watching.iterations()
    watching.pods.take_news(SHOP)
    watching.told.clear()
    watching.cache.fail(POD, KubeError("403 Forbidden", 403))
    assert (watching.pods.unseen, watching.told) == ("", []), "it may be over in a moment"
    watching.cache.lose_patience(POD)
    await watching.iterations()
    assert (watching.pods.unseen, watching.told) == ("403 Forbidden", [SHOP])
    watching.cache.fail(POD, KubeError("503", 503))
    await watching.iterations()
    assert watching.told == [SHOP]
    assert watching.pods.take_news(SHOP) == {}, "what is known stays known"
    watching.cache.cache.feed.contact(POD)
    assert (watching.pods.unseen, watching.told) == ("", [SHOP, SHOP])
    watching.pods.close()


async def test_pods_that_may_not_be_listed_at_all_are_told_of_with_the_reason() -> None:
    watching = Watching()
    watching.pods.keep(SHOP, [a_quota()])
    await watching.iterations()
    watching.cache.fail(POD, KubeError("403 Forbidden", 403))
    assert (watching.pods.unseen, watching.told) == ("403 Forbidden", [SHOP])
    watching.pods.keep(SHOP, [])
    assert watching.pods.unseen == "", "nobody asks for them"
