"""A cluster whose status a newer operator has written: left alone, or continued if its release is the next one."""

import pytest

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.api.release import own_release, why_too_new
from sluicegate_operator.engine.context.snapshot import ClusterKey, UnreadableClusterError
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.term import reconcilers
from sluicegate_operator.kube.client.client import STATUS_MANAGER
from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster, external, listener, observer, quota, topic
from tests.support.manifests.pipeline_manifests import pipeline

pytestmark = pytest.mark.virtual_time

SHOP: ClusterKey = ("default", "shop")
AFTER_QUOTAS = {Queue.STATUSES, Queue.OBSERVED}
"""Queues about quotas that the queue of quotas has put into force. They do nothing after it has left the cluster."""


def release(minors_later: int) -> str:
    major, minor, _ = own_release().split(".")
    return f"{major}.{int(minor) + minors_later}.0"


async def visit(kube: MemoryKube, *queues: Queue) -> set[Queue]:
    """Reconcile the cluster once in each of these queues; return those that leave the cluster alone."""
    settings = read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None)
    context = Context(kube, settings)  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    found, left_alone = reconcilers(context, settings), set()
    for queue in queues:
        try:
            await found[queue](SHOP)
        except UnreadableClusterError:
            left_alone.add(queue)
    await context.aclose()
    return left_alone


async def hand_over(kube: MemoryKube, changed: Json, minors_later: int) -> None:
    """Let an operator of a later release write the status, and then a user change the spec."""
    status = kube.take("BrokerCluster", "shop")["status"] | {"operatorVersion": release(minors_later), "later": "word"}
    await kube.apply_status(BROKER_CLUSTER, "default", "shop", status, manager=STATUS_MANAGER)
    kube.put(changed)


@pytest.mark.parametrize(
    ("made", "changed"),
    [
        (cluster(), cluster(brokers={"replicas": 5, "storage": {"size": "2Gi"}}, config={"num.partitions": "7"})),
        (external(), external(config={"num.partitions": "7"})),
    ],
    ids=["Bundled", "External"],
)
async def test_a_cluster_of_a_much_newer_operator_is_left_alone_by_all_queues(made: Json, changed: Json) -> None:
    kube = MemoryKube(made)
    if made["spec"].get("runtime") == "External":
        await kube.apply_status(BROKER_CLUSTER, "default", "shop", {"observedGeneration": 1}, manager=STATUS_MANAGER)
    else:
        await visit(kube, Queue.CLUSTERS)
    for item in (listener(), quota(), topic(), observer(), pipeline()):
        kube.put(item)
    await hand_over(kube, changed, 2)
    before = {key: dict(item) for key, item in kube.objects.items()}
    for _ in range(2):
        assert await visit(kube, *Queue) == set(Queue) - AFTER_QUOTAS
    after = {key: dict(item) for key, item in kube.objects.items() if key[0] != "Event"}
    own = ("BrokerCluster", "default", "shop")
    status, old = after.pop(own)["status"], before.pop(own)["status"]
    assert after == before
    assert (status["operatorVersion"], status["later"]) == (release(2), "word")
    said = {"conditions", "observedGeneration"}
    assert {**status, **dict.fromkeys(said)} == {**old, **dict.fromkeys(said)}
    for type_, value in (("Ready", "False"), ("Reconciling", "False"), ("Stalled", "True")):
        condition = kube.condition("BrokerCluster", "shop", type_)
        assert (condition["status"], condition["reason"], condition["observedGeneration"]) == (value, "NewerVersion", 2)
    assert kube.condition("BrokerCluster", "shop", "Stalled")["message"] == (
        f"{why_too_new(release(2), own_release())}; until then the operator changes nothing of this cluster and of the"
        " objects that name it, and its nodes continue to run"
    )
    [event] = kube.events("NewerVersion")
    assert (event["type"], event["count"], event["involvedObject"]["name"]) == ("Warning", 1, "shop")


async def test_an_operator_takes_over_from_the_next_release_and_from_earlier_ones() -> None:
    kube = MemoryKube(cluster())
    await visit(kube, Queue.CLUSTERS)
    assert kube.take("BrokerCluster", "shop")["status"]["operatorVersion"] == own_release()
    for number, minors_later in enumerate((1, 0), 3):
        await hand_over(kube, cluster(config={"num.partitions": str(number)}), minors_later)
        assert await visit(kube, Queue.CLUSTERS) == set()
        assert kube.take("BrokerCluster", "shop")["status"]["operatorVersion"] == own_release()
        maps = [kube.take("ConfigMap", name) for name in kube.names("ConfigMap")]
        assert f"num.partitions={number}" in str(maps)
    assert kube.events("NewerVersion") == []


async def test_the_newer_operator_continues_when_it_runs_again() -> None:
    kube = MemoryKube(cluster())
    await visit(kube, Queue.CLUSTERS)
    await hand_over(kube, cluster(), 2)
    await visit(kube, Queue.CLUSTERS)
    assert kube.condition("BrokerCluster", "shop", "Stalled")["status"] == "True"
    # The newer operator is this one, as far as its status is concerned.
    await hand_over(kube, cluster(), 0)
    assert await visit(kube, Queue.CLUSTERS) == set()
    assert kube.condition("BrokerCluster", "shop", "Stalled")["status"] == "False"
