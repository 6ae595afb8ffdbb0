"""The clusters' reconciler with names that are taken, and with unreadable objects."""

import asyncio
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster
from sluicegate_operator.engine.context.snapshot import UnreadableClusterError
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.clusters import STARTING_RETRY, ClusterReconciler
from sluicegate_operator.kube.cache.cached_object import read_object
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER, BROKER_LISTENER, EVENT, Kind
from sluicegate_operator.resources.labels import CLUSTER_ID, CLUSTER_LABEL
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube

SHOP = ("default", "shop")


def cluster(**spec: Any) -> Json:
    return {
        "apiVersion": BROKER_CLUSTER.api_version,
        "kind": BROKER_CLUSTER.kind,
        "metadata": {"name": "shop"},
        "spec": {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}, **spec},
    }


def listener(name: str, kafka_name: str, port: int, **spec: Any) -> Json:
    return {
        "apiVersion": BROKER_LISTENER.api_version,
        "kind": BROKER_LISTENER.kind,
        "metadata": {"name": name},
        "spec": {"clusterRef": {"name": "shop"}, "name": kafka_name, "port": port, **spec},
    }


def theirs(kind: str, name: str, api_version: str = "v1") -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": {"selector": {"app": name}}}


def pod(kube: MemoryKube, name: str, **status: Any) -> Json:
    """A pod of the StatefulSet that the operator has made, in its current form."""
    of = name.rpartition("-")[0]
    template = kube.take("StatefulSet", of)["spec"]["template"]["metadata"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **template}, "status": status}


async def reconcile(kube: MemoryKube, **environment: str) -> dict[str, list[tuple[str, str]]]:
    """Reconcile the cluster; return the clusters that were marked, by queue."""
    settings = read_settings({"SLUICEGATE_SETTLE_SECONDS": "0", **environment}, None, None, None)
    context = Context(kube, settings)  # type: ignore[arg-type]
    marked: dict[str, list[tuple[str, str]]] = {}
    context.mark = lambda queue, key: marked.setdefault(queue, []).append(key)
    await ClusterReconciler(context).reconcile(SHOP)
    await context.aclose()
    return marked


