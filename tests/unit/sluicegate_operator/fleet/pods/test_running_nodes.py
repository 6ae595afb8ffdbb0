"""The revisions that nodes run now, for `sluicegate plan`."""

import pytest

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.pods.running_nodes import running_nodes
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.resources.labels import labels
from tests.support.fakes.kube.memory_kube import Json, MemoryKube

CLUSTER = BrokerCluster.model_validate(
    {"metadata": {"name": "shop"}, "spec": {"brokers": {"replicas": 2, "storage": {"size": "1Gi"}}}}
)


def node_set(role: Role, marks: Json) -> Json:
    spec = {"replicas": 2, "template": {"metadata": {"annotations": {"sluicegate.dev/revision": "x"}}}}
    return {"kind": "StatefulSet", "metadata": {"name": f"shop-{role}s", "labels": marks}, "spec": spec}


@pytest.mark.parametrize("strange", [{}, {"app": "theirs"}, labels("another", "broker")])
async def test_a_strangers_statefulset_is_compared_with_nothing(strange: Json) -> None:
    controllers = node_set(Role.CONTROLLER, labels("shop", "controller"))
    kube = MemoryKube(controllers, node_set(Role.BROKER, strange))
    assert await running_nodes(kube, CLUSTER) is None  # type: ignore[arg-type]
    kube = MemoryKube(controllers, node_set(Role.BROKER, labels("shop", "broker")))
    found = await running_nodes(kube, CLUSTER)  # type: ignore[arg-type]
    assert found is not None
    assert found.wanted[Role.BROKER] == "x"
