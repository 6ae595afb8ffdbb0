"""Nodes that do not start: the Events of their StatefulSet, and how often they are read."""

import asyncio
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.fleet.pods.failing import FIRST_PAUSE_S, LONGEST_PAUSE_S, SetEvents, failing_nodes
from sluicegate_operator.fleet.pods.pods import NodePod
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import EVENT, Kind
from sluicegate_operator.planning.layout.children import wanted_revision
from sluicegate_operator.planning.layout.cluster_layout import Role, plan_cluster
from sluicegate_operator.planning.rolls.start_failures import StartFailure
from sluicegate_operator.resources.labels import CLUSTER_LABEL, MANAGED_BY_LABEL, MANAGER, REVISION
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import cluster

pytestmark = pytest.mark.virtual_time


class CountingKube(MemoryKube):
    """Notes when Events were read."""

    def __init__(self, controllers_uid: str = "of-the-controllers") -> None:
        labels = {MANAGED_BY_LABEL: MANAGER, CLUSTER_LABEL: "shop"}
        controllers = {"name": "shop-controllers", "uid": controllers_uid, "labels": labels}
        brokers = {"name": "shop-brokers", "labels": labels}
        super().__init__(*({"kind": "StatefulSet", "metadata": meta} for meta in (controllers, brokers)))
        self.asked_s: list[float] = []
        self.set_events = SetEvents()

    async def list(self, kind: Kind, *which: Any, **options: Any) -> list[Json]:
        if kind is EVENT:
            self.asked_s.append(asyncio.get_running_loop().time())
        return await super().list(kind, *which, **options)

    def refuse(self, pod: str, why: str, uid: str = "") -> None:
        said = f"create Pod {pod} in StatefulSet shop-controllers failed error: {why}"
        self.put(
            {
                "kind": EVENT.kind,
                "metadata": {"name": "one"},
                "involvedObject": {
                    "apiVersion": "apps/v1",
                    "kind": "StatefulSet",
                    "name": "shop-controllers",
                    "uid": uid,
                },
                "reason": "FailedCreate",
                "message": said,
            }
        )


def shop(generation: int = 1, uid: str = "of-the-shop", **spec: Any) -> BrokerCluster:
    body = cluster(**spec)
    body["metadata"] = {**body["metadata"], "name": "shop", "uid": uid, "generation": generation}
    found = parse_resource(body)
    assert isinstance(found, BrokerCluster)
    return found


BROKERS = [NodePod(f"shop-brokers-{number}", Role.BROKER, number, "", ready=False) for number in range(100)]


def current(of: BrokerCluster, role: Role, failure: StartFailure) -> NodePod:
    """A pod that has the wanted revision."""
    revision = wanted_revision(of, plan_cluster(of, []), role).encode()
    name = f"shop-{role}s-0"
    return NodePod(name, role, 0, "", False, uid=name, failure=failure, annotations={REVISION: revision})


async def look(kube: CountingKube, of: BrokerCluster, pods: list[NodePod] | None = None) -> list[str]:
    layout = plan_cluster(of, [])
    there = BROKERS if pods is None else pods
    seen = await failing_nodes(kube, kube.set_events, of, layout, there)  # type: ignore[arg-type]
    return [node.sentence for node in seen.failing]


async def test_a_cluster_that_cannot_start_asks_for_events_less_and_less_often() -> None:
    kube, began_s = CountingKube(), asyncio.get_running_loop().time()
    assert await look(kube, shop()) == []
    kube.refuse("shop-controllers-0", "no room")
    for _ in range(600):
        await asyncio.sleep(1)
        found = await look(kube, shop())
    assert found == ["shop-controllers-0 does not start: FailedCreate: no room"]
    after_s = [asked_s - began_s for asked_s in kube.asked_s]
    assert after_s[:4] == pytest.approx([0, FIRST_PAUSE_S, 3 * FIRST_PAUSE_S, 7 * FIRST_PAUSE_S])
    assert after_s[-1] - after_s[-2] == pytest.approx(LONGEST_PAUSE_S)
    assert len(after_s) < 20