@pytest.mark.parametrize(
    ("stranger", "made"),
    [
        (theirs("ServiceAccount", "shop-nodes"), []),
        (theirs("Service", "shop-controllers"), []),
        (theirs("StatefulSet", "shop-brokers", "apps/v1"), []),
        (theirs("PodDisruptionBudget", "shop-controllers", "policy/v1"), ["shop-brokers", "shop-controllers"]),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
async def test_a_cluster_whose_childs_name_is_taken_is_stalled(stranger: Json, made: list[str]) -> None:
    kube = MemoryKube(cluster(), stranger)
    name, kind = stranger["metadata"]["name"], stranger["kind"]
    before = dict(kube.take(kind, name))
    for _ in range(2):
        assert "rolls" not in await reconcile(kube)
    assert kube.take(kind, name) == before
    stalled = kube.condition("BrokerCluster", "shop", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "NameTaken")
    assert f"{kind} {name}" in stalled["message"]
    assert [event["count"] for event in kube.events("NameTaken")] == [1]
    # A StatefulSet of another user has another selector, which Kubernetes never changes.
    assert ("to hand over" in stalled["message"]) is (kind != "StatefulSet")
    # The children that need it are not made. No node needs a PodDisruptionBudget.
    ours = [found for found in kube.names("StatefulSet") if "labels" in kube.take("StatefulSet", found)["metadata"]]
    assert ours == made


async def test_an_unreadable_listener_keeps_all_of_its_cluster_unchanged() -> None:
    kube = MemoryKube(cluster(), listener("open", "OPEN", 9095), listener("other", "OTHER", 9096))
    await reconcile(kube)
    before = {name: kube.take("ConfigMap", name) for name in kube.names("ConfigMap")}
    assert "OTHER" in str(before)
    kube.put(listener("other", "OTHER", "9096"))  # type: ignore[arg-type]
    kube.put(cluster(config={"num.partitions": "7"}))
    for _ in range(2):
        assert "rolls" not in await reconcile(kube)
    assert {name: kube.take("ConfigMap", name) for name in kube.names("ConfigMap")} == before
    for kind, name in (("BrokerListener", "other"), ("BrokerCluster", "shop")):
        stalled = kube.condition(kind, name, "Stalled")
        assert (stalled["status"], stalled["reason"], stalled["observedGeneration"]) == ("True", "Unreadable", 2)
        assert "spec.port: must be a whole number without quotes" in stalled["message"]
        assert kube.take(kind, name)["status"]["observedGeneration"] == 2
    [event] = kube.events("Unreadable")
    assert (event["type"], event["count"], event["involvedObject"]["name"]) == ("Warning", 1, "other")
    kube.put(listener("other", "OTHER", 9096))
    await reconcile(kube)
    assert "num.partitions=7" in str([kube.take("ConfigMap", name) for name in kube.names("ConfigMap")])


EARLIER_ID = "OLDOLDOLDOLDOLDOLDOLDQ"


def claim_of_earlier() -> Json:
    meta = {
        "name": "data-shop-brokers-0",
        "labels": {CLUSTER_LABEL: "shop"},
        "annotations": {CLUSTER_ID: EARLIER_ID},
        "creationTimestamp": "2020-01-01T00:00:00Z",
    }
    kind = {"apiVersion": "v1", "kind": "PersistentVolumeClaim"}
    return {**kind, "metadata": meta, "spec": {"resources": {"requests": {"storage": "1Gi"}}}}


@pytest.mark.parametrize("held", ["paused", "unreadable"])
async def test_a_held_cluster_without_nodes_can_still_take_over_earlier_claims(held: str) -> None:
    made = {"uid": "5a9d8f64-0000-4000-8000-000000000001", "creationTimestamp": "2026-01-01T00:00:00Z"}

    def shop(**spec: Any) -> Json:
        return {**cluster(**spec), "metadata": {"name": "shop", **made}}

    kube = MemoryKube(shop(paused=held == "paused"), claim_of_earlier())
    if held == "unreadable":
        kube.put(listener("other", "OTHER", "9096"))  # type: ignore[arg-type]
    await reconcile(kube)
    assert not kube.take("BrokerCluster", "shop")["status"].get("clusterId")
    if held == "unreadable":
        kube.remove("BrokerListener", "other")
    kube.put(shop(clusterId=EARLIER_ID))
    await reconcile(kube)
    assert kube.take("BrokerCluster", "shop")["status"]["clusterId"] == EARLIER_ID
    assert kube.names("StatefulSet") == ["shop-brokers", "shop-controllers"]


async def test_a_cluster_with_nodes_shows_its_id_also_while_it_is_paused() -> None:
    kube = MemoryKube({**cluster(), "metadata": {"name": "shop", "uid": "5a9d8f64-0000-4000-8000-000000000001"}})
    await reconcile(kube)
    told = kube.take("BrokerCluster", "shop")["status"].pop("clusterId")
    kube.put(cluster(paused=True))
    await reconcile(kube)
    assert kube.take("BrokerCluster", "shop")["status"]["clusterId"] == told != ""


async def test_clients_see_the_address_of_a_listener_that_cannot_be_read_any_more() -> None:
    kube = MemoryKube(cluster(), listener("open", "OPEN", 9095))
    address = "open.default.svc:9095"
    await kube.apply_status(BROKER_LISTENER, "default", "open", {"bootstrap": address})
    await reconcile(kube)
    kube.put(listener("open", "OPEN", "9095"))  # type: ignore[arg-type]
    await reconcile(kube)
    status = kube.take("BrokerCluster", "shop")["status"]
    assert status["listeners"] == [{"name": "OPEN", "bootstrapServers": address}]
    assert status["bootstrapServers"] == address


async def test_an_unreadable_cluster_is_stalled_and_keeps_its_objects_and_memory() -> None:
    kube = MemoryKube(cluster(), listener("open", "OPEN", 9095))
    await reconcile(kube)
    await kube.apply_status(
        BROKER_CLUSTER, "default", "shop", {"dynamicConfigKeys": ["log.retention.ms"]}, manager="config"
    )
    kube.put(cluster(brokers={"replicas": "three", "storage": {"size": "1Gi"}}))
    for _ in range(2):
        with pytest.raises(UnreadableClusterError):
            await reconcile(kube)
    stalled = kube.condition("BrokerCluster", "shop", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "Unreadable")
    assert "spec.brokers.replicas: must be a whole number without quotes" in stalled["message"]
    assert [event["count"] for event in kube.events("Unreadable")] == [1]
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == 1
    # Kept by the manager that wrote it, and not taken over by the manager of conditions.
    assert kube.take("BrokerCluster", "shop")["status"]["dynamicConfigKeys"] == ["log.retention.ms"]


async def test_nothing_is_written_when_the_api_server_would_refuse_the_pods() -> None:
    kube = MemoryKube(cluster())
    kube.refuses["StatefulSet"] = "StatefulSet shop-brokers is invalid: hugepages: must be equal to the limit"
    assert "rolls" not in await reconcile(kube)
    assert [kube.names(kind) for kind in ("ConfigMap", "Service", "StatefulSet")] == [[], [], []]
    assert "hugepages" in kube.condition("BrokerCluster", "shop")["message"]
    kube.refuses.clear()
    assert "rolls" in await reconcile(kube)
    # A template that was accepted is not tried again.
    kube.refuses["StatefulSet"] = "not asked"
    assert "rolls" in await reconcile(kube)


async def test_a_value_that_was_stored_before_the_schema_said_so_reaches_no_broker() -> None:
    kube = MemoryKube(cluster())
    await reconcile(kube)
    before = {name: kube.take("ConfigMap", name) for name in kube.names("ConfigMap")}
    kube.put(cluster(config={"num.partitions": "abc"}))
    with pytest.raises(UnreadableClusterError):
        await reconcile(kube)
    stalled = kube.condition("BrokerCluster", "shop", "Stalled")
    assert stalled["status"] == "True"
    assert "num.partitions must be a whole number from 1 to 2147483647" in stalled["message"]
    assert {name: kube.take("ConfigMap", name) for name in kube.names("ConfigMap")} == before


CRASH_LOOP = {
    "name": "broker",
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}},
    "lastState": {"terminated": {"exitCode": 2, "message": "configuration: num.partitions: must be a number\n"}},
}


