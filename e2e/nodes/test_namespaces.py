"""Clusters in typical company namespaces: restricted, with quotas, with volumes that wait for their pods."""

import time

import pytest

from e2e.cluster.control_plane import KubectlError
from e2e.cluster.waiting import wait_for
from e2e.clusters.test_cluster_life import MINI, a_cluster
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.own_namespace import own_namespace, small_cluster
from e2e.nodes.site.shop import NodeShop
from e2e.world.shop import READY_TIMEOUT_S, Json
from tests.support.manifests.bad_manifests import BAD

TENTH = 10
REFUSED = "is invalid|error validating data|strict decoding error"
QUOTA = "requests.cpu=4,requests.memory=8Gi,limits.memory=8Gi,pods=3"


def test_a_cluster_runs_in_a_restricted_namespace_with_a_quota_which_can_be_deleted(
    shop: NodeShop, kube: Kube, figures: Figures
) -> None:
    with own_namespace(kube, "retail") as retail:
        retail.kubectl("create", "quota", "all", f"--hard={QUOTA}")
        retail.apply(*small_cluster())
        retail.await_ready()
        used = kube.get("quota", "all", "-n", "retail")["status"]["used"]
        assert used["pods"] == "2"
        assert used["limits.memory"] != "0"
        claims = {one["metadata"]["name"]: one for one in retail.items("pvc")}
        assert {one["status"]["phase"] for one in claims.values()} == {"Bound"}
        began_s = time.monotonic()
        retail.delete()
        figures.note("a namespace with a running cluster is gone, s", time.monotonic() - began_s)


def test_volumes_are_made_where_the_pods_were_put(shop: NodeShop, kube: Kube) -> None:
    """The storage class of the quickstart binds a claim only after its pod has a node."""
    assert kube.get("storageclass", "standard")["volumeBindingMode"] == "WaitForFirstConsumer"
    nodes = {pod["metadata"]["name"]: pod["spec"]["nodeName"] for pod in shop.node_pods()}
    claims = kube.get("pvc", "-l", "sluicegate.dev/cluster=shop")["items"]
    for pod, node in nodes.items():
        # Claims of deleted brokers remain.
        [claim] = [claim for claim in claims if claim["metadata"]["name"].endswith(pod)]
        volume = kube.get("pv", claim["spec"]["volumeName"])
        [term] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert term["matchExpressions"][0]["values"] == [node]


def test_an_exhausted_quota_is_reported_and_pods_start_once_it_is_raised(shop: NodeShop, kube: Kube) -> None:
    with own_namespace(kube, "crowded") as crowded:
        crowded.kubectl("create", "quota", "small", "--hard=pods=1")
        crowded.apply(a_cluster())

        def refused() -> Json:
            said = crowded.condition("brokercluster", MINI, "Ready")
            assert "exceeded quota: small" in said.get("message", ""), str(said)
            return said

        assert wait_for("it is said", refused, timeout_s=READY_TIMEOUT_S, interval_s=0.3)["status"] == "False"
        assert "exceeded quota: small" in crowded.kubectl("get", "events")
        crowded.kubectl("patch", "quota", "small", "--type=merge", "-p", '{"spec":{"hard":{"pods":"2"}}}')
        crowded.await_ready("bc")


def test_bad_manifests_are_refused_and_change_nothing(shop: NodeShop) -> None:
    before = shop.running()
    for bad in BAD[::TENTH]:
        with pytest.raises(KubectlError, match=REFUSED):
            shop.apply(bad.manifest)
    assert shop.running() == before


def test_an_image_that_cannot_be_pulled_is_reported_and_replaced_by_another(shop: NodeShop, kube: Kube) -> None:
    with own_namespace(kube, "typing") as typing:
        typing.apply(a_cluster(image="registry.invalid/sluicegate:typo"))

        def said() -> bool:
            found = typing.condition("brokercluster", MINI, "Ready")
            assert found.get("reason") in ("ErrImagePull", "ImagePullBackOff"), str(found)
            assert "registry.invalid/sluicegate:typo" in found["message"]
            return True

        wait_for("it is said", said, timeout_s=READY_TIMEOUT_S, interval_s=0.3)
        typing.apply(a_cluster())
        typing.await_ready("bc")
