"""Objects of a paused cluster: nothing is done for them, and their status says why."""

from collections.abc import Mapping

import pytest

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.context.snapshot import ClusterKey
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.term import reconcilers
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster, observer, quota, topic
from tests.support.manifests.pipeline_manifests import pipeline

pytestmark = pytest.mark.virtual_time

SHOP: ClusterKey = ("default", "shop")
QUEUES = (Queue.QUOTAS, Queue.STATUSES, Queue.TOPICS, Queue.OBSERVERS, Queue.PIPELINES)
KINDS: Mapping[str, Json] = {
    "ConnectionQuota": quota(),
    "Topic": topic(),
    "ObserverPlugin": observer(),
    "AuditPipeline": pipeline(),
}


@pytest.mark.parametrize("kind", KINDS)
async def test_an_object_that_missed_its_cluster_says_that_the_cluster_is_paused(kind: str) -> None:
    kube = MemoryKube(KINDS[kind])
    (name,) = kube.names(kind)
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    found = reconcilers(context, context.settings)

    async def look() -> None:
        for queue in QUEUES:
            await found[queue](SHOP)

    await look()
    assert kube.condition(kind, name)["reason"] == "ClusterMissing"
    kube.put(cluster(paused=True))
    await look()
    said = {type_: kube.condition(kind, name, type_) for type_ in ("Ready", "Reconciling", "Stalled")}
    assert {type_: (one["status"], one["reason"]) for type_, one in said.items()} == {
        "Ready": ("False", "Paused"),
        "Reconciling": ("True", "Paused"),
        "Stalled": ("False", "Paused"),
    }
    assert (
        said["Ready"]["message"]
        == "spec.paused of BrokerCluster shop is true: the operator changes nothing until it is false"
    )
    assert "ClusterMissing" not in str(kube.take(kind, name)["status"])
    assert kube.names("CronJob") == kube.names("ConfigMap") == []
    kube.remove("BrokerCluster", "shop")
    await look()
    assert kube.condition(kind, name)["reason"] == "ClusterMissing"
