"""The receivers of pod changes, and the time when anything is known at all."""

from typing import Any

from sluicegate_operator.api import ConnectionQuota, parse_resource
from sluicegate_operator.handlers.reconcilers.workloads import Workloads
from sluicegate_operator.planning.limits.connection_groups import number_of_pod
from sluicegate_operator.planning.limits.pod_index import WorkloadPod
from sluicegate_operator.planning.limits.workloads import Members
from tests.support.manifests.bad_manifests import quota
from tests.support.manifests.quota_manifests import of_pods

SHOP = ("default", "shop")


def a_quota(name: str, target: dict[str, Any]) -> ConnectionQuota:
    parsed = parse_resource(quota(target, maxConnections=3) | {"metadata": {"name": name, "namespace": "default"}})
    assert isinstance(parsed, ConnectionQuota)
    return parsed


def a_pod(name: str, address: str, **labels: str) -> WorkloadPod:
    return WorkloadPod(name, "default", name, labels, (address,))


def billing(name: str, address: str) -> WorkloadPod:
    return a_pod(name, address, **{"app.kubernetes.io/name": "billing"})


class Told:
    def __init__(self) -> None:
        self.clusters: list[tuple[str, str]] = []
        self.workloads = Workloads(self.clusters.append)

    def everything(self, *pods: WorkloadPod) -> None:
        for pod in pods:
            self.workloads.on_pod(pod.uid, pod)
        self.workloads.note_all_known()


def test_pods_are_not_watched_for_quotas_of_other_targets() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("all", {"broker": {}})])
    assert not told.workloads.wanted
    told.workloads.keep(SHOP, [a_quota("all", {"broker": {}}), a_quota("pods", of_pods())])
    assert told.workloads.wanted
    told.workloads.keep(SHOP, [])
    assert not told.workloads.wanted


def test_nothing_is_known_before_all_were_told_of() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    told.workloads.on_pod("a", billing("a", "10.0.0.1"))
    assert (told.workloads.known, told.workloads.take_news(SHOP), told.clusters) == (False, {}, [])
    told.workloads.note_all_known()
    assert told.workloads.known
    assert told.clusters == [SHOP]
    assert told.workloads.take_news(SHOP) == {"pods": Members({"10.0.0.1": number_of_pod("a")})}
    assert told.workloads.take_news(SHOP) == {}, "it is told once"


def test_an_added_or_deleted_pod_marks_the_cluster_of_its_quota() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    told.everything()
    told.workloads.take_news(SHOP)
    told.clusters.clear()
    told.workloads.on_pod("other", a_pod("other", "10.0.0.9", app="web"))
    assert told.clusters == []
    told.workloads.on_pod("a", billing("a", "10.0.0.1"))
    assert told.clusters == [SHOP]
    assert told.workloads.take_news(SHOP) == {"pods": Members({"10.0.0.1": number_of_pod("a")})}
    told.workloads.on_pod("a", None)
    assert told.workloads.take_news(SHOP) == {"pods": Members()}


def test_changed_namespace_labels_change_the_members() -> None:
    told = Told()
    everywhere = of_pods(namespaceSelector={"matchLabels": {"team": "payments"}})
    told.workloads.keep(SHOP, [a_quota("pods", everywhere)])
    told.everything(billing("a", "10.0.0.1"))
    assert told.workloads.take_news(SHOP) == {"pods": Members()}
    told.workloads.on_namespace("default", {"team": "payments"})
    assert told.workloads.take_news(SHOP) == {"pods": Members({"10.0.0.1": number_of_pod("a")})}
    told.workloads.on_namespace("default", None)
    assert told.workloads.take_news(SHOP) == {"pods": Members()}


def test_members_known_before_a_gap_in_the_watch_are_not_used() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    told.everything(billing("a", "10.0.0.1"))
    told.workloads.keep(SHOP, [])
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    assert not told.workloads.known
    assert told.workloads.take_news(SHOP) == {}
    told.everything(billing("b", "10.0.0.2"))
    assert told.workloads.take_news(SHOP) == {"pods": Members({"10.0.0.2": number_of_pod("b")})}


def test_a_quota_that_changes_its_cluster_marks_the_new_one() -> None:
    told = Told()
    told.workloads.keep(SHOP, [a_quota("pods", of_pods())])
    told.everything(billing("a", "10.0.0.1"))
    told.workloads.take_news(SHOP)
    told.workloads.keep(("default", "store"), [a_quota("pods", of_pods())])
    assert told.workloads.take_news(("default", "store")) == {"pods": Members({"10.0.0.1": number_of_pod("a")})}
