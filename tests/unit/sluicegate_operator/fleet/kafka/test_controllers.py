"""Controllers at the addresses of pods: an answer of another cluster's controller is not used."""

import json

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.fleet.kafka import controllers
from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, controller_view, newer_view
from sluicegate_operator.fleet.kafka.http_get import HttpAnswer
from sluicegate_operator.fleet.kubernetes.kubernetes import KubernetesFleet
from sluicegate_operator.planning.layout.cluster_layout import cluster_id
from sluicegate_operator.resources.labels import REVISION, selector
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import cluster

OWN, OTHER = "o" * 22, "a" * 22
OLD, TAKEN = "10.0.0.1", "10.0.0.2"


def overview(cluster_id: str, epoch: int) -> str:
    broker = {"id": 0, "epoch": 700, "incarnation": "0190a5a0-0000-7000-8000-000000000001", "state": "Online"}
    broker |= {"leaders": 1, "replicas": 1, "outOfSync": 0, "metadataLag": 0, "host": "10.9.0.0", "rack": None}
    numbers = {"controllerId": 1000, "controllerEpoch": epoch, "metadataOffset": 9}
    return json.dumps({"clusterId": cluster_id, **numbers, "brokers": [{**broker, "heartbeatAgeSeconds": 0.5}]})


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """By host; the controller of the other cluster has the higher epoch."""
    found = {OLD: overview(OWN, 1), TAKEN: overview(OTHER, 9)}

    async def http_get(place: tuple[str, int], path: str, *, timeout_s: float) -> HttpAnswer:
        return HttpAnswer(200, found[place[0]])

    monkeypatch.setattr(controllers, "http_get", http_get)
    return found


async def test_the_view_of_another_clusters_controller_does_not_hide_the_own_one() -> None:
    view = await controller_view([ControllerPlace(id_, host, cluster_id=OWN) for id_, host in ((0, OLD), (1, TAKEN))])
    assert view.overview is not None
    assert view.overview.cluster_id == OWN
    assert view.active is not None
    assert view.active.host == OLD


async def test_a_controller_that_now_belongs_to_another_cluster_is_unseen() -> None:
    place = ControllerPlace(1000, TAKEN, cluster_id=OWN)
    for view in (await controller_view([place]), await newer_view(place, "1", 0.0)):
        assert (view.overview, view.active) == (None, None)
        assert view.unseen == (
            f"the address {TAKEN} of controller 1000 belongs to a controller of the cluster with cluster.id {OTHER},"
            f" and not {OWN}: nothing of its answer is used"
        )


@pytest.mark.parametrize("own", [True, False])
async def test_nothing_is_fenced_at_a_controller_of_another_cluster(answers: dict[str, str], own: bool) -> None:
    shop = parse_resource(cluster() | {"metadata": {"name": "shop", "uid": "of-shop"}})
    assert isinstance(shop, BrokerCluster)
    answers[TAKEN] = overview(cluster_id(shop) if own else OTHER, 9)
    kube = MemoryKube(_pod("controller", TAKEN), _pod("broker", "10.0.0.10"))
    seen = await KubernetesFleet(kube).observe(shop)  # type: ignore[arg-type]
    # The broker of this view runs at another address than the pod of that name.
    assert [order.broker_id for order in seen.fence_orders()] == ([0] if own else [])
    assert (seen.view.overview is None) is not own


def _pod(role: str, host: str) -> Json:
    ready = [{"type": one, "status": "True"} for one in ("Ready", "ContainersReady")]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"shop-{role}s-0",
            "labels": dict(selector("shop", role)),
            "annotations": {REVISION: "{}"},
        },
        "spec": {"nodeName": "node"},
        "status": {"phase": "Running", "podIP": host, "conditions": ready},
    }