def stalled_of(kube: MemoryKube) -> tuple[str, str, str]:
    found = kube.condition("BrokerCluster", "shop", "Stalled")
    return found["status"], found["reason"], kube.condition("BrokerCluster", "shop")["message"]


async def test_a_crash_looping_broker_reports_its_own_error_message(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = MemoryKube(cluster())
    await reconcile(kube)
    kube.put(pod(kube, "shop-controllers-0", conditions=[{"type": "Ready", "status": "True"}]))
    kube.put(pod(kube, "shop-brokers-0", containerStatuses=[CRASH_LOOP]))
    sentence = "shop-brokers-0 does not start: CrashLoopBackOff: configuration: num.partitions: must be a number"
    await reconcile(kube)
    assert stalled_of(kube) == ("False", "CrashLoopBackOff", sentence), "it may pass"
    assert kube.events("CrashLoopBackOff") == []
    monkeypatch.setattr("sluicegate_operator.planning.rolls.start_failures.LASTING_S", 0.0)
    await reconcile(kube)
    assert stalled_of(kube) == ("True", "CrashLoopBackOff", sentence)
    [event] = kube.events("CrashLoopBackOff")
    assert (event["type"], event["message"]) == ("Warning", sentence)


@pytest.mark.parametrize("audit", [None, {"landing": {"claimName": "audit"}}], ids=["alone", "with a lander"])
async def test_a_pod_with_the_configured_image_reports_why_it_does_not_start(
    audit: Json | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sluicegate_operator.planning.rolls.start_failures.LASTING_S", 0.0)
    kube = MemoryKube(cluster(**({"audit": audit} if audit else {})))
    image = "registry.example.org/sluicegate:9"
    await reconcile(kube, SLUICEGATE_IMAGE=image)
    waiting = {"reason": "ImagePullBackOff", "message": f"{image}: not found"}
    kube.put(pod(kube, "shop-brokers-0", containerStatuses=[{"name": "broker", "state": {"waiting": waiting}}]))
    await reconcile(kube, SLUICEGATE_IMAGE=image)
    sentence = f"shop-brokers-0 does not start: ImagePullBackOff: {image}: not found"
    assert stalled_of(kube) == ("True", "ImagePullBackOff", sentence)


async def test_a_pod_that_awaits_its_restart_does_not_count_for_the_new_spec(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sluicegate_operator.planning.rolls.start_failures.LASTING_S", 0.0)
    kube = MemoryKube(cluster(config={"num.partitions": "2"}))
    await reconcile(kube)
    kube.put(pod(kube, "shop-brokers-0", containerStatuses=[CRASH_LOOP]))
    kube.put(cluster(config={"num.partitions": "3"}))
    await reconcile(kube)
    assert stalled_of(kube)[:2] == ("False", "ControllersStarting")


async def test_a_pod_that_the_api_server_refuses_is_told_by_its_statefulset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate_operator.planning.rolls.start_failures.LASTING_S", 0.0)
    refusal = 'pods "shop-controllers-0" is forbidden: failed quota: small: must specify limits.memory'
    told = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "one"},
        "involvedObject": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shop-controllers"},
        "reason": "FailedCreate",
        "message": f"create Pod shop-controllers-0 in StatefulSet shop-controllers failed error: {refusal}",
        "lastTimestamp": "2026-01-01T00:00:00Z",
    }
    kube = MemoryKube(cluster(), told)
    await reconcile(kube)
    assert stalled_of(kube) == ("True", "FailedCreate", f"shop-controllers-0 does not start: FailedCreate: {refusal}")


def ready_pod(kube: MemoryKube, name: str) -> Json:
    return pod(kube, name, conditions=[{"type": "Ready", "status": "True"}])


async def test_a_broker_to_be_removed_counts_while_it_exists() -> None:
    kube = MemoryKube(cluster(brokers={"replicas": 2, "storage": {"size": "1Gi"}}))
    await reconcile(kube)
    for name in ("shop-controllers-0", "shop-brokers-0", "shop-brokers-1"):
        kube.put(ready_pod(kube, name))
    kube.put(cluster())
    await reconcile(kube)
    assert kube.take("BrokerCluster", "shop")["status"]["brokers"] == "2/2"
    kube.remove("Pod", "shop-brokers-1")
    await reconcile(kube)
    assert kube.take("BrokerCluster", "shop")["status"]["brokers"] == "1/1"


async def test_what_the_api_server_refuses_is_a_matter_for_a_person(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = MemoryKube(cluster())
    refusal = KubeError('POST /statefulsets: 422 StatefulSet.apps "shop-brokers" is invalid: requests', 422)

    async def refuse(*_: Any) -> Any:
        raise refusal

    monkeypatch.setattr(kube, "apply", refuse)
    await reconcile(kube)
    assert stalled_of(kube) == ("True", "Refused", str(refusal))
    assert len(kube.events("Refused")) == 1


async def test_events_that_may_not_be_read_keep_no_status_from_being_written(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = MemoryKube(cluster())
    listed = kube.list

    async def refuse(kind: Kind, *more: Any, **options: Any) -> Any:
        if kind == EVENT:
            raise KubeError("GET events: 403 forbidden", 403)
        return await listed(kind, *more, **options)

    monkeypatch.setattr(kube, "list", refuse)
    for _ in range(2):
        await reconcile(kube)
    assert kube.condition("BrokerCluster", "shop")["reason"] == "ControllersStarting"


async def test_a_config_map_that_may_not_be_deleted_is_no_matter_of_the_clusters_status(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    kube = MemoryKube(cluster())
    await reconcile(kube)
    kube.put(cluster(config={"num.partitions": "3"}))
    await reconcile(kube)
    for name in ("shop-controllers-0", "shop-brokers-0"):
        node_set = kube.take("StatefulSet", name.rpartition("-")[0])
        node_set["status"] = {"observedGeneration": node_set["metadata"]["generation"]}
        kube.put(ready_pod(kube, name) | {"spec": node_set["spec"]["template"]["spec"]})

    async def refuse(*_: Any, **__: Any) -> None:
        raise KubeError("DELETE configmap: 403 denied by a policy", 403)

    monkeypatch.setattr(kube, "delete", refuse)
    assert "rolls" in await reconcile(kube)
    assert kube.condition("BrokerCluster", "shop", "Stalled")["status"] == "False"
    assert "cannot be deleted: DELETE configmap: 403 denied by a policy" in caplog.text


async def test_a_cluster_does_not_land_where_an_older_cluster_lands() -> None:
    landing = {"landing": {"uri": "s3://audit/all?region=eu-west-1"}}
    # Created in the same second, and first by its namespace.
    older = cluster(audit=landing) | {"metadata": {"name": "bank", "namespace": "bank"}}
    kube = MemoryKube(older, cluster(audit={"landing": {"uri": "s3://audit/all/shop"}}))
    await reconcile(kube)
    why = "BrokerCluster bank/bank is older and lands its audit log in s3://audit/all"
    assert stalled_of(kube)[:2] == ("True", "Refused")
    assert why in stalled_of(kube)[2]
    assert kube.names("StatefulSet") == []
    kube.put(cluster(audit={"landing": {"uri": "s3://audit/shop"}}))
    await reconcile(kube)
    assert stalled_of(kube)[0] == "False"
    assert kube.names("StatefulSet") == ["shop-brokers", "shop-controllers"]
    kube.put(cluster(audit=landing))
    await reconcile(kube)
    assert why in stalled_of(kube)[2]
    args = kube.take("StatefulSet", "shop-brokers")["spec"]["template"]["spec"]["initContainers"][-1]["args"]
    assert "s3://audit/shop" in args, "what was applied before stays"
    kube.delete_as_a_person("BrokerCluster", "bank", "bank")
    await reconcile(kube)
    assert stalled_of(kube)[0] == "False"


@pytest.mark.virtual_time
async def test_objects_of_one_apply_are_read_together() -> None:
    kube = MemoryKube(cluster())
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconciler = ClusterReconciler(context)
    again = [await reconciler.reconcile(SHOP)]
    kube.put(listener("open", "OPEN", 9095))
    again.append(await reconciler.reconcile(SHOP))
    assert kube.names("StatefulSet") == []
    for wait_s in again:
        assert isinstance(wait_s, float)
        await asyncio.sleep(wait_s)
    await reconciler.reconcile(SHOP)
    before = kube.take("StatefulSet", "shop-brokers")["spec"]
    assert "OPEN://" in str(before), "its first nodes have the listener"
    # A listener that was seen before does not wait.
    kube.put(listener("other", "OTHER", 9096))
    await reconciler.reconcile(SHOP)
    assert kube.take("StatefulSet", "shop-brokers")["spec"] != before
    await context.aclose()


async def test_the_reconciler_reverts_a_foreign_scale_of_a_statefulset_and_names_its_author() -> None:
    kube = MemoryKube(cluster())
    await reconcile(kube)
    scaled = kube.take("StatefulSet", "shop-brokers")
    scaled["spec"]["replicas"] = 0
    scaled["metadata"]["managedFields"] = [
        {"manager": "sluicegate-operator", "operation": "Apply", "fieldsV1": {"f:spec": {"f:template": {}}}},
        {"manager": "kubectl", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}},
    ]
    await reconcile(kube)
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == 1
    [event] = kube.events("ScaledByOthers")
    assert "StatefulSet shop-brokers was scaled to 0 by kubectl at 2026-01-01T00:00:00Z" in event["message"]
    assert event["type"] == "Warning"


async def test_a_changed_cluster_is_not_ready_before_its_roll_and_configuration_were_checked() -> None:
    kube = MemoryKube(cluster())
    context = Context(kube, read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconciler = ClusterReconciler(context)
    await reconciler.reconcile(SHOP)
    for name in ("shop-controllers-0", "shop-brokers-0"):
        kube.put(ready_pod(kube, name))
    for generation in (1, 2):
        await reconciler.reconcile(SHOP)
        assert kube.condition("BrokerCluster", "shop")["reason"] == "SpecChanged"
        context.progress[SHOP].roll_generation = generation
        await reconciler.reconcile(SHOP)
        assert kube.condition("BrokerCluster", "shop")["reason"] == "SpecChanged"
        context.progress[SHOP].config_generation = generation
        await reconciler.reconcile(SHOP)
        assert kube.condition("BrokerCluster", "shop")["status"] == "True"
        kube.put(cluster(config={"num.partitions": "3"}))
    await context.aclose()


async def test_a_cluster_is_polled_while_it_awaits_a_change_without_an_event() -> None:
    kube = MemoryKube(cluster())
    context = Context(kube, read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconciler = ClusterReconciler(context)
    await reconciler.reconcile(SHOP)
    for name in ("shop-controllers-0", "shop-brokers-0"):
        kube.put(ready_pod(kube, name))
    assert isinstance(await reconciler.reconcile(SHOP), float)
    kube.remove("Pod", "shop-controllers-0")
    assert await reconciler.reconcile(SHOP) == STARTING_RETRY, "why there is none is in Events"
    kube.put(ready_pod(kube, "shop-controllers-0"))
    kube.put(theirs("PodDisruptionBudget", "shop-brokers", "policy/v1"))
    assert await reconciler.reconcile(SHOP) == STARTING_RETRY, "the name may be free again any time"
    kube.remove("PodDisruptionBudget", "shop-brokers")
    assert isinstance(await reconciler.reconcile(SHOP), float)
    await context.aclose()


async def test_state_of_a_deleted_cluster_does_not_apply_to_a_new_one_with_its_name() -> None:
    kube = MemoryKube(cluster())
    context = Context(kube, read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    reconciler = ClusterReconciler(context)
    await reconciler.reconcile(SHOP)
    context.progress[SHOP].controller_id = 1001
    said = "create Pod shop-controllers-0 in StatefulSet shop-controllers failed error: no room"
    of = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "shop-controllers"}
    event = {"kind": "Event", "metadata": {"name": "one"}, "involvedObject": of, "reason": "FailedCreate"}
    kube.put({**event, "message": said})
    # For another generation, Events are read at once.
    kube.put(cluster(config={"num.partitions": "3"}))
    await reconciler.reconcile(SHOP)
    assert kube.condition("BrokerCluster", "shop")["reason"] == "FailedCreate"
    assert kube.take("BrokerCluster", "shop")["status"]["controllerId"] == 1001
    for kind, name in ("BrokerCluster", "shop"), ("Event", "one"):
        kube.remove(kind, name)
    for name in kube.names("StatefulSet"):
        kube.remove("StatefulSet", name)
    again = cluster(config={"num.partitions": "3"})
    kube.put({**again, "metadata": {**again["metadata"], "uid": "of-the-next", "generation": 2}})
    await reconciler.reconcile(SHOP)
    assert kube.condition("BrokerCluster", "shop")["reason"] == "ControllersStarting"
    assert kube.take("BrokerCluster", "shop")["status"]["controllerId"] == -1
    await context.aclose()


async def test_the_status_shows_the_active_controller_until_another_one_is_seen() -> None:
    kube = MemoryKube(cluster())
    context = Context(kube, read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    await ClusterReconciler(context).reconcile(SHOP)
    for controller_id, said in ((None, -1), (1001, 1001), (None, 1001), (1002, 1002)):
        context.progress[SHOP].controller_id = controller_id
        await ClusterReconciler(context).reconcile(SHOP)
        assert kube.take("BrokerCluster", "shop")["status"]["controllerId"] == said
    await context.aclose()


async def test_a_cluster_with_silent_controllers_is_not_ready_also_after_an_operators_restart() -> None:
    kube = MemoryKube(cluster())
    await reconcile(kube)
    for name in ("shop-controllers-0", "shop-brokers-0"):
        kube.put(ready_pod(kube, name))
    silence = "no active controller has answered for 60 s: controller 1000: refused"
    for controller_id, said, ready, controllers in (
        (1000, "", "True", "True"),
        (-1, silence, "False", "Unknown"),
        (None, "", "False", "Unknown"),
        (1000, "", "True", "True"),
    ):
        context = Context(kube, read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None))  # type: ignore[arg-type]
        context.mark = lambda queue, key: None
        now = read_object(kube.take("BrokerCluster", "shop"))
        assert isinstance(now, BrokerCluster)
        looked = context.progress.of(now)
        looked.roll_generation = looked.config_generation = 1
        looked.controller_id, looked.silence = controller_id, said
        await ClusterReconciler(context).reconcile(SHOP)
        assert kube.condition("BrokerCluster", "shop")["status"] == ready
        found = kube.condition("BrokerCluster", "shop", "ControllersReady")
        assert found["status"] == controllers
        if ready == "False":
            assert found["message"] == silence
            assert kube.condition("BrokerCluster", "shop")["reason"] == "ControllersUnreachable"
        assert kube.take("BrokerCluster", "shop")["status"]["controllerId"] == (1000 if ready == "True" else -1)
        await context.aclose()


async def test_the_status_has_the_bootstrap_address_and_the_scale_of_an_autoscaler() -> None:
    kube = MemoryKube(cluster(), listener("shop-external", "EXTERNAL", 9094))
    await reconcile(kube)
    kube.put(pod(kube, "shop-brokers-0"))
    status = kube.take("BrokerCluster", "shop")["status"]
    assert (status["bootstrapServers"], status["listeners"], status["replicas"]) == ("", [], 0)
    address = "shop-external.default.svc:9094"
    await kube.apply_status(BROKER_LISTENER, "default", "shop-external", {"bootstrap": address})
    await reconcile(kube)
    status = kube.take("BrokerCluster", "shop")["status"]
    assert status["bootstrapServers"] == address
    assert status["listeners"] == [{"name": "EXTERNAL", "bootstrapServers": address}]
    assert status["replicas"] == 1
    assert "sluicegate.dev/cluster=shop" in status["selector"]


def lost_pod(kube: MemoryKube, name: str) -> Json:
    """A pod as the node controller leaves it: its own kubelet would not have cleared Ready."""
    ready = dict.fromkeys(("ContainersReady", "sluicegate.dev/unfenced"), "True") | {"Ready": "False"}
    found = pod(kube, name, conditions=[{"type": kind, "status": status} for kind, status in ready.items()])
    gates = [{"conditionType": "sluicegate.dev/unfenced"}]
    return {**found, "spec": {"nodeName": "worker-2", "readinessGates": gates}}


def node(condition: Json) -> Json:
    meta = {"name": "worker-2", "namespace": None}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"conditions": [condition]}}


NOT_READY = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped."}


@pytest.mark.parametrize("going", [False, True])
async def test_a_broker_on_a_lost_node_is_named_with_its_node(going: bool) -> None:
    kube = MemoryKube(cluster())
    await reconcile(kube)
    kube.put(ready_pod(kube, "shop-controllers-0"))
    lost = lost_pod(kube, "shop-brokers-0")
    kube.put(lost)
    if going:
        kube.take("Pod", "shop-brokers-0")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    kube.put(node(NOT_READY))
    await reconcile(kube)
    ready = kube.condition("BrokerCluster", "shop")
    assert (ready["status"], ready["reason"]) == ("False", "NodeNotReady")
    assert "broker 0 is lost: node worker-2 is NotReady (NodeStatusUnknown: Kubelet stopped)" in ready["message"]
    # A gate that has just been opened looks alike for a moment: the node reports that it is healthy.
    kube.put(node({"type": "Ready", "status": "True"}))
    await reconcile(kube)
    assert kube.condition("BrokerCluster", "shop")["reason"] == "BrokersStarting"


async def test_a_cluster_with_an_authority_gets_its_certificates_before_its_nodes() -> None:
    kube = MemoryKube(cluster(clusterCa={}))
    await reconcile(kube)
    secret = kube.take("Secret", "shop-cluster-tls")
    assert set(secret["data"]) == {"keystore.pem", "truststore.pem", "operator.crt", "operator.key"}
    assert kube.take("StatefulSet", "shop-brokers")
    assert kube.condition("BrokerCluster", "shop", "CertificatesCurrent")["status"] == "True"
    ends = kube.take("BrokerCluster", "shop")["status"]["clusterCa"]
    assert ends["certificateEnds"] == ends["authorityEnds"]


async def test_nodes_do_not_start_without_certificates_and_a_warning_says_why() -> None:
    stranger = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shop-cluster-ca"}, "data": {}}
    kube = MemoryKube(cluster(clusterCa={}), stranger)
    await reconcile(kube)
    ready = kube.condition("BrokerCluster", "shop")
    assert (ready["status"], ready["reason"]) == ("False", "NameTaken")
    assert "Secret shop-cluster-ca that does not belong to the operator exists" in ready["message"]
    with pytest.raises(KeyError):
        kube.take("StatefulSet", "shop-brokers")
    assert "data" in kube.take("Secret", "shop-cluster-ca")
    assert "a Secret shop-cluster-ca that does not" in kube.events("NameTaken")[0]["message"]
