"""Who is told of pods that come and go, and when anything is known at all."""

from typing import Any

from sluicegate_operator.api import ConnectionQuota, parse_resource
from sluicegate_operator.handlers.workloads import Workloads
from sluicegate_operator.planning.workloads import Members
from tests.support.bad_manifests import quota
from tests.support.quota_manifests import of_pods

SHOP = ("default", "shop")


def a_quota(name: str, target: dict[str, Any]) -> ConnectionQuota:
    parsed = parse_resource(quota(target, maxConnections=3) | {"metadata": {"name": name, "namespace": "default"}})
    assert isinstance(parsed, ConnectionQuota)
    return parsed


def a_pod(name: str, address: str, **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"uid": name, "name": name, "namespace": "default", "labels": labels},
        "spec": {},
        "status": {"phase": "Running", "podIP": address},
    }


def billing(name: str, address: str) -> dict[str, Any]:
    return a_pod(name, address, **{"app.kubernetes.io/name": "billing"})


class Told:
    def __init__(self) -> None:
        self.clusters: list[tuple[str, str]] = []
        self.workloads = Workloads(self.clusters.append)

    def everything(self, *pods: dict[str, Any]) -> None:
        for pod in pods:
            self.workloads.on_pod(None, pod)
        self.workloads.pods_listed({pod["metadata"]["uid"] for pod in pods})
        self.workloads.on_namespace(None, {"metadata": {"name": "default"}})
        self.workloads.namespaces_listed({"default"})


def test_nobody_watches_pods_for_quotas_of_other_targets() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("all", {"broker": {}})])
    assert not told.workloads.wanted
    told.workloads.keep(SHOP, [a_quota("all", {"broker": {}}), a_quota("pods", of_pods())])
    assert told.workloads.wanted
    told.workloads.keep(SHOP, [])
    assert not told.workloads.wanted


def test_nothing_is_known_before_all_pods_and_namespaces_were_told_of() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    told.workloads.on_pod(None, billing("a", "10.0.0.1"))
    told.workloads.pods_listed({"a"})
    assert (told.workloads.known, told.workloads.take_news(SHOP), told.clusters) == (False, {}, [])
    told.workloads.namespaces_listed(set())
    assert told.workloads.known
    assert told.clusters == [SHOP]
    assert told.workloads.take_news(SHOP) == {"pods": Members(frozenset({"10.0.0.1"}))}
    assert told.workloads.take_news(SHOP) == {}, "it is told once"


def test_a_pod_that_comes_or_goes_is_news_for_the_cluster_of_its_quota() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    told.everything()
    told.workloads.take_news(SHOP)
    told.clusters.clear()
    told.workloads.on_pod("ADDED", a_pod("other", "10.0.0.9", app="web"))
    assert told.clusters == []
    told.workloads.on_pod("ADDED", billing("a", "10.0.0.1"))
    assert told.clusters == [SHOP]
    assert told.workloads.take_news(SHOP) == {"pods": Members(frozenset({"10.0.0.1"}))}
    ended = billing("a", "10.0.0.1")
    ended["status"]["phase"] = "Succeeded"
    told.workloads.on_pod("MODIFIED", ended)
    assert told.workloads.take_news(SHOP) == {"pods": Members()}


def test_news_that_could_not_be_used_are_told_again() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    told.everything(billing("a", "10.0.0.1"))
    news = told.workloads.take_news(SHOP)
    told.workloads.give_back(SHOP, news)
    assert told.workloads.take_news(SHOP) == news


def test_a_list_takes_away_whoever_went_while_nobody_watched() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    told.everything(billing("a", "10.0.0.1"), billing("b", "10.0.0.2"))
    told.workloads.take_news(SHOP)
    told.workloads.pods_listed({"b"})
    assert told.workloads.take_news(SHOP) == {"pods": Members(frozenset({"10.0.0.2"}))}


def test_what_was_known_is_not_taken_for_true_after_nobody_has_watched() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    told.everything(billing("a", "10.0.0.1"))
    told.workloads.keep(SHOP, [])
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    assert not told.workloads.known
    assert told.workloads.take_news(SHOP) == {}
    told.everything(billing("b", "10.0.0.2"))
    assert told.workloads.take_news(SHOP) == {"pods": Members(frozenset({"10.0.0.2"}))}
