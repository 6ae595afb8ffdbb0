"""The reports on a waiting roll, and the spec that they are about."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.engine.lasting_refusals import TOLD_AFTER_S
from sluicegate_operator.engine.rolls import RollReconciler
from sluicegate_operator.engine.work_queue import REFUSED_RETRY
from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, ControllerView
from sluicegate_operator.fleet.kubernetes.kubernetes import KubernetesFleet
from sluicegate_operator.fleet.pods.rolls import Partitions
from sluicegate_operator.fleet.protocol import NodesSeen
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.clusters import ClusterReconciler
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.layout.restart_reasons import ReasonKind, RestartReason
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.rolls.roll import Done, PlannedRestart, Restart, WaitForNodes, WaitReason
from sluicegate_operator.planning.rolls.scale import ScaleStep, ScaleView, plan_scale
from sluicegate_operator.resources.labels import CLUSTER_LABEL, REVISION, ROLE_LABEL
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import cluster, listener
from tests.support.worlds.fleet_worlds import Pods, fleet_world

SHOP = ("default", "shop")
CLUSTER = BrokerCluster.model_validate(
    {
        "metadata": {"name": "shop", "namespace": "default", "uid": "u"},
        "spec": {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}},
    }
)
NOT_READY = WaitForNodes(WaitReason.NODE_NOT_READY, "shop-brokers-0 is not ready")
PAUSED = WaitForNodes(WaitReason.PAUSED, "rollout.paused is true")
BLOCKED = WaitForNodes(WaitReason.BELOW_MIN_ISR, "orders-0 would have 1 in-sync replicas")


@pytest.fixture
def kube() -> MemoryKube:
    return MemoryKube()


@pytest.fixture
def rolls(kube: MemoryKube) -> RollReconciler:
    return RollReconciler(Context(kube, read_settings({}, None, None, None)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("spec", "image"), [({}, "set:1"), ({"image": "own:2"}, "own:2")])
async def test_pods_and_what_they_are_compared_with_have_the_image_of_the_settings(
    spec: dict[str, Any], image: str
) -> None:
    kube = MemoryKube(cluster(**spec))
    settings = read_settings({"SLUICEGATE_IMAGE": "set:1"}, None, None, None)
    context = Context(kube, settings)  # type: ignore[arg-type]
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    await context.fleet.apply(found, [])
    for name in kube.names("StatefulSet"):
        template = kube.take("StatefulSet", name)["spec"]["template"]
        assert template["spec"]["containers"][0]["image"] == image
        kube.take("StatefulSet", name)["status"] = {"observedGeneration": 1}
    seen = await context.fleet.node_sets(found, [])
    assert seen is not None
    assert [(one.observed, one.revision.image) for one in seen.values()] == [(True, image)] * 2
    await context.aclose()


async def test_a_reconcile_records_the_generation_that_it_followed() -> None:
    kube = MemoryKube(cluster())
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    marked: list[str] = []
    context.mark = lambda queue, _: marked.append(queue)
    reconciler = RollReconciler(context)
    for generation in (1, 2):
        found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
        assert found is not None
        await context.fleet.apply(found, [])
        for _ in range(2):
            await reconciler.reconcile(SHOP)
        assert context.progress[SHOP].roll_generation == generation
        assert marked == ["clusters"] * generation, "once for each spec"
        # A change that restarts no node.
        kube.put(cluster(resyncSeconds=77))
    await context.aclose()


async def test_metrics_show_a_roll_as_blocked_for_as_long_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = MemoryKube(cluster())
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    await context.fleet.apply(found, [])
    reconciler = RollReconciler(context)
    shown: list[list[str]] = []
    for step in (BLOCKED, Done(), BLOCKED):
        monkeypatch.setattr("sluicegate_operator.engine.rolls.plan_roll", lambda _, step=step: step)
        await reconciler.reconcile(SHOP)
        shown.append(_blocked(context))
    assert shown == [["BelowMinIsr"], [], ["BelowMinIsr"]]
    kube.take("BrokerCluster", "shop")["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    await reconciler.reconcile(SHOP)
    assert _blocked(context) == []
    await context.aclose()


@pytest.mark.parametrize(
    ("gone", "rolling", "blocked", "rollout"),
    [
        ("nodes", ("False", "NoNodes"), ("False", "NoNodes"), "NoNodes"),
        ("listener", ("False", "Unreadable"), ("True", "Unreadable"), "BelowMinIsr"),
    ],
)
async def test_a_roll_that_cannot_continue_is_not_reported_as_rolling(
    gone: str, rolling: tuple[str, str], blocked: tuple[str, str], rollout: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = MemoryKube(cluster())
    settings = read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None)
    context = Context(kube, settings)  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    clusters, rolls = ClusterReconciler(context), RollReconciler(context)
    await clusters.reconcile(SHOP)
    monkeypatch.setattr("sluicegate_operator.engine.rolls.plan_roll", lambda _: BLOCKED)
    await rolls.reconcile(SHOP)
    await clusters.reconcile(SHOP)
    assert _said(kube, "Rolling") == ("True", "BelowMinIsr")
    if gone == "nodes":
        kube.remove("StatefulSet", "shop-brokers")
        kube.put({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "shop-brokers"}, "spec": {}})
    else:
        unreadable = listener()
        kube.put(unreadable | {"spec": unreadable["spec"] | {"port": "9094"}})
    for _ in range(2):
        await rolls.reconcile(SHOP)
        await clusters.reconcile(SHOP)
    assert (_said(kube, "Rolling"), _said(kube, "RollBlocked")) == (rolling, blocked)
    assert kube.take("BrokerCluster", "shop")["status"]["rollout"]["reason"] == rollout
    assert _blocked(context) == []
    await context.aclose()


def _said(kube: MemoryKube, type_: str) -> tuple[str, str]:
    found = kube.condition("BrokerCluster", "shop", type_)
    return found["status"], found["reason"]


def _blocked(context: Context) -> list[str]:
    samples = (sample for family in context.figures.collect() for sample in family.samples)
    return [sample.labels["reason"] for sample in samples if sample.name == "sluicegate_roll_blocked"]


async def test_an_event_names_the_author_of_a_reverted_scale() -> None:
    kube = MemoryKube(cluster())
    async with _scaled_by_hand(kube) as reconciler:
        await reconciler.reconcile(SHOP)
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == 3
    [event] = kube.events("ScaledByOthers")
    assert "StatefulSet shop-brokers was scaled to 0 by kubectl" in event["message"]


@pytest.mark.parametrize("change", ["spec", "listener", "by hand"])
async def test_a_scale_decided_for_an_outdated_state_is_decided_again(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kube = MemoryKube(cluster())
    changes: dict[str, Callable[[], object]] = {
        "spec": lambda: kube.put(cluster(brokers={"replicas": 5, "storage": {"size": "1Gi"}})),
        "listener": lambda: kube.put(listener()),
        "by hand": lambda: kube.take("StatefulSet", "shop-brokers")["spec"].update(replicas=4),
    }

    def planned_while_it_changes(view: ScaleView) -> ScaleStep:
        changes[change]()
        return plan_scale(view)

    async with _scaled_by_hand(kube) as reconciler:
        before = deepcopy(kube.take("StatefulSet", "shop-brokers"))
        with monkeypatch.context() as patched:
            patched.setattr("sluicegate_operator.engine.rolls.plan_scale", planned_while_it_changes)
            await reconciler.reconcile(SHOP)
        kept = kube.take("StatefulSet", "shop-brokers")["spec"]
        assert kept["template"] == before["spec"]["template"]
        assert kept["replicas"] == (4 if change == "by hand" else before["spec"]["replicas"])


@asynccontextmanager
async def _scaled_by_hand(kube: MemoryKube) -> AsyncIterator[RollReconciler]:
    """A reconciler for existing nodes whose brokers a user has scaled to zero."""
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    await context.fleet.apply(found, [])
    brokers = kube.take("StatefulSet", "shop-brokers")
    brokers["spec"]["replicas"] = 0
    brokers["metadata"]["managedFields"] = [
        {"manager": "kubectl", "time": "2026-01-01T00:00:00Z", "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    ]
    yield RollReconciler(context)
    await context.aclose()


async def test_the_reason_of_a_waiting_roll_is_logged_once_and_when_it_changes(
    rolls: RollReconciler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for step in (NOT_READY, NOT_READY, NOT_READY, BLOCKED, BLOCKED, NOT_READY):
        await rolls.report_wait(CLUSTER, step)
    assert [record.getMessage().partition("waits: ")[2] for record in caplog.records] == [
        "NodeNotReady: shop-brokers-0 is not ready",
        "BelowMinIsr: orders-0 would have 1 in-sync replicas",
        "NodeNotReady: shop-brokers-0 is not ready",
    ]


async def test_a_warning_reports_a_lasting_block_that_no_user_requested(kube: MemoryKube) -> None:
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    rolls = RollReconciler(context)
    for step in (BLOCKED, BLOCKED):
        await rolls.report_wait(CLUSTER, step)
    assert kube.names("Event") == [], "it may pass"
    rolls = RollReconciler(context, blocked_told_after_s=0.0)
    for step in (PAUSED, PAUSED, NOT_READY, NOT_READY):
        await rolls.report_wait(CLUSTER, step)
    assert kube.names("Event") == []
    for _ in range(2):
        await rolls.report_wait(CLUSTER, BLOCKED)
    [event] = kube.events("RollBlockedBelowMinIsr")
    assert event["type"] == "Warning"


@pytest.mark.virtual_time
async def test_how_long_a_roll_of_an_earlier_cluster_of_the_name_waited_does_not_count(
    kube: MemoryKube, rolls: RollReconciler
) -> None:
    await rolls.report_wait(CLUSTER, BLOCKED)
    await asyncio.sleep(60)
    metadata = CLUSTER.metadata.model_copy(update={"uid": "of-the-next"})
    await rolls.report_wait(CLUSTER.model_copy(update={"metadata": metadata}), BLOCKED)
    assert kube.names("Event") == []
    await rolls.report_wait(CLUSTER, BLOCKED)
    assert kube.names("Event") != []


async def test_a_pod_of_an_older_operator_is_given_the_revision_in_our_spelling_and_not_restarted() -> None:
    odd: Json = {"config": {"num.partitions": "03"}, "networkPolicies": False}
    kube = MemoryKube(cluster(**odd))
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    await context.fleet.apply(found, [])
    seen = await context.fleet.node_sets(found, [])
    assert seen is not None
    wanted = seen[Role.BROKER].revision
    assert wanted.as_written is not None
    template = kube.take("StatefulSet", "shop-brokers")["spec"]["template"]["metadata"]
    started_with = {REVISION: wanted.as_written.encode()}
    pod: Json = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop-brokers-0", **template}}
    kube.put({**pod, "metadata": {**pod["metadata"], "annotations": started_with}})
    uid = kube.take("Pod", "shop-brokers-0")["metadata"]["uid"]
    await RollReconciler(context).reconcile(SHOP)
    meta = kube.take("Pod", "shop-brokers-0")["metadata"]
    assert (meta["uid"], meta["annotations"][REVISION]) == (uid, wanted.encode())
    # A change of the spelling does not restart this pod either.
    even: Json = {**odd, "config": {"num.partitions": "3"}}
    kube.put(cluster(**even))
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    await context.fleet.apply(found, [])
    await RollReconciler(context).reconcile(SHOP)
    assert kube.take("Pod", "shop-brokers-0")["metadata"]["uid"] == uid
    await context.aclose()


async def test_controllers_of_an_earlier_cluster_of_the_name_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    kube, asked = MemoryKube(), []

    async def view_of(places: tuple[ControllerPlace, ...]) -> ControllerView:
        asked.append(places)
        return ControllerView(None)

    monkeypatch.setattr("sluicegate_operator.fleet.kubernetes.kubernetes.controller_view", view_of)
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    meta = {
        "name": "shop-controllers-0",
        "labels": {CLUSTER_LABEL: "shop", ROLE_LABEL: "controller"},
        "annotations": {REVISION: "1"},
    }
    status = {"podIP": "c0", "conditions": [{"type": "Ready", "status": "True"}]}
    kube.put({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": status})
    await context.fleet.observe(CLUSTER)
    kube.remove("Pod", "shop-controllers-0")
    metadata = CLUSTER.metadata.model_copy(update={"uid": "of-the-next"})
    await context.fleet.observe(CLUSTER.model_copy(update={"metadata": metadata}))
    assert [[place.host for place in places] for places in asked] == [["c0"], []]
    await context.aclose()


async def test_a_reconcile_that_outlasts_its_cluster_does_not_affect_the_next_clusters_sessions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, answer = asyncio.Event(), asyncio.Event()

    async def view_of(_: tuple[ControllerPlace, ...]) -> ControllerView:
        asked.set()
        await answer.wait()
        broker = BrokerOverview(0, 7, "i", BrokerState.ONLINE, host="10.0.0.1")
        return ControllerView(ClusterOverview("c", 1000, 1, 9, (broker,)))

    monkeypatch.setattr("sluicegate_operator.fleet.kubernetes.kubernetes.controller_view", view_of)
    meta = {"labels": {CLUSTER_LABEL: "shop", ROLE_LABEL: "broker"}, "annotations": {REVISION: "1"}}
    kube = MemoryKube()
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "shop-brokers-0", **meta}}
    kube.put(pod | {"status": {"podIP": "10.0.0.1"}})
    late = asyncio.create_task(context.fleet.observe(CLUSTER))
    await asked.wait()
    context.fleet.forget(*SHOP)
    answer.set()
    before = (await late).session_pods
    kube.remove("Pod", "shop-brokers-0")
    metadata = CLUSTER.metadata.model_copy(update={"uid": "of-the-next"})
    kube.put(pod | {"status": {"podIP": "10.0.0.1"}})
    after = (await context.fleet.observe(CLUSTER.model_copy(update={"metadata": metadata}))).session_pods
    assert before.keys() == after.keys() == {(0, 7)}
    assert after[0, 7] == kube.take("Pod", "shop-brokers-0")["metadata"]["uid"] != before[0, 7]
    await context.aclose()


CHANGED = {"config": {"connections.max.idle.ms": "590000"}}
FORBIDDEN = KubeError("DELETE shop-brokers-0: 403 admission webhook protects the pod", 403)
WEBHOOK_DOWN = KubeError("failed calling webhook", 500, retriable=True)


@asynccontextmanager
async def _rolling(folder: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pods]:
    """A cluster whose pods all need a restart."""

    async def no_partitions(*_: object) -> Partitions:
        return Partitions(())

    monkeypatch.setattr("sluicegate_operator.engine.rolls.read_partitions", no_partitions)
    async with fleet_world("pods", folder, monkeypatch) as world:
        assert isinstance(world, Pods)
        await world.put()
        world.settle()
        await asyncio.sleep(10)
        await world.put(**CHANGED)
        yield world


def _refuse(world: Pods, monkeypatch: pytest.MonkeyPatch, error: KubeError) -> None:
    async def delete(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(world.kube, "delete", delete)


def _conditions(world: Pods, *types: str) -> list[tuple[str, str]]:
    return [_said(world.kube, type_) for type_ in types]


@pytest.mark.virtual_time
async def test_a_restart_that_the_api_server_refuses_is_told_in_conditions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _rolling(tmp_path, monkeypatch) as world:
        clusters, rolls = ClusterReconciler(world.context), RollReconciler(world.context, blocked_told_after_s=0.0)
        await clusters.reconcile(SHOP)
        await asyncio.sleep(2)
        with monkeypatch.context() as patched:
            _refuse(world, patched, FORBIDDEN)
            noted: list[object] = []
            for _ in range(3):
                assert await rolls.reconcile(SHOP) == REFUSED_RETRY
                noted.append(world.context.progress[SHOP].roll)
                await clusters.reconcile(SHOP)
                world.context.progress[SHOP].config_generation = 2
            assert len(set(noted)) == 1
            await clusters.reconcile(SHOP)
            assert _conditions(world, "Rolling", "RollBlocked", "Stalled") == [("True", "RestartRefused")] * 3
            for type_ in ("Ready", "RollBlocked", "Stalled"):
                message = world.kube.condition("BrokerCluster", "shop", type_)["message"]
                assert "shop-brokers-0 cannot be restarted" in message
                assert "403 admission webhook protects the pod" in message
            assert world.kube.take("BrokerCluster", "shop")["status"]["rollout"]["waiting"][0] == "shop-brokers-0"
            assert _blocked(world.context) == ["RestartRefused"]
            [event] = world.kube.events("RollBlockedRestartRefused")
            assert (event["type"], world.kube.events("ConfigChanged")) == ("Warning", [])
            assert world.down() == set()
        await rolls.reconcile(SHOP)
        assert world.down() == {0}
        assert isinstance(world.context.progress[SHOP].roll, Restart)


@pytest.mark.virtual_time
async def test_a_status_does_not_change_while_each_look_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _rolling(tmp_path, monkeypatch) as world:
        _refuse(world, monkeypatch, FORBIDDEN)
        clusters = ClusterReconciler(world.context)
        await RollReconciler(world.context).reconcile(SHOP)
        for _ in range(2):
            await clusters.reconcile(SHOP)
            await asyncio.sleep(2)
        # The next operator knows only the status.
        world.context.progress.forget(SHOP)
        marked: list[object] = []
        world.context.mark = lambda queue, _: marked.append((queue, world.context.progress[SHOP].roll))
        rolls = RollReconciler(world.context)
        for _ in range(3):
            await rolls.reconcile(SHOP)
        assert marked == [("clusters", world.context.progress[SHOP].roll)]


@pytest.mark.virtual_time
async def test_a_scale_goes_on_while_a_restart_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with _rolling(tmp_path, monkeypatch) as world:
        _refuse(world, monkeypatch, FORBIDDEN)
        await world.put(brokers={"replicas": 2, "storage": {"size": "10Gi"}}, **CHANGED)
        await RollReconciler(world.context).reconcile(SHOP)
        assert world.kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == 2


@pytest.mark.virtual_time
@pytest.mark.parametrize(
    ("error", "first"),
    [(WEBHOOK_DOWN, pytest.raises(KubeError)), (KubeConflictError("it has been modified"), nullcontext())],
)
async def test_a_restart_that_may_be_accepted_later_is_told_when_that_lasts(
    error: KubeError, first: AbstractContextManager[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _rolling(tmp_path, monkeypatch) as world:
        clusters, rolls = ClusterReconciler(world.context), RollReconciler(world.context)
        _refuse(world, monkeypatch, error)
        with first:
            await rolls.reconcile(SHOP)
        assert isinstance(world.context.progress[SHOP].roll, Restart), "it may pass"
        await clusters.reconcile(SHOP)
        await asyncio.sleep(TOLD_AFTER_S)
        assert await rolls.reconcile(SHOP) == REFUSED_RETRY
        await clusters.reconcile(SHOP)
        assert _conditions(world, "RollBlocked", "Reconciling") == [("True", "NotApplied"), ("True", "Rolling")]
        assert str(error) in world.kube.condition("BrokerCluster", "shop", "RollBlocked")["message"]


@pytest.mark.virtual_time
@pytest.mark.parametrize("error", [FORBIDDEN, WEBHOOK_DOWN])
async def test_a_pod_that_is_protected_keeps_no_other_of_its_rack_waiting(
    error: KubeError, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    why = (RestartReason(ReasonKind.IMAGE_CHANGED, "a to b"),)
    rack = Restart(tuple(PlannedRestart(f"shop-brokers-{number}", Role.BROKER, number, why) for number in (0, 1)))
    async with _rolling(tmp_path, monkeypatch) as world:
        monkeypatch.setattr("sluicegate_operator.engine.rolls.plan_roll", lambda _: rack)
        delete = world.kube.delete

        async def protected(kind: Any, namespace: str, name: str, **options: str) -> None:
            if name == "shop-brokers-0":
                raise error
            await delete(kind, namespace, name, **options)

        monkeypatch.setattr(world.kube, "delete", protected)
        with pytest.raises(KubeError) if error.retriable else nullcontext():
            await RollReconciler(world.context).reconcile(SHOP)
        assert world.down() == {1}
        step = world.context.progress[SHOP].roll
        if error.retriable:
            assert step == rack, "it may pass"
            return
        assert isinstance(step, WaitForNodes)
        assert (step.reason, step.waiting) == (WaitReason.RESTART_REFUSED, ("shop-brokers-0",))


@pytest.mark.virtual_time
async def test_a_pod_whose_label_cannot_be_put_back_does_not_stop_a_roll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _rolling(tmp_path, monkeypatch) as world:
        meta = world.kube.take("Pod", "shop-brokers-2")["metadata"]
        meta["labels"] = {key: value for key, value in meta["labels"].items() if key != CLUSTER_LABEL}
        await RollReconciler(world.context).reconcile(SHOP)
        assert world.down() == {0}


@pytest.mark.virtual_time
async def test_a_revision_that_cannot_be_written_does_not_stop_a_roll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with _rolling(tmp_path, monkeypatch) as world:
        nodes = KubernetesFleet.nodes

        async def respelled(*arguments: Any) -> NodesSeen:
            seen = await nodes(*arguments)
            assert seen is not None
            return replace(seen, respelled={"shop-brokers-1": "new"})

        async def refused(*_: object) -> None:
            raise WEBHOOK_DOWN

        monkeypatch.setattr(KubernetesFleet, "nodes", respelled)
        monkeypatch.setattr(KubernetesFleet, "respell", refused)
        await RollReconciler(world.context).reconcile(SHOP)
        assert world.down() == {0}