async def test_a_later_failure_is_reported_soon_and_stays_until_the_next_read() -> None:
    kube = CountingKube()
    await look(kube, shop())
    kube.refuse("shop-controllers-0", "no room")
    assert await look(kube, shop()) == []
    await asyncio.sleep(FIRST_PAUSE_S)
    for _ in range(2):
        assert await look(kube, shop()) == ["shop-controllers-0 does not start: FailedCreate: no room"]
    assert len(kube.asked_s) == 2


async def test_events_that_cannot_be_read_for_now_leave_what_was_found_before(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = CountingKube()
    kube.refuse("shop-controllers-0", "no room")
    found = await look(kube, shop())
    assert len(found) == 1

    async def refused(*_: object, **__: object) -> list[Json]:
        raise KubeError("500 for now", 500, retriable=True)

    monkeypatch.setattr(kube, "list", refused)
    await asyncio.sleep(FIRST_PAUSE_S)
    assert await look(kube, shop()) == found


@pytest.mark.parametrize("other", [{"generation": 2}, {"uid": "of-the-next"}])
async def test_another_attempt_is_asked_about_at_once(other: dict[str, Any]) -> None:
    kube = CountingKube()
    await look(kube, shop())
    await look(kube, shop(**other))
    assert len(kube.asked_s) == 2


async def test_events_are_read_at_once_for_other_nodes_without_a_pod_and_never_if_all_have_one() -> None:
    kube, controller = CountingKube(), NodePod("shop-controllers-0", Role.CONTROLLER, 0, "", ready=False)
    await look(kube, shop(), [controller, *BROKERS])
    assert kube.asked_s == []
    await look(kube, shop())
    await look(kube, shop(), [controller, *BROKERS])
    await look(kube, shop())
    assert len(kube.asked_s) == 2
    await look(kube, shop(), [])
    assert len(kube.asked_s) == 3


async def test_a_pod_of_somebody_else_with_the_name_of_a_node_is_named() -> None:
    kube = CountingKube()
    kube.put({"kind": "Pod", "metadata": {"name": "shop-controllers-0"}})
    assert await look(kube, shop()) == [
        "shop-controllers-0 does not start: NameTaken: a Pod shop-controllers-0 that does not belong to the"
        " operator exists (no StatefulSet of the cluster created it), and the operator does not change it:"
        " delete the Pod, or create the BrokerCluster with another name"
    ]


async def test_a_pod_of_somebody_else_that_is_being_deleted_is_to_be_waited_for() -> None:
    kube = CountingKube()
    going = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    kube.put({"kind": "Pod", "metadata": {"name": "shop-controllers-0", **going}})
    assert await look(kube, shop()) == [
        "shop-controllers-0 does not start: NameTaken: a Pod shop-controllers-0 that does not belong to the"
        " operator exists (no StatefulSet of the cluster created it); it is being deleted: wait until it is gone, or"
        " create the BrokerCluster with another name"
    ]


async def test_a_terminating_pod_of_the_operator_is_not_reported_as_foreign() -> None:
    kube = CountingKube()
    mine = {"annotations": {REVISION: "x"}, "deletionTimestamp": "2026-01-01T00:00:00Z"}
    kube.put({"kind": "Pod", "metadata": {"name": "shop-controllers-0", **mine}})
    assert await look(kube, shop()) == []


async def test_a_stateful_set_that_another_clients_finalizer_keeps_is_named() -> None:
    kube = CountingKube()
    meta = kube.take("StatefulSet", "shop-controllers")["metadata"]
    meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.org/wait"]}
    assert await look(kube, shop()) == [
        "shop-controllers-0 does not start: BeingDeleted: StatefulSet shop-controllers is being deleted, and stays"
        " until its finalizers are removed: example.org/wait; the operator creates it again when it is gone"
    ]


async def test_events_of_an_earlier_statefulset_of_the_name_are_ignored() -> None:
    kube = CountingKube("now")
    kube.refuse("shop-controllers-0", "no room", "before")
    assert await look(kube, shop()) == []
    kube.refuse("shop-controllers-0", "no room", "now")
    assert await look(kube, shop(generation=2)) == ["shop-controllers-0 does not start: FailedCreate: no room"]


@pytest.mark.parametrize("theirs", [False, True], ids=["none", "of somebody else"])
async def test_no_event_is_read_without_an_own_statefulset(theirs: bool) -> None:
    kube = CountingKube()
    kube.remove("StatefulSet", "shop-controllers")
    if theirs:
        kube.put({"kind": "StatefulSet", "metadata": {"name": "shop-controllers", "uid": "theirs"}})
    for uid in ("before", "theirs"):
        kube.refuse("shop-controllers-0", "no room", uid)
        assert await look(kube, shop(uid=uid)) == []
    assert kube.asked_s == []


async def test_events_of_an_earlier_claim_of_the_name_are_ignored() -> None:
    kube, of = CountingKube(), shop()
    name, labels = "data-shop-controllers-0", {CLUSTER_LABEL: "shop"}
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": name, "labels": labels, "uid": "now"}}
    kube.put(claim | {"spec": {"storageClassName": "fast"}, "status": {"phase": "Pending"}})
    kube.put(
        {
            "kind": EVENT.kind,
            "metadata": {"name": "of-the-claim"},
            "involvedObject": {"kind": "PersistentVolumeClaim", "name": name, "uid": "before"},
            "reason": "ProvisioningFailed",
            "message": 'storageclass.storage.k8s.io "nope" not found',
        }
    )
    waits = current(of, Role.CONTROLLER, StartFailure("Unschedulable", "pod has unbound PersistentVolumeClaims"))
    [found] = await look(kube, of, [waits, *BROKERS])
    assert found.endswith("Unschedulable: pod has unbound PersistentVolumeClaims")


@pytest.mark.parametrize(("phase", "said"), [("Pending", "StorageClassMissing"), ("Bound", "Unschedulable: 0/1 nodes")])
async def test_a_pod_that_waits_for_a_volume_has_its_claims_reason(phase: str, said: str) -> None:
    kube, of = CountingKube(), shop()
    name = "data-shop-controllers-0"
    kube.put(
        {
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "labels": {CLUSTER_LABEL: "shop"}},
            "spec": {"storageClassName": "nope"},
            "status": {"phase": phase},
        }
    )
    kube.put(
        {
            "kind": EVENT.kind,
            "metadata": {"name": "of-the-claim"},
            "involvedObject": {"kind": "PersistentVolumeClaim", "name": name},
            "reason": "ProvisioningFailed",
            "message": 'storageclass.storage.k8s.io "nope" not found',
        }
    )
    message = "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims"
    waits = current(of, Role.CONTROLLER, StartFailure("Unschedulable", message))
    [found] = await look(kube, of, [waits, *BROKERS])
    assert found.startswith(f"shop-controllers-0 does not start: {said}")
    await look(kube, of, [waits, *BROKERS])
    assert len(kube.asked_s) == (1 if phase == "Pending" else 0), "less and less often"
    full = current(of, Role.CONTROLLER, StartFailure("Unschedulable", "0/1 nodes are available: Insufficient cpu"))
    [found] = await look(kube, of, [full, *BROKERS])
    assert found.endswith("Unschedulable: 0/1 nodes are available: Insufficient cpu")


