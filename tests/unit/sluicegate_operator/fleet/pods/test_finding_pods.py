"""The pods of a cluster, even those that lack the labels by which they are found."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.kafka.controllers import ControllerView
from sluicegate_operator.fleet.kubernetes.kubernetes import Sighting
from sluicegate_operator.fleet.pods.finding_pods import all_pods, listed_pods
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.registrations import RegistrationReconciler
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.resources.labels import CLUSTER_LABEL, REVISION, ROLE_LABEL, labels, selector
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube

BROKERS = 2
CLUSTER = BrokerCluster.model_validate(
    {"metadata": {"name": "shop"}, "spec": {"brokers": {"replicas": BROKERS, "storage": {"size": "1Gi"}}}}
)
SET_UID = "of-the-statefulset"
NAME_LABEL = "app.kubernetes.io/name"


def pod(name: str, role: str, ordinal: int) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "uid": f"uid-of-{name}",
            "labels": selector("shop", role),
            "annotations": {REVISION: "{}"},
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": f"shop-{role}s",
                    "uid": SET_UID,
                    "controller": True,
                }
            ],
        },
        "status": {"phase": "Running", "podIP": f"10.0.0.{ordinal}"},
    }


def stripped(found: Json, *labels: str, **metadata: Any) -> Json:
    left = {key: value for key, value in found["metadata"]["labels"].items() if key not in labels}
    return found | {"metadata": found["metadata"] | {"labels": left} | metadata}


CONTROLLER = pod("shop-controllers-0", "controller", 9)
FIRST, SECOND = pod("shop-brokers-0", "broker", 0), pod("shop-brokers-1", "broker", 1)


def overview(brokers: int = BROKERS) -> ClusterOverview:
    known = [BrokerOverview(i, 7, "i", BrokerState.ONLINE, host=f"10.0.0.{i}") for i in range(brokers)]
    return ClusterOverview("c", 1000, 1, 9, tuple(known))


async def fenced(*pods: Json, brokers: int = BROKERS) -> list[int]:
    view = overview(brokers)
    found = await all_pods(MemoryKube(*pods), CLUSTER, view)  # type: ignore[arg-type]
    return [order.broker_id for order in Sighting(ControllerView(view), tuple(found)).fence_orders()]


@pytest.mark.parametrize("label", [CLUSTER_LABEL, ROLE_LABEL, NAME_LABEL])
@pytest.mark.parametrize("released", [False, True])
async def test_a_pod_that_lost_a_label_is_there_and_its_broker_is_not_fenced(label: str, released: bool) -> None:
    second = stripped(SECOND, label, **({"ownerReferences": []} if released else {}))
    kube = MemoryKube(CONTROLLER, FIRST, second)
    found = await all_pods(kube, CLUSTER, overview())  # type: ignore[arg-type]
    assert {node.name: set(node.lost_labels) for node in found} == {
        "shop-controllers-0": set(),
        "shop-brokers-0": set(),
        "shop-brokers-1": {label},
    }
    assert await fenced(CONTROLLER, FIRST, second) == []


async def test_a_pod_without_label_and_annotation_is_found_by_its_statefulset() -> None:
    assert await fenced(CONTROLLER, FIRST, stripped(SECOND, CLUSTER_LABEL, annotations={})) == []


async def test_a_broker_is_fenced_if_its_pod_is_gone_or_its_name_belongs_to_a_stranger() -> None:
    assert await fenced(CONTROLLER, FIRST) == [1]
    stranger = stripped(SECOND, *SECOND["metadata"]["labels"], annotations={}, ownerReferences=[])
    assert await fenced(CONTROLLER, FIRST, stranger) == [1]
    controlled = stripped(
        SECOND,
        CLUSTER_LABEL,
        ownerReferences=[{"apiVersion": "batch/v1", "kind": "Job", "name": "load", "controller": True}],
    )
    assert await fenced(CONTROLLER, FIRST, controlled) == [1]
    evicted = stripped(SECOND, CLUSTER_LABEL) | {"status": {"phase": "Failed"}}
    assert await fenced(CONTROLLER, FIRST, evicted) == [1]


async def test_a_broker_beyond_the_specs_number_is_asked_for_by_name_too() -> None:
    third = stripped(pod("shop-brokers-2", "broker", 2), CLUSTER_LABEL)
    assert await fenced(CONTROLLER, FIRST, SECOND, third, brokers=3) == []
    assert await fenced(CONTROLLER, FIRST, SECOND, brokers=3) == [2]


async def test_a_strangers_pod_with_the_clusters_label_is_no_node() -> None:
    job = pod("load-1", "broker", 1)
    assert await listed_pods(MemoryKube(FIRST, job), CLUSTER) != []  # type: ignore[arg-type]
    assert [node.name for node in await listed_pods(MemoryKube(FIRST, job), CLUSTER)] == [  # type: ignore[arg-type]
        "shop-brokers-0"
    ]


async def test_lost_labels_are_put_back_with_an_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async def view(_: object) -> ControllerView:
        return ControllerView(overview())

    monkeypatch.setattr("sluicegate_operator.fleet.kubernetes.kubernetes.controller_view", view)
    document = CLUSTER.model_dump(mode="json", by_alias=True, exclude={"status"}, exclude_none=True)
    kube = MemoryKube(document, CONTROLLER, FIRST, stripped(SECOND, CLUSTER_LABEL, ROLE_LABEL))
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda *_: None
    reconciler = RegistrationReconciler(context)
    for _ in range(2):
        await reconciler.reconcile(("default", "shop"))
    assert kube.take("Pod", "shop-brokers-1")["metadata"]["labels"] == selector("shop", "broker")
    [event] = kube.events("LabelsMended")
    assert (event["type"], event["count"], event["involvedObject"]["name"]) == ("Warning", 1, "shop")
    assert "pod shop-brokers-1 is running and had lost labels" in event["message"]
    assert kube.events("BrokerGone") == []
    await context.aclose()


def foreign_set(**labels: str) -> Json:
    meta = {"name": "shop-brokers", "uid": SET_UID, "labels": labels}
    return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta}


async def test_a_pod_of_a_strangers_statefulset_is_no_node() -> None:
    strange = stripped(SECOND, *SECOND["metadata"]["labels"], annotations={})
    assert await fenced(CONTROLLER, FIRST, strange, foreign_set()) == [1]
    other = stripped(SECOND, annotations={}, labels=selector("other", "broker"))
    assert await fenced(CONTROLLER, FIRST, other, foreign_set(**labels("other", "broker"))) == [1]
    assert await fenced(CONTROLLER, FIRST, strange, foreign_set(**labels("shop", "broker"))) == []
    # Its annotation proves that a template of ours made it, before the StatefulSet was replaced.
    kept = stripped(SECOND, *SECOND["metadata"]["labels"])
    assert await fenced(CONTROLLER, FIRST, kept, foreign_set()) == []


async def test_a_pod_of_a_statefulset_of_another_api_group_is_no_node() -> None:
    """OpenKruise has StatefulSets, too. Without one of the API group apps, the name of the controller decides."""
    owner = SECOND["metadata"]["ownerReferences"][0] | {"apiVersion": "apps.kruise.io/v1beta1"}
    assert await fenced(CONTROLLER, FIRST, stripped(SECOND, annotations={}, ownerReferences=[owner])) == [1]
    assert await fenced(CONTROLLER, FIRST, stripped(SECOND, annotations={})) == []


async def test_a_labelled_pod_that_our_statefulset_did_not_make_is_not_listed() -> None:
    ours = foreign_set(**labels("shop", "broker"))
    bare = stripped(FIRST, annotations={}, ownerReferences=[])
    owner = SECOND["metadata"]["ownerReferences"][0] | {"uid": "of-a-stranger"}
    strange = stripped(SECOND, annotations={}, ownerReferences=[owner])
    made = stripped(pod("shop-brokers-2", "broker", 2), annotations={})
    kube = MemoryKube(bare, strange, made, ours)
    for fresh in (False, True):
        listed = await listed_pods(kube, CLUSTER, fresh=fresh)  # type: ignore[arg-type]
        assert [node.name for node in listed] == ["shop-brokers-2"]
    found = await all_pods(kube, CLUSTER, overview(3))  # type: ignore[arg-type]
    assert [node.name for node in found] == ["shop-brokers-2"]
    kube = MemoryKube(made, foreign_set(app="theirs"))
    assert await listed_pods(kube, CLUSTER) == []  # type: ignore[arg-type]


async def test_labels_of_a_strangers_pod_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def view(_: object) -> ControllerView:
        return ControllerView(None)

    monkeypatch.setattr("sluicegate_operator.fleet.kubernetes.kubernetes.controller_view", view)
    document = CLUSTER.model_dump(mode="json", by_alias=True, exclude={"status"}, exclude_none=True)
    strange = stripped(FIRST, annotations={}, labels={"app": "theirs"})
    kube = MemoryKube(document, strange, foreign_set(app="theirs"))
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda *_: None
    await RegistrationReconciler(context).reconcile(("default", "shop"))
    assert kube.take("Pod", "shop-brokers-0")["metadata"]["labels"] == {"app": "theirs"}
    assert kube.events("LabelsMended") == []
    await context.aclose()


async def test_registrations_that_a_person_made_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    async def view(_: object) -> ControllerView:
        return ControllerView(overview())

    monkeypatch.setattr("sluicegate_operator.fleet.kubernetes.kubernetes.controller_view", view)
    document = CLUSTER.model_dump(mode="json", by_alias=True, exclude={"status"}, exclude_none=True)
    kube = MemoryKube(document, CONTROLLER, FIRST, SECOND, registration(1, {}), registration(7, {}), registration(8))
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda *_: None
    await RegistrationReconciler(context).reconcile(("default", "shop"))
    # Our registration of a broker that is no longer registered is deleted.
    assert kube.names("BrokerRegistration") == ["shop-0", "shop-1", "shop-7"]
    assert "status" not in kube.take("BrokerRegistration", "shop-1")
    [event] = kube.events("NameTaken")
    assert "BrokerRegistration shop-1" in event["message"]
    await context.aclose()


async def test_a_controller_that_was_not_the_active_one_makes_the_clusters_status_due(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = overview()

    async def view(_: object) -> ControllerView:
        return ControllerView(seen)

    monkeypatch.setattr("sluicegate_operator.fleet.kubernetes.kubernetes.controller_view", view)
    document = CLUSTER.model_dump(mode="json", by_alias=True, exclude={"status"}, exclude_none=True)
    context = Context(MemoryKube(document, CONTROLLER, FIRST, SECOND), read_settings({}, None, None, None))  # type: ignore[arg-type]
    marked: list[str] = []
    context.mark = lambda queue, _: marked.append(queue)
    reconciler = RegistrationReconciler(context)
    for controller_id in (1001, 1001, 1002):
        seen = replace(seen, controller_id=controller_id)
        await reconciler.reconcile(("default", "shop"))
        assert context.progress["default", "shop"].controller_id == controller_id
    assert marked.count("clusters") == 2
    await context.aclose()


def registration(broker_id: int, managed_by: Json | None = None) -> Json:
    marks = labels("shop") if managed_by is None else {CLUSTER_LABEL: "shop"} | managed_by
    return {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "BrokerRegistration",
        "metadata": {"name": f"shop-{broker_id}", "labels": marks},
        "spec": {"clusterRef": {"name": "shop"}, "brokerId": broker_id},
    }
