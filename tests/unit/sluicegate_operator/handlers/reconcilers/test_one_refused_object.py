"""One object that the API server refuses for now keeps no other object of its cluster waiting, and is tried again."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from sluicegate_operator.api.models.topic import FINALIZER
from sluicegate_operator.api.queues import Queue
from sluicegate_operator.engine.lasting_refusals import TOLD_AFTER_S
from sluicegate_operator.fleet.kafka.controllers import ControllerView
from sluicegate_operator.fleet.kubernetes.kubernetes import KubernetesFleet, Sighting
from sluicegate_operator.fleet.pods.pods import NodePod
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.term import reconcilers
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster, listener, observer, topic
from tests.support.manifests.pipeline_manifests import pipeline

pytestmark = pytest.mark.virtual_time

SHOP = ("default", "shop")
WORDS = "refused for now"
REFUSALS = (KubeError(WORDS, 500, retriable=True), KubeError(WORDS, 403, retriable=True))
"""A webhook that fails, and an API server that has not loaded its RBAC rules, or a rule that was changed just now."""


class Refusing(MemoryKube):
    """Refuses requests of which `refused(method, kind, name)` is true."""

    error = REFUSALS[0]

    def __init__(self, refused: Callable[[str, str, str], bool], *objects: Mapping[str, Any]) -> None:
        super().__init__(*objects)
        self.refused = refused

    def _check(self, method: str, kind: str, name: str) -> None:
        if self.refused(method, kind, name):
            raise self.error

    async def get(self, kind: Kind, namespace: str | None, name: str) -> Json | None:
        self._check("get", kind.kind, name)
        return await super().get(kind, namespace, name)

    async def apply(self, manifest: Mapping[str, Any], *more: Any) -> Json:
        self._check("apply", manifest["kind"], manifest["metadata"]["name"])
        return await super().apply(manifest, *more)

    async def apply_status(self, kind: Kind, namespace: str, name: str, *more: Any, **options: Any) -> Any:
        self._check("status", kind.kind, name)
        return await super().apply_status(kind, namespace, name, *more, **options)

    async def patch_metadata(self, kind: Kind, namespace: str, name: str, *more: Any, **options: Any) -> None:
        self._check("patch", kind.kind, name)
        await super().patch_metadata(kind, namespace, name, *more, **options)

    async def set_pod_condition(self, namespace: str, name: str, *more: Any) -> None:
        self._check("status", "Pod", name)
        await super().set_pod_condition(namespace, name, *more)


class Queues:
    """The reconcilers of an operator whose API server is `kube`."""

    def __init__(self, kube: MemoryKube) -> None:
        self.context = Context(kube, read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None))  # type: ignore[arg-type]
        self.context.mark = lambda queue, key: None
        self.context.is_due = lambda queue, key: False
        self._reconcile = reconcilers(self.context, self.context.settings)

    async def refused(self, queue: Queue) -> KubeError:
        with pytest.raises(KubeError, match=WORDS) as raised:
            await self._reconcile[queue](SHOP)
        return raised.value

    async def reconcile(self, queue: Queue) -> None:
        await self._reconcile[queue](SHOP)


def named(document: Json, own_name: str, /, **spec: Any) -> Json:
    return {**document, "metadata": {"name": own_name}, "spec": {**document["spec"], **spec}}


@pytest.mark.parametrize("error", REFUSALS, ids=["500", "403"])
@pytest.mark.parametrize(
    ("queue", "document", "different"),
    [
        (Queue.TOPICS, topic(), {}),
        (Queue.OBSERVERS, observer(), {}),
        (Queue.PIPELINES, pipeline(), {}),
        (Queue.LISTENERS, listener(), {"name": "OTHER", "port": 9095}),
    ],
)
@pytest.mark.parametrize("shop", [None, cluster(paused=True), cluster()], ids=["without a cluster", "paused", "active"])
async def test_a_status_that_is_refused_for_now_keeps_no_other_object_waiting(
    shop: Json | None, queue: Queue, document: Json, different: Json, error: KubeError
) -> None:
    others = [named(document, "b", **different)]
    kube = Refusing(lambda method, _, name: (method, name) == ("status", "a"), named(document, "a"), *others)
    kube.error = error
    if shop is not None:
        kube.put(shop)
    queues = Queues(kube)
    await queues.refused(queue)
    assert kube.condition(document["kind"], "b") != {}
    kube.refused = lambda *_: False
    await queues.reconcile(queue)
    assert kube.condition(document["kind"], "a") != {}
    await queues.context.aclose()


@pytest.mark.parametrize(
    ("queue", "document", "wrong"),
    [
        (Queue.TOPICS, topic(), {"partitions": "six"}),
        (Queue.OBSERVERS, observer(), {"class": 1}),
        (Queue.PIPELINES, pipeline(), {"schedule": 1}),
        (Queue.QUOTAS, {**topic(), "kind": "ConnectionQuota"}, {"maxConnections": "many"}),
    ],
)
async def test_the_refused_status_of_an_unreadable_object_keeps_no_other_waiting(
    queue: Queue, document: Json, wrong: Json
) -> None:
    unreadable = [named(document, name, **wrong) for name in ("a", "b")]
    kube = Refusing(lambda method, _, name: (method, name) == ("status", "a"), *unreadable)
    if queue != "quotas":
        kube.put(named(document, "good"))
    queues = Queues(kube)
    await queues.refused(queue)
    assert kube.condition(document["kind"], "b")["reason"] == "Unreadable"
    if queue != "quotas":
        assert kube.condition(document["kind"], "good") != {}
    await queues.context.aclose()


@pytest.mark.parametrize("status", ["done", {"conditions": "Ready"}, {"conditions": ["Ready", {"status": "True"}]}])
async def test_the_status_of_another_schema_keeps_no_other_object_waiting(status: Any) -> None:
    kube = MemoryKube(named(topic(), "a", partitions="six") | {"status": status}, named(topic(), "b"))
    queues = Queues(kube)
    await queues.reconcile(Queue.TOPICS)
    assert kube.condition("Topic", "a")["reason"] == "Unreadable"
    assert kube.condition("Topic", "b") != {}
    await queues.context.aclose()


async def test_the_refused_status_of_an_unreadable_listener_leaves_its_cluster_a_status() -> None:
    kube = Refusing(lambda _, kind, __: kind == "BrokerListener", cluster(), named(listener(), "a", port="x"))
    queues = Queues(kube)
    await queues.refused(Queue.CLUSTERS)
    assert kube.condition("BrokerCluster", "shop") != {}
    await queues.context.aclose()


async def test_the_refused_status_of_an_unreadable_cluster_is_tried_again() -> None:
    kube = Refusing(lambda _, kind, __: kind == "BrokerCluster", named(cluster(), "shop", brokers={"replicas": "x"}))
    queues = Queues(kube)
    await queues.refused(Queue.CLUSTERS)
    await queues.context.aclose()


def deletable(name: str, *, going: bool) -> Json:
    document = named(topic(deletionPolicy="Delete"), name)
    document["metadata"] |= {"finalizers": [FINALIZER]} if going else {}
    document["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if going else {}
    return document


async def test_a_refused_finalizer_does_not_block_the_deletion_of_other_topics() -> None:
    kube = Refusing(lambda method, _, name: (method, name) == ("patch", "a"), *(deletable(n, going=True) for n in "ab"))
    queues = Queues(kube)
    await queues.refused(Queue.TOPICS)
    assert kube.names("Topic") == ["a"]
    await queues.context.aclose()


async def test_one_finalizer_that_is_not_set_yet_keeps_no_other_topic_waiting() -> None:
    topics = [deletable(name, going=False) for name in "ab"]
    kube = Refusing(lambda method, _, name: (method, name) == ("patch", "a"), cluster(), *topics)
    queues = Queues(kube)
    await queues.refused(Queue.TOPICS)
    assert kube.condition("Topic", "b")["reason"] == "WaitingForBrokers"
    assert kube.condition("Topic", "a") == {}, "it may pass"
    await queues.context.aclose()


async def test_one_config_map_that_cannot_be_read_for_now_keeps_no_other_observer_waiting() -> None:
    shop = cluster(observers={"allowConfigMapCode": True})
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code-b"}, "data": {"m.py": "class A: ..."}}
    source = {"class": "m.A", "source": {"configMap": {"name": "code-a"}}}
    a, b = observer(**source), observer(**{"class": "m.A", "source": {"configMap": {"name": "code-b"}}})
    a, b = a | {"metadata": {"name": "a"}}, b | {"metadata": {"name": "b"}}
    kube = Refusing(lambda method, _, name: (method, name) == ("get", "code-a"), shop, code, a, b)
    queues = Queues(kube)
    await queues.refused(Queue.OBSERVERS)
    assert kube.condition("ObserverPlugin", "b") != {}
    assert kube.condition("ObserverPlugin", "a") == {}, "it may pass"
    await asyncio.sleep(TOLD_AFTER_S)
    await queues.refused(Queue.OBSERVERS)
    assert WORDS in kube.condition("ObserverPlugin", "a")["message"]
    await queues.context.aclose()


async def test_one_pipeline_that_cannot_be_made_for_now_keeps_no_other_waiting() -> None:
    shop = cluster(audit={"landing": {"claimName": "audit"}})
    kube = Refusing(lambda method, kind, name: (method, name) == ("apply", "a"), shop)
    for name in "ab":
        kube.put(named(pipeline(), name))
    queues = Queues(kube)
    await queues.refused(Queue.PIPELINES)
    assert kube.names("CronJob") == ["b"]
    assert kube.take("AuditPipeline", "a").get("status") is None, "it may pass"
    await queues.context.aclose()


async def test_one_service_that_cannot_be_made_for_now_keeps_no_other_listener_waiting() -> None:
    kube = Refusing(lambda method, kind, name: (method, kind, name.startswith("a-")) == ("apply", "Service", True))
    kube.put(cluster())
    kube.put(named(listener(), "a", exposure="NodePort"))
    kube.put(named(listener(), "b", name="OTHER", port=9095, exposure="NodePort"))
    queues = Queues(kube)
    await queues.refused(Queue.LISTENERS)
    assert [name for name in kube.names("Service") if "b" in name] != []
    assert kube.condition("BrokerListener", "b") != {}
    assert kube.condition("BrokerListener", "a") == {}, "it may pass"
    await queues.context.aclose()


@pytest.mark.parametrize("error", [*REFUSALS, KubeError(WORDS, 403), KubeError(WORDS, 422)])
async def test_a_refused_disruption_budget_of_the_controllers_keeps_no_broker_waiting(error: KubeError) -> None:
    refused = ("apply", "PodDisruptionBudget", "shop-controllers")
    kube = Refusing(lambda *request: request == refused, cluster())
    kube.error = error
    queues = Queues(kube)
    if error.retriable:
        await queues.refused(Queue.CLUSTERS)
        assert kube.condition("BrokerCluster", "shop")["reason"] == "ControllersStarting", "it may pass"
    else:
        await queues.reconcile(Queue.CLUSTERS)
        stalled = kube.condition("BrokerCluster", "shop", "Stalled")
        assert (stalled["reason"], stalled["message"]) == ("Refused", WORDS)
    assert kube.names("StatefulSet") == ["shop-brokers", "shop-controllers"]
    assert kube.names("PodDisruptionBudget") == ["shop-brokers"]
    kube.refused = lambda *_: False
    await queues.reconcile(Queue.CLUSTERS)
    assert kube.names("PodDisruptionBudget") == ["shop-brokers", "shop-controllers"]
    await queues.context.aclose()


async def test_a_temporarily_refused_volume_claim_delays_neither_others_nor_the_scale() -> None:
    def brokers(replicas: int, size: str) -> Json:
        return cluster(brokers={"replicas": replicas, "storage": {"size": size}})

    kube = Refusing(lambda method, *_: False, brokers(2, "1Gi"))
    queues = Queues(kube)
    await queues.reconcile(Queue.CLUSTERS)
    claims = [kube.take("PersistentVolumeClaim", name) for name in kube.names("PersistentVolumeClaim")]
    for claim in claims:
        claim["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    kube.refused = lambda method, kind, name: (method, name.endswith("brokers-0")) == ("patch", True)
    kube.put(brokers(3, "2Gi"))
    await queues.refused(Queue.CLUSTERS)
    asked = {claim["metadata"]["name"]: claim["spec"]["resources"]["requests"]["storage"] for claim in claims}
    assert {name[-9:]: size for name, size in asked.items() if "brokers" in name} == {
        "brokers-0": "1Gi",
        "brokers-1": "2Gi",
    }
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == 3
    assert kube.condition("BrokerCluster", "shop")["reason"] != "NotApplied", "it may pass"
    await asyncio.sleep(TOLD_AFTER_S)
    await queues.refused(Queue.CLUSTERS)
    assert kube.condition("BrokerCluster", "shop")["reason"] == "NotApplied"
    kube.refused = lambda *_: False
    await queues.reconcile(Queue.CLUSTERS)
    assert kube.condition("BrokerCluster", "shop")["reason"] != "NotApplied"
    await queues.context.aclose()


def pod(ordinal: int) -> NodePod:
    name = f"shop-brokers-{ordinal}"
    return NodePod(name, Role.BROKER, ordinal, f"10.0.0.{ordinal}", ready=True, uid=f"uid-{name}")


def broker(id_: int) -> BrokerOverview:
    return BrokerOverview(id_, 7, "i", BrokerState.ONLINE, host=f"10.0.0.{id_}", heartbeat_age_s=0.5)


class Brokers:
    """The operator's view of the pods and brokers of a cluster."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pods = [pod(ordinal) for ordinal in range(3)]
        self.brokers = [broker(id_) for id_ in range(3)]

        async def look(*_: object, **__: object) -> Sighting:
            overview = ClusterOverview("c", 1000, 1, 9, tuple(self.brokers))
            return Sighting(ControllerView(overview), tuple(self.pods))

        monkeypatch.setattr(KubernetesFleet, "observe", look)


