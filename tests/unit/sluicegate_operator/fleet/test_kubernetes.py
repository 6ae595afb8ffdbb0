"""Which pods are nodes, and where they answer."""

from typing import Any

import pytest

from sluicegate_operator.fleet.base import BrokerAddress
from sluicegate_operator.fleet.kubernetes import node_pod
from sluicegate_operator.planning.cluster_layout import Role
from sluicegate_operator.resources.labels import ROLE_LABEL


def pod(name: str = "shop-brokers-2", role: str | None = "broker", **status: Any) -> dict[str, Any]:
    labels = {ROLE_LABEL: role} if role else {}
    return {"metadata": {"name": name, "labels": labels}, "status": status}


def test_a_ready_broker_answers_at_its_pods_address() -> None:
    node = node_pod(pod(podIP="10.1.2.3", conditions=[{"type": "Ready", "status": "True"}]))
    assert node is not None
    assert (node.role, node.ordinal, node.ready) == (Role.BROKER, 2, True)
    assert node.address == BrokerAddress(2, "10.1.2.3", 9091, "10.1.2.3", 9404)


def test_a_broker_without_an_address_and_a_controller_cannot_be_asked() -> None:
    waiting = node_pod(pod())
    controller = node_pod(pod("shop-controllers-0", "controller", podIP="10.1.2.4"))
    assert waiting is not None
    assert waiting.address is None
    assert controller is not None
    assert controller.address is None


@pytest.mark.parametrize("stranger", [pod(role=None), pod(role="web"), pod(name="shop-brokers")])
def test_other_pods_are_no_nodes(stranger: dict[str, Any]) -> None:
    assert node_pod(stranger) is None


def test_a_pod_that_is_going_is_no_node_any_more() -> None:
    going = pod(podIP="10.1.2.3")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert node_pod(going) is None
