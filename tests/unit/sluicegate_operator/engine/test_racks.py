"""Which waits of a broker for its rack are worth a Warning, and from when on."""

import asyncio

import pytest

from sluicegate_operator.engine.racks import PASSES_WITHIN_S, RackReconciler
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.resources.labels import CLUSTER_LABEL, ROLE_LABEL
from sluicegate_operator.settings import read_settings
from tests.support.bad_manifests import cluster
from tests.support.memory_kube import Json, MemoryKube

SHOP = ("default", "shop")
RACKED = cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}, "rack": {"topologyKey": "zone"}})


def unbound(why: str) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    labels = {CLUSTER_LABEL: "shop", ROLE_LABEL: "broker"}
    node_set = {"kind": "StatefulSet", "name": "shop-brokers", "uid": "of-the-brokers", "controller": True}
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
    await context.close()
