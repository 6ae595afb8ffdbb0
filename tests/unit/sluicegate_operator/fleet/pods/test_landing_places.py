"""Which cluster lands in a place, by what the API server shows of pods, StatefulSets and manifests."""

import asyncio
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster
from sluicegate_operator.fleet.kubernetes.kubernetes import KubernetesFleet
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.kube.http.errors import KubeError, LandingTakenError
from sluicegate_operator.kube.http.kinds import AUDIT_PIPELINE, Kind
from sluicegate_operator.resources.labels import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER
from tests.support.fakes.kube.memory_kube import MemoryCache, MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster
from tests.support.manifests.pipeline_manifests import pipeline

X, ELSEWHERE = "s3://audit/x", "s3://audit/elsewhere"


def landed(name: str, uri: str, year: int) -> Json:
    found = cluster(name, audit={"landing": {"uri": uri}})
    return found | {"metadata": {"name": name, "creationTimestamp": f"{year}-01-01T00:00:00Z"}}


def old(uri: str = X) -> Json:
    return landed("old", uri, 2024)


def young(uri: str = X) -> Json:
    return landed("young", uri, 2025)


class Fleet:
    def __init__(self, *objects: Json) -> None:
        self.kube = MemoryKube(*objects)
        self.fleet = KubernetesFleet(self.kube)  # type: ignore[arg-type]

    async def cluster(self, name: str) -> BrokerCluster:
        found = await gather_cluster(self.kube, ("default", name))  # type: ignore[arg-type]
        assert found is not None
        return found

    async def apply(self, name: str) -> str:
        """Why the cluster must not land; empty if its children were applied."""
        try:
            await self.fleet.apply(await self.cluster(name), [])
        except LandingTakenError as error:
            return str(error)
        return ""

    def lands(self, name: str) -> bool:
        """Whether the cluster's next pods land in X."""
        key = ("StatefulSet", "default", f"{name}-brokers")
        return key in self.kube.objects and X in str(self.kube.objects[key]["spec"]["template"]["spec"])


def pod(name: str, uri: str, *owners: Json) -> Json:
    """A pod of the cluster's StatefulSet, or of other owners."""
    labels = {CLUSTER_LABEL: name}
    node_set = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": f"{name}-brokers", "uid": "u"}
    spec = {"initContainers": [{"name": "lander", "args": ["/data/audit", uri]}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-brokers-0",
            "labels": labels,
            "ownerReferences": list(owners) or [{**node_set, "controller": True}],
        },
        "spec": spec,
    }


def strange_set(cluster: str, owner: Json | None, **labels: str) -> Json:
    """A StatefulSet of another user with pods that look as if they landed."""
    spec = {"replicas": 1, "template": {"metadata": {}, "spec": pod(cluster, X)["spec"]}}
    owners = [] if owner is None else [{**owner, "uid": "u", "controller": True}]
    meta = {"name": f"{cluster}-brokers", "labels": labels, "ownerReferences": owners}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": spec}


DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "strange"}
KRUISE = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "StatefulSet"}
LABELLED = {CLUSTER_LABEL: "strange"}
MANAGED = LABELLED | {MANAGED_BY_LABEL: MANAGER}


@pytest.mark.parametrize(
    "strange",
    [
        [pod("strange", X, {"apiVersion": "v1", "kind": "Node", "name": "of no controller", "uid": "u"})],
        [pod("strange", X, {**DEPLOYMENT, "uid": "u", "controller": True})],
        [pod("strange", X, {**KRUISE, "name": "strange-brokers", "uid": "u", "controller": True})],
        [pod("strange", X), strange_set("strange", None, **LABELLED)],
        [pod("strange", X), strange_set("strange", None)],
        [pod("strange", X), strange_set("strange", DEPLOYMENT, **MANAGED)],
    ],
    ids=[
        "no controller",
        "of a Deployment",
        "of a set of another group",
        "of a labelled set",
        "of a set without labels",
        "of a controlled set",
    ],
)
async def test_a_pod_or_stateful_set_of_another_user_takes_no_place(strange: list[Json]) -> None:
    fleet = Fleet(young())
    for item in strange:
        fleet.kube.put(item | {"metadata": {**item["metadata"], "namespace": "tenant-b"}})
    assert await fleet.apply("young") == ""
    assert fleet.lands("young")


