"""The installation of README: the chart, the quickstart, and the reports of `kubectl wait` and the nodes."""

import pytest

from e2e.cluster.waiting import wait_for
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.shop import NodeShop
from e2e.world.shop import BROKERS, CLUSTER, Json
from sluicegate_operator.resources.nodes.statefulset import USER_ID
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload

WAITED_FOR = (
    "brokercluster/shop",
    "brokerlistener/shop-external",
    "connectionquota/shop-external-rate",
    "topic/orders",
)

NODE_MAX_MIB, OPERATOR_MAX_MIB = 64.0, 128.0
"""Twice the observed values."""


@pytest.mark.parametrize("resource", WAITED_FOR)
def test_kubectl_wait_ends_for_every_resource_of_the_quickstart(shop: NodeShop, resource: str) -> None:
    assert "condition met" in shop.plane.kubectl("wait", "--for=condition=Ready", resource, "--timeout=60s")


def test_every_pod_is_restricted_and_none_was_ever_restarted(shop: NodeShop) -> None:
    nodes = shop.node_pods()
    assert len(nodes) == BROKERS + 1
    for pod in [*nodes, *shop.operator_pods()]:
        assert {status["restartCount"] for status in pod["status"]["containerStatuses"]} == {0}, pod["metadata"]["name"]
        for container in pod["spec"]["containers"]:
            effective: Json = pod["spec"].get("securityContext", {}) | container["securityContext"]
            assert effective["readOnlyRootFilesystem"] is True
            assert (effective["runAsUser"], effective["runAsNonRoot"]) == (USER_ID, True)
            assert container["resources"]["requests"]
            assert container["resources"]["limits"]


def test_working_sets_are_those_of_a_small_broker_and_a_small_operator(shop: NodeShop, figures: Figures) -> None:
    """Working sets as counted by the kubelet, which evicts pods by them."""

    def look() -> dict[str, float]:
        found = {pod: size for pod, size in shop.working_sets_mib().items() if pod.startswith(("shop-", "sluicegate-"))}
        assert len(found) == BROKERS + 2, f"the kubelets have counted {found}"
        return found

    for pod, size in sorted(wait_for("the kubelets have counted every pod", look).items()):
        figures.note(f"working set of {'the operator' if pod.startswith('sluicegate-') else pod}, MiB", size)
        assert size < (OPERATOR_MAX_MIB if pod.startswith("sluicegate-") else NODE_MAX_MIB), pod


def test_an_ordinary_client_is_served_while_nothing_happens(shop: NodeShop, load: AcknowledgedWorkload) -> None:
    before = shop.running()
    assert load.count
    assert {pod.id for pod in shop.broker_pods()} == {0, 1, 2}
    assert shop.states() == {0: "Online", 1: "Online", 2: "Online"}
    assert shop.running() == before
    assert f"{CLUSTER}-external" in shop.plane.kubectl("get", "services", "-o", "name")
