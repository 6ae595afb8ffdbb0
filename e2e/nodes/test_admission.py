"""Warnings at `kubectl apply` on nodes: by the Service, with two operators, with none, and without the webhook."""

import json
import time
from collections.abc import Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.kube import Kube
from e2e.nodes.site.shop import OPERATOR_PODS, NodeShop, install_operator
from e2e.world.operator_process import OPERATOR_NAMESPACE
from e2e.world.shop import quota_document

NAME = "sluicegate-operator-admission"
DEPLOYMENT = "deployment/sluicegate-operator"
MISSING = "no BrokerListener of cluster shop has spec.name NOWHERE; create it or correct target.listener"
REACHED = "the API server reaches the webhook"
APPLIES = 20
ENDS_WITHIN_S = 10.0
"""The webhook's timeout of 2 s, and kubectl on a loaded machine."""


@pytest.fixture(scope="module")
def warned(standing_shop: NodeShop, kube: Kube) -> Iterator[Kube]:
    """Run two operators that warn."""
    install_operator("admission.enabled=true", "admission.checkSeconds=1", "replicas=2")
    wait_for("the leader reaches the webhook", lambda: REACHED in logs(kube))
    yield kube
    kube.kubectl("delete", "connectionquota", "nowhere", "--ignore-not-found")
    install_operator()


def logs(kube: Kube) -> str:
    return kube.kubectl("logs", "-n", OPERATOR_NAMESPACE, "-l", OPERATOR_PODS, "--tail=-1")


def warnings(kube: Kube, limit: int) -> list[str]:
    """Apply a quota for a missing listener, with a new limit each time, and return the warnings."""
    document = quota_document("nowhere", {"listener": "NOWHERE"}, maxConnections=limit)
    return kube.kubectl_warnings("apply", "-f", "-", input=json.dumps(document))


def test_kubectl_shows_the_warnings_of_two_operators(warned: Kube, figures: Figures) -> None:
    wait_for("both operators have the certificate", lambda: logs(warned).count("the webhook listens on") == 2)
    began_s = time.monotonic()
    found = [warnings(warned, limit) for limit in range(1, APPLIES + 1)]
    figures.note("kubectl apply with a warning, s", (time.monotonic() - began_s) / APPLIES)
    assert found == [[MISSING]] * APPLIES


def test_nothing_waits_for_operators_that_are_gone(warned: Kube, figures: Figures) -> None:
    warned.kubectl("scale", "-n", OPERATOR_NAMESPACE, DEPLOYMENT, "--replicas=0")
    warned.kubectl("wait", "-n", OPERATOR_NAMESPACE, "--for=delete", "pod", "-l", OPERATOR_PODS, "--timeout=60s")
    try:
        began_s = time.monotonic()
        assert warnings(warned, APPLIES + 1) == []
        took_s = time.monotonic() - began_s
        figures.note("kubectl apply while no operator is there, s", took_s)
        assert took_s < ENDS_WITHIN_S
    finally:
        warned.kubectl("scale", "-n", OPERATOR_NAMESPACE, DEPLOYMENT, "--replicas=2")
    limits = iter(range(APPLIES + 2, 10_000))
    wait_for("an operator warns again", lambda: warnings(warned, next(limits)) == [MISSING])


def test_a_chart_without_admission_leaves_no_webhook(warned: Kube) -> None:
    install_operator("admission.enabled=false")
    assert NAME not in warned.kubectl("get", "validatingwebhookconfigurations,clusterroles", "-o", "name")
    assert NAME not in warned.kubectl("get", "services,secrets,roles", "-n", OPERATOR_NAMESPACE, "-o", "name")
    assert warnings(warned, 10_001) == []