async def test_pods_whose_stateful_set_is_gone_land_until_they_end() -> None:
    fleet = Fleet(young(), pod("gone", X))
    assert "pods of BrokerCluster gone land their audit log in s3://audit/x" in await fleet.apply("young")
    fleet.kube.take("Pod", "gone-brokers-0")["status"] = {"phase": "Succeeded"}
    assert await fleet.apply("young") == ""


async def test_a_stateful_set_that_stays_without_its_cluster_keeps_its_place() -> None:
    fleet = Fleet(old(), young())
    await fleet.apply("old")
    fleet.kube.remove("BrokerCluster", "old")
    fleet.kube.take("StatefulSet", "old-brokers")["metadata"]["ownerReferences"] = []
    assert "BrokerCluster old land" in await fleet.apply("young")


async def test_an_older_cluster_does_not_land_where_a_younger_one_lands() -> None:
    fleet = Fleet(old(ELSEWHERE), young())
    assert [await fleet.apply(name) for name in ("old", "young")] == ["", ""]
    fleet.kube.put(old())
    assert "pods of BrokerCluster young land their audit log in s3://audit/x" in await fleet.apply("old")
    assert await fleet.apply("young") == ""
    assert (fleet.lands("old"), fleet.lands("young")) == (False, True)
    fleet.kube.put(young("s3://audit/new"))
    fleet.kube.put(pod("young", X))
    assert await fleet.apply("young") == ""
    assert "pods of BrokerCluster young" in await fleet.apply("old"), "its pod has yet to be restarted"
    fleet.kube.put(pod("young", "s3://audit/new"))
    assert await fleet.apply("old") == ""
    assert fleet.lands("old")


@pytest.mark.parametrize("how", ["unreadable", "being deleted", "gone"])
async def test_the_place_of_a_cluster_whose_pods_run_is_taken(how: str) -> None:
    fleet = Fleet(old(), young())
    await fleet.apply("old")
    if how == "unreadable":
        fleet.kube.put(old() | {"spec": {**old()["spec"], "brokers": {"replicas": "many"}}})
    elif how == "being deleted":
        fleet.kube.take("BrokerCluster", "old")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    else:
        fleet.kube.remove("BrokerCluster", "old")
    assert "BrokerCluster old land" in await fleet.apply("young")
    assert not fleet.lands("young")
    for name in ("old-brokers", "old-controllers"):
        fleet.kube.remove("StatefulSet", name)
    fleet.kube.remove("BrokerCluster", "old") if how != "gone" else None
    assert await fleet.apply("young") == ""


async def test_the_results_of_an_unreadable_pipeline_are_not_taken_for_segments() -> None:
    body = pipeline("daily", clusterRef={"name": "bank"}, results={"uri": f"{X}/answers"}, executors="many")
    fleet = Fleet(body | {"metadata": {"name": "daily", "creationTimestamp": "2024-01-01T00:00:00Z"}}, young())
    assert "AuditPipeline daily is older and has its results in s3://audit/x/answers" in await fleet.apply("young")


async def test_two_clusters_that_are_applied_at_one_time_do_not_land_in_one_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fleet = Fleet(old(ELSEWHERE), young())
    in_apply, goes_on = asyncio.Event(), asyncio.Event()
    kube_apply = fleet.kube.apply

    async def slow(manifest: Json, *more: Any) -> Json:
        if manifest["metadata"]["name"].startswith("young"):
            in_apply.set()
            await goes_on.wait()
        return await kube_apply(manifest, *more)

    monkeypatch.setattr(fleet.kube, "apply", slow)
    youngs = asyncio.create_task(fleet.apply("young"))
    await in_apply.wait()
    fleet.kube.put(old())
    assert "pods of BrokerCluster young" in await fleet.apply("old")
    goes_on.set()
    assert await youngs == ""


@pytest.mark.parametrize(("status", "retriable"), [(404, False), (403, False), (403, True)])
async def test_a_cluster_lands_without_the_kind_of_audit_pipelines(
    monkeypatch: pytest.MonkeyPatch, status: int, retriable: bool
) -> None:
    of_kind = MemoryCache.of_kind

    async def without_pipelines(cache: MemoryCache, kind: Kind) -> Any:
        if kind == AUDIT_PIPELINE:
            raise KubeError(f"GET auditpipelines: {status}", status, retriable=retriable)
        return await of_kind(cache, kind)

    monkeypatch.setattr(MemoryCache, "of_kind", without_pipelines)
    fleet = Fleet(old())
    if retriable:
        with pytest.raises(KubeError, match="403"):
            await fleet.apply("old")
    else:
        assert await fleet.apply("old") == ""
        assert fleet.lands("old")
