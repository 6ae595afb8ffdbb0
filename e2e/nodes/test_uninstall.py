"""Uninstalls and deletions: the operator without its clusters, clusters with and without their volumes."""

from e2e.cluster.waiting import wait_for
from e2e.clusters.test_cluster_life import MINI, a_cluster
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.own_namespace import own_namespace
from e2e.nodes.site.shop import NodeShop, install_operator
from e2e.world.operator_process import OPERATOR_NAMESPACE
from e2e.world.shop import READY_TIMEOUT_S, Json
from tests.support.obtain.helm import RELEASE, helm
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload

FINALIZER = "sluicegate.dev/topic"
WITH_FINALIZER: Json = {
    "apiVersion": "sluicegate.dev/v1alpha1",
    "kind": "Topic",
    "metadata": {"name": "short-lived"},
    "spec": {"clusterRef": {"name": "shop"}, "partitions": 1, "replicas": 1, "deletionPolicy": "Delete"},
}


def test_clusters_run_on_without_their_operator_and_no_topic_waits_for_it(
    shop: NodeShop, load: AcknowledgedWorkload, figures: Figures
) -> None:
    shop.apply(WITH_FINALIZER)
    shop.await_condition("topic", "short-lived", "Ready", "True")
    assert finalizers(shop) == [FINALIZER]
    before = shop.running()
    helm("uninstall", RELEASE, "-n", OPERATOR_NAMESPACE, "--wait", "--timeout=5m")
    try:
        assert finalizers(shop) == []
        assert "brokerclusters.sluicegate.dev" in shop.plane.kubectl("get", "crds", "-o", "name")
        wait_for("nothing of the operator is left", lambda: left_of_the_operator(shop) == [], timeout_s=READY_TIMEOUT_S)
        assert "sluicegate-release-topics" not in shop.plane.kubectl("get", "clusterroles,clusterrolebindings")
        count = load.count
        wait_for("records are taken without an operator", lambda: load.count > count + 100)
    finally:
        install_operator()
    wait_for("the finalizer is back", lambda: finalizers(shop) == [FINALIZER], timeout_s=READY_TIMEOUT_S)
    shop.delete("topic", "short-lived", "--timeout=60s")
    shop.await_settled()
    assert shop.running() == before


def left_of_the_operator(shop: NodeShop) -> list[str]:
    kinds = "deployments,serviceaccounts,roles,rolebindings,jobs,pods"
    named = shop.plane.kubectl("get", kinds, "-n", OPERATOR_NAMESPACE, "-o", "name").split()
    return [one for one in named if "sluicegate" in one]


def finalizers(shop: NodeShop) -> list[str]:
    found: list[str] = shop.plane.get("topic", "short-lived")["metadata"].get("finalizers", [])
    return found


def test_claims_are_kept_or_deleted_as_the_cluster_says_and_are_adopted_under_the_same_name(
    shop: NodeShop, kube: Kube
) -> None:
    with own_namespace(kube, "again") as again:

        def claims() -> list[str]:
            return sorted(one["metadata"]["name"] for one in again.items("pvc"))

        def delete_cluster() -> None:
            again.kubectl("delete", "brokercluster", MINI)
            wait_for("its pods are gone", lambda: not again.items("pods"), timeout_s=READY_TIMEOUT_S, interval_s=0.3)

        again.apply(a_cluster())
        again.await_ready("bc")
        [cluster] = again.items("bc")
        kept, cluster_id = claims(), cluster["status"]["clusterId"]
        assert len(kept) == 2
        delete_cluster()
        assert claims() == kept

        again.apply(a_cluster())
        wait_for(
            "it says whose data the claims hold",
            lambda: again.condition("brokercluster", MINI, "Stalled").get("reason") == "ClaimsTaken",
            timeout_s=READY_TIMEOUT_S,
        )
        again.apply(a_cluster(clusterId=cluster_id, storage={"deleteClaims": True}))
        again.await_ready("bc")
        assert claims() == kept
        delete_cluster()
        wait_for("the claims are gone", lambda: not claims(), timeout_s=READY_TIMEOUT_S, interval_s=0.3)
