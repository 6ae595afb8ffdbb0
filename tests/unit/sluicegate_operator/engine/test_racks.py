"""A broker's waits for its rack that are reported, and the time of the report."""

import asyncio
from typing import Any

import pytest

from sluicegate_operator.engine.lasting_refusals import TOLD_AFTER_S
from sluicegate_operator.engine.racks import PASSES_WITHIN_S, WAITING_EVERY_S, RackReconciler
from sluicegate_operator.engine.work_queue import REFUSED_RETRY
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.resources.labels import CLUSTER_LABEL, RACK, ROLE_LABEL
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import cluster

SHOP = ("default", "shop")
RACKED = cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}, "rack": {"topologyKey": "zone"}})


def unbound(why: str) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    labels = {CLUSTER_LABEL: "shop", ROLE_LABEL: "broker"}
    node_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "name": "shop-brokers",
        "uid": "of-the-brokers",
        "controller": True,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "shop-brokers-0", "uid": "u", "labels": labels, "ownerReferences": [node_set]},
        "status": {"conditions": [condition]},
    }


@pytest.mark.virtual_time
async def test_a_pod_whose_volume_is_not_bound_yet_is_a_warning_when_it_lasts() -> None:
    kube = MemoryKube(RACKED, unbound("pod has unbound immediate PersistentVolumeClaims"))
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconciler = RackReconciler(context)
    for why in ("0/3 nodes are available", "no node has room"):
        await reconciler.reconcile(SHOP)
        await asyncio.sleep(PASSES_WITHIN_S / 3)
        kube.put(unbound(why))
    assert kube.events("NotScheduled") == []
    await asyncio.sleep(PASSES_WITHIN_S / 3)
    await reconciler.reconcile(SHOP)
    [event] = kube.events("NotScheduled")
    assert "no node has room" in event["message"]
    await context.aclose()


def _on_nodes(error: KubeError) -> MemoryKube:
    """Two pods on nodes with the label; the annotations of one pod cannot be written."""

    class Refusing(MemoryKube):
        async def patch_metadata(self, kind: Any, namespace: str, name: str, *arguments: Any, **options: Any) -> None:
            if name == "shop-brokers-0":
                raise error
            await super().patch_metadata(kind, namespace, name, *arguments, **options)

    kube = Refusing(RACKED)
    for number in range(2):
        pod = unbound("")
        pod["metadata"] |= {"name": f"shop-brokers-{number}", "uid": f"u{number}"}
        kube.put(pod | {"spec": {"nodeName": "node"}, "status": {"podIP": f"b{number}"}})
    kube.put(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node", "namespace": None, "labels": {"zone": "a"}}}
    )
    return kube


@pytest.mark.virtual_time
async def test_a_rack_that_cannot_be_told_is_reported_and_keeps_no_other_broker_waiting() -> None:
    kube = _on_nodes(KubeError("403 a policy protects the pod", 403))
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconciler = RackReconciler(context)
    await reconciler.reconcile(SHOP)
    assert kube.take("Pod", "shop-brokers-1")["metadata"]["annotations"][RACK] == "a"
    assert await reconciler.reconcile(SHOP) == REFUSED_RETRY
    plan = context.progress[SHOP].racks
    assert plan is not None
    [wait] = plan.waiting
    assert (wait.reason, wait.needs_a_person, plan.assign) == ("RackRefused", True, ())
    assert "403 a policy protects the pod" in wait.message
    [event] = kube.events("RackRefused")
    assert event["type"] == "Warning"
    await context.aclose()


@pytest.mark.virtual_time
async def test_a_rack_that_may_be_told_later_is_reported_when_that_lasts() -> None:
    kube = _on_nodes(KubeError("failed calling webhook", 500, retriable=True))
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconciler = RackReconciler(context)
    with pytest.raises(KubeError, match="failed calling webhook"):
        await reconciler.reconcile(SHOP)
    assert kube.take("Pod", "shop-brokers-1")["metadata"]["annotations"][RACK] == "a"
    await asyncio.sleep(TOLD_AFTER_S)
    assert await reconciler.reconcile(SHOP) == REFUSED_RETRY
    plan = context.progress[SHOP].racks
    assert plan is not None
    [wait] = plan.waiting
    assert (wait.reason, wait.needs_a_person) == ("NotApplied", False)
    assert "failed calling webhook" in wait.message
    await context.aclose()


@pytest.mark.virtual_time
@pytest.mark.parametrize("waits", [False, True])
async def test_a_rack_that_may_be_told_later_does_not_delay_the_look_at_others_that_wait(waits: bool) -> None:
    kube = _on_nodes(KubeError("failed calling webhook", 500, retriable=True))
    if waits:
        pod = unbound("no node has room")
        pod["metadata"] |= {"name": "shop-brokers-2", "uid": "u2"}
        kube.put(pod)
    context = Context(kube, read_settings({"SLUICEGATE_RESYNC_SECONDS": "50"}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    with pytest.raises(KubeError, match="failed calling webhook") as raised:
        await RackReconciler(context).reconcile(SHOP)
    within_s = raised.value.again_within_s
    assert within_s is not None
    assert (within_s == WAITING_EVERY_S) is waits
    await context.aclose()