async def test_one_registration_that_is_refused_for_now_keeps_no_other_at_its_last_state(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers, kube = Brokers(monkeypatch), Refusing(lambda *_: False, cluster())
    for one in brokers.pods:
        kube.put({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": one.name, "uid": one.uid}})
    queues = Queues(kube)
    await queues.reconcile(Queue.REGISTRATIONS)
    kube.refused = lambda method, kind, name: (method, name) == ("status", "shop-0")
    brokers.brokers = [replace(broker(0), out_of_sync=1), replace(broker(1), state=BrokerState.FENCED), broker(2)]
    error = await queues.refused(Queue.REGISTRATIONS)
    assert kube.take("BrokerRegistration", "shop-1")["status"]["state"] == "Fenced"
    assert error.again_within_s == 1.0, "a broker that goes is fenced within a second"
    await queues.context.aclose()


async def test_a_temporarily_refused_pod_does_not_delay_gates_labels_and_registrations_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    brokers, kube = Brokers(monkeypatch), Refusing(lambda *_: False, cluster())
    brokers.pods = [replace(one, lost_labels={"app": "x"}) for one in brokers.pods]
    for one in brokers.pods:
        kube.put({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": one.name, "uid": one.uid}})
    kube.refused = lambda method, kind, name: name == "shop-brokers-0"
    queues = Queues(kube)
    await queues.refused(Queue.REGISTRATIONS)
    gated = [one.name for one in brokers.pods if kube.take("Pod", one.name).get("status")]
    labelled = [one.name for one in brokers.pods if kube.take("Pod", one.name)["metadata"].get("labels")]
    assert gated == labelled == ["shop-brokers-1", "shop-brokers-2"]
    assert kube.names("BrokerRegistration") == ["shop-0", "shop-1", "shop-2"]
    await queues.context.aclose()