@pytest.mark.parametrize(
    ("spec", "todo"),
    [
        ({}, "raise spec.controllers.resources.limits.memory, which is 512Mi"),
        (
            {"controllers": {"resources": {"limits": {"memory": "12Mi"}}}},
            "raise spec.controllers.resources.limits.memory, which is 12Mi",
        ),
    ],
)
async def test_a_limit_on_memory_that_is_too_low_is_named(spec: dict[str, Any], todo: str) -> None:
    of = shop(**spec)
    killed = current(of, Role.CONTROLLER, StartFailure("OOMKilled", "container controller was killed", "controller"))
    [found] = await look(CountingKube(), of, [killed, *BROKERS])
    assert found.endswith(f"OOMKilled: container controller was killed; {todo}")


async def test_the_limit_of_a_lander_is_that_of_the_landing() -> None:
    of = shop(audit={"landing": {"claimName": "audit"}})
    killed = current(of, Role.BROKER, StartFailure("OOMKilled", "container lander was killed", "lander"))
    controller = NodePod("shop-controllers-0", Role.CONTROLLER, 0, "", ready=True)
    [found] = await look(CountingKube(), of, [controller, killed, *BROKERS[1:]])
    assert found.endswith("raise spec.audit.landing.resources.limits.memory, which is 2Gi")
