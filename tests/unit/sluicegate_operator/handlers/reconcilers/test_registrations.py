"""When a quiet cluster is reconciled less often, which brokers are fenced, and the statuses of brokers."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.engine.work_queue import REFUSED_RETRY
from sluicegate_operator.fleet.external.external_fleet import ExternalFleet
from sluicegate_operator.fleet.kafka.controllers import ControllerPlace, ControllerView
from sluicegate_operator.fleet.kubernetes.kubernetes import KubernetesFleet, Sighting
from sluicegate_operator.fleet.pods.pods import NodePod
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers import registrations
from sluicegate_operator.handlers.reconcilers.registrations import UNKNOWN_AFTER_S, RegistrationReconciler, settled
from sluicegate_operator.kafka_admin.errors import KafkaApiError
from sluicegate_operator.kube.http.errors import KubeError
from sluicegate_operator.planning.external.external_status import ExternalBroker, ExternalSeen
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.registrations.fencing import ContainerEnd, FenceOrder
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.resources.broker_registration import broker_registration
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import cluster, external

CLUSTER = BrokerCluster.model_validate(
    {"metadata": {"name": "shop"}, "spec": {"brokers": {"replicas": 2, "storage": {"size": "1Gi"}}}}
)


def pod(ordinal: int) -> NodePod:
    return NodePod(f"shop-brokers-{ordinal}", Role.BROKER, ordinal, f"10.0.0.{ordinal}", ready=True)


def broker(id_: int) -> BrokerOverview:
    return BrokerOverview(id_, 7, "i", BrokerState.ONLINE, host=f"10.0.0.{id_}", heartbeat_age_s=0.5)


def seen(pods: list[NodePod], brokers: list[BrokerOverview] | None) -> Sighting:
    overview = None if brokers is None else ClusterOverview("c", 1000, 1, 9, tuple(brokers))
    return Sighting(ControllerView(overview), tuple(pods))


BOTH, ONLINE = [pod(0), pod(1)], [broker(0), broker(1)]


@pytest.mark.parametrize(
    ("sighting", "quiet"),
    [
        (seen(BOTH, ONLINE), True),
        (seen(BOTH, None), False),
        (seen(BOTH, [broker(0)]), False),
        (seen(BOTH, [broker(0), replace(broker(1), state=BrokerState.FENCED)]), False),
        (seen(BOTH, [broker(0), replace(broker(1), out_of_sync=1)]), False),
        (seen([pod(0), replace(pod(1), ready=False)], ONLINE), False),
        (seen([pod(0), replace(pod(1), deleting=True)], ONLINE), False),
        # A broker that is scaled away is watched until it is unregistered.
        (seen(BOTH, [*ONLINE, broker(2)]), False),
    ],
)
def test_only_a_cluster_without_changes_is_polled_less_often(sighting: Sighting, quiet: bool) -> None:
    assert settled(CLUSTER, sighting) is quiet


def test_a_broker_is_fenced_if_its_pod_is_deleted_but_not_while_it_terminates() -> None:
    going = [pod(0), replace(pod(1), deleting=True)]
    assert seen(going, ONLINE).fence_orders() == ()
    [order] = seen([pod(0)], ONLINE).fence_orders()
    assert (order.broker_id, order.epoch) == (1, 7)


def test_a_broker_on_a_lost_node_is_not_fenced_while_its_heartbeats_arrive() -> None:
    lost = [pod(0), replace(pod(1), node_lost=True)]
    assert seen(lost, ONLINE).fence_orders() == ()
    silent = [broker(0), replace(broker(1), heartbeat_age_s=4.0)]
    assert [order.broker_id for order in seen(lost, silent).fence_orders()] == [1]


def test_a_broker_whose_container_ended_is_fenced_once() -> None:
    crashed = [pod(0), replace(pod(1), ended=ContainerEnd(1000, "Error, exit code 137"))]
    view = [broker(0), replace(broker(1), began_ms=900)]
    assert [order.broker_id for order in seen(crashed, view).fence_orders()] == [1]
    assert seen(crashed, view).fence_orders([(1, 7)]) == ()


def test_without_a_controllers_word_nobody_is_fenced() -> None:
    assert seen([], None).fence_orders() == ()


SHOP = ("default", "shop")


class Shop:
    """A BrokerCluster in an API server, and the `sighting` that each observation returns."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, sighting: Sighting, *objects: Any) -> None:
        self.kube = MemoryKube(cluster(), *objects)
        self.context = Context(self.kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
        self.context.mark = lambda queue, key: None
        self.sighting = sighting
        monkeypatch.setattr(KubernetesFleet, "observe", self._look)
        self._reconciler = RegistrationReconciler(self.context)

    async def _look(self, *_: Any, **__: Any) -> Sighting:
        return self.sighting

    async def reconcile(self) -> None:
        await self._reconciler.reconcile(SHOP)

    def states(self) -> list[str]:
        names = self.kube.names("BrokerRegistration")
        return [self.kube.take("BrokerRegistration", name)["status"]["state"] for name in names]

    def figures(self) -> dict[str, float]:
        [brokers] = [one for one in self.context.figures.collect() if one.name == "sluicegate_brokers"]
        return {sample.labels["state"]: sample.value for sample in brokers.samples}


async def test_a_registration_that_a_deletion_has_orphaned_gets_the_next_cluster_as_its_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    orphan = broker_registration(CLUSTER, 0)
    orphan["metadata"] |= {"namespace": "default", "ownerReferences": []}
    shop = Shop(monkeypatch, seen(BOTH, ONLINE), orphan)
    for _ in range(2):
        await shop.reconcile()
    uid = shop.kube.take("BrokerCluster", "shop")["metadata"]["uid"]
    for name in ("shop-0", "shop-1"):
        [owner] = shop.kube.take("BrokerRegistration", name)["metadata"]["ownerReferences"]
        assert owner["uid"] == uid
    await shop.context.aclose()


async def test_one_registration_that_is_refused_keeps_no_other_from_being_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(monkeypatch, seen(BOTH, ONLINE))
    apply = shop.kube.apply

    async def refuse(manifest: Any, *more: Any) -> Any:
        if manifest["metadata"]["name"] == "shop-0":
            raise KubeError("422 denied by a policy", 422)
        return await apply(manifest, *more)

    monkeypatch.setattr(shop.kube, "apply", refuse)
    for _ in range(2):
        await shop.reconcile()
    assert shop.states() == ["Online"]
    assert caplog.text.count("the API server refused BrokerRegistration shop-0: 422 denied by a policy") == 1
    [event] = shop.kube.events("Refused")
    assert (event["involvedObject"]["kind"], event["type"], event["count"]) == ("BrokerCluster", "Warning", 1)
    await shop.context.aclose()


async def test_a_registration_that_is_being_deleted_keeps_no_other_from_being_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(monkeypatch, seen(BOTH, ONLINE))
    await shop.reconcile()
    shop.kube.take("BrokerRegistration", "shop-0")["metadata"]["finalizers"] = ["example.org/backup"]
    shop.kube.delete_as_a_person("BrokerRegistration", "shop-0")
    shop.sighting = seen(BOTH, [broker(0), replace(broker(1), state=BrokerState.FENCED)])
    for _ in range(2):
        await shop.reconcile()
    assert shop.states() == ["Online", "Fenced"]
    going = shop.kube.take("BrokerRegistration", "shop-0")["metadata"]["uid"]
    shop.kube.remove("BrokerRegistration", "shop-0")
    await shop.reconcile()
    assert shop.kube.take("BrokerRegistration", "shop-0")["metadata"]["uid"] != going
    assert shop.states() == ["Online", "Fenced"]
    await shop.context.aclose()


@pytest.mark.parametrize("labelled", [True, False])
async def test_a_terminating_registration_of_an_earlier_cluster_does_not_block_others(
    monkeypatch: pytest.MonkeyPatch, labelled: bool
) -> None:
    old = broker_registration(CLUSTER, 0)
    old["metadata"] |= {"namespace": "default", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a.b/c"]}
    if labelled:
        old["metadata"]["ownerReferences"][0]["uid"] = "of-the-earlier-cluster"
    else:
        del old["metadata"]["labels"]
    shop = Shop(monkeypatch, seen(BOTH, ONLINE), old)
    uid = shop.kube.take("BrokerCluster", "shop")["metadata"]["uid"]
    if not labelled:
        shop.kube.take("BrokerRegistration", "shop-0")["metadata"]["ownerReferences"][0]["uid"] = uid
    for _ in range(2):
        await shop.reconcile()
    assert "status" not in shop.kube.take("BrokerRegistration", "shop-0")
    assert shop.kube.take("BrokerRegistration", "shop-1")["status"]["state"] == "Online"
    await shop.context.aclose()


async def test_a_refused_deletion_is_in_the_status_and_keeps_no_other_from_being_deleted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(monkeypatch, seen(BOTH, [*ONLINE, broker(2)]))
    await shop.reconcile()
    delete = shop.kube.delete

    async def refuse(kind: Any, namespace: str, name: str, **options: Any) -> None:
        if name == "shop-1":
            raise KubeError("403 denied by a policy", 403)
        await delete(kind, namespace, name, **options)

    with monkeypatch.context() as patched:
        patched.setattr(shop.kube, "delete", refuse)
        shop.sighting = seen([pod(0)], [broker(0)])
        for _ in range(2):
            await shop.reconcile()
    assert shop.kube.names("BrokerRegistration") == ["shop-0", "shop-1"]
    assert shop.states() == ["Online", "Offline"]
    stalled = shop.kube.condition("BrokerRegistration", "shop-1", "Stalled")
    assert (stalled["status"], stalled["reason"]) == ("True", "Refused")
    assert "broker 1 is not registered any more" in stalled["message"]
    assert "403 denied by a policy" in stalled["message"]
    assert [event["count"] for event in shop.kube.events("Refused")] == [1]
    assert caplog.text.count("the API server refused BrokerRegistration shop-1: 403 denied by a policy") == 1
    shop.sighting = seen(BOTH, ONLINE)
    await shop.reconcile()
    assert shop.states() == ["Online", "Online"], "the broker has registered again"
    shop.sighting = seen([pod(0)], [broker(0)])
    await shop.reconcile()
    assert shop.kube.names("BrokerRegistration") == ["shop-0"]
    await shop.context.aclose()


async def test_a_pod_that_a_policy_protects_keeps_no_other_from_being_opened_to_clients(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    shop = Shop(monkeypatch, seen(BOTH, ONLINE))
    opened = []

    async def set_condition(_: str, name: str, *__: Any) -> None:
        if name == "shop-brokers-0":
            raise KubeError("403 denied by a policy", 403)
        opened.append(name)

    monkeypatch.setattr(shop.kube, "set_pod_condition", set_condition)
    for _ in range(2):
        await shop.reconcile()
    assert opened == ["shop-brokers-1", "shop-brokers-1"]
    assert shop.states() == ["Online", "Online"]
    assert caplog.text.count("pod shop-brokers-0: its readiness gate was not set: 403 denied by a policy") == 1
    await shop.context.aclose()


@pytest.mark.virtual_time
async def test_a_refused_release_of_a_lease_is_reported_and_brokers_become_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(monkeypatch, seen(BOTH, ONLINE))
    shop.kube.put(cluster(controllers={"replicas": 3}))

    async def refuse(*_: Any) -> str:
        raise KubeError("PUT lease: 403 denied by a policy", 403)

    monkeypatch.setattr("sluicegate_operator.handlers.reconcilers.registrations.end_term_of_gone", refuse)
    await shop.reconcile()
    shop.sighting = Sighting(ControllerView(unseen="controller 1000: refused"), tuple(BOTH))
    for _ in range(2):
        await shop.reconcile()
        await asyncio.sleep(UNKNOWN_AFTER_S)
    await shop.reconcile()
    assert shop.states() == ["Unknown", "Unknown"]
    [event] = shop.kube.events("Refused")
    assert event["count"] == 1
    assert (
        "the Lease of a controller that no longer exists cannot be released: PUT lease: 403 denied" in event["message"]
    )
    await shop.context.aclose()


@pytest.mark.virtual_time
async def test_brokers_are_unknown_once_no_controller_has_answered_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(monkeypatch, seen(BOTH, [broker(0), replace(broker(1), state=BrokerState.FENCED)]))
    marked: list[str] = []
    shop.context.mark = lambda queue, key: marked.append(queue)
    await shop.reconcile()
    silent = Sighting(ControllerView(unseen="controller 1000 does not answer within 2 s"), tuple(BOTH))
    shop.sighting = silent
    await shop.reconcile()
    await asyncio.sleep(UNKNOWN_AFTER_S - 1)
    await shop.reconcile()
    assert shop.states() == ["Online", "Fenced"], "it may be replaced"
    await asyncio.sleep(1)
    for _ in range(2):
        await shop.reconcile()
    assert shop.states() == ["Unknown", "Unknown"]
    said = shop.kube.condition("BrokerRegistration", "shop-0")
    assert (said["status"], said["reason"]) == ("False", "Unknown")
    assert "controller 1000 does not answer" in said["message"]
    status = shop.kube.take("BrokerRegistration", "shop-0")["status"]
    assert (status["brokerEpoch"], status.get("lastHeartbeatAgeSeconds"), status.get("leaders")) == (7, None, None)
    assert shop.figures() == {"Unknown": 2}
    assert len(shop.kube.events("BrokerUnknown")) == 2
    progress = shop.context.progress[SHOP]
    assert (progress.controller_id, marked.count("clusters")) == (-1, 2)
    assert "controller 1000 does not answer" in progress.silence
    shop.sighting = seen(BOTH, ONLINE)
    await shop.reconcile()
    assert (progress.controller_id, progress.silence, marked.count("clusters")) == (1000, "", 3)
    assert (shop.states(), shop.figures()) == (["Online", "Online"], {"Online": 2})
    shop.sighting = silent
    await shop.reconcile()
    assert shop.states() == ["Online", "Online"], "it is a new silence"
    await shop.context.aclose()


@pytest.mark.virtual_time
async def test_brokers_of_an_external_cluster_are_unknown_once_none_has_answered_for_a_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(monkeypatch, seen([], None))
    document = external(clusterId="A" * 22)
    shop.kube.put(document | {"metadata": {"name": "shop"}})
    looks = [ExternalSeen("A" * 22, (ExternalBroker(1, "kafka", 9092),)), *[ExternalSeen(unseen="cannot connect")] * 3]
    monkeypatch.setattr(ExternalFleet, "observe", _given(iter(looks)))
    monkeypatch.setattr(ExternalFleet, "count_replicas", _given(repeat({})))
    states: list[str] = []
    for _ in looks:
        await shop.reconcile()
        states.append(*shop.states())
        await asyncio.sleep(UNKNOWN_AFTER_S / 2)
    assert states == ["Online", "Online", "Online", "Unknown"]
    assert "cannot connect" in shop.kube.condition("BrokerRegistration", "shop-1")["message"]
    await shop.context.aclose()


def _given(answers: Iterator[Any]) -> Any:
    async def answer(*_: Any) -> Any:
        return next(answers)

    return answer


@pytest.mark.virtual_time
async def test_a_readiness_gate_that_is_refused_is_told_and_tried_again_after_a_pause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pods = [replace(pod(number), uid=f"pod-{number}", ready=False) for number in (0, 1)]
    shop = Shop(monkeypatch, seen(pods, ONLINE))
    tries: list[str] = []

    async def refuse(namespace: str, name: str, *_: Any) -> None:
        tries.append(name)
        raise KubeError(f'pods "{name}" is forbidden: cannot patch resource "pods/status"', 403)

    with monkeypatch.context() as refused:
        refused.setattr(shop.kube, "set_pod_condition", refuse, raising=False)
        for _ in range(5):
            await shop.reconcile()
        assert len(tries) == 2, "each pod once"
        stored = parse_resource(shop.kube.take("BrokerCluster", "shop"))
        assert isinstance(stored, BrokerCluster)
        progress = shop.context.progress.of(stored)
        assert "readiness gate sluicegate.dev/unfenced of pod shop-brokers-0" in progress.gate_refused
        assert "forbidden" in progress.gate_refused
        [event] = shop.kube.events("Refused")
        assert (event["type"], "forbidden" in event["message"]) == ("Warning", True)
        await asyncio.sleep(REFUSED_RETRY.first_s)
        await shop.reconcile()
        assert len(tries) == 4
        # Another verdict is another request.
        shop.sighting = seen(pods, [replace(broker(0), state=BrokerState.FENCED), broker(1)])
        await shop.reconcile()
        assert tries[4:] == ["shop-brokers-0"]
    set_: list[str] = []

    async def accept(namespace: str, name: str, *_: Any) -> None:
        set_.append(name)

    monkeypatch.setattr(shop.kube, "set_pod_condition", accept, raising=False)
    await asyncio.sleep(REFUSED_RETRY.max_s)
    await shop.reconcile()
    assert (sorted(set_), progress.gate_refused) == (["shop-brokers-0", "shop-brokers-1"], "")
    await shop.context.aclose()


async def test_a_fence_order_that_is_refused_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    overview = ClusterOverview("c", 1000, 1, 9, tuple(ONLINE))
    shop = Shop(monkeypatch, Sighting(ControllerView(overview, ControllerPlace(100, "c0")), ()))
    sent: list[list[int]] = []

    async def refuse_the_first(_: object, orders: Sequence[FenceOrder], *__: object) -> dict[FenceOrder, KafkaApiError]:
        sent.append([order.broker_id for order in orders])
        return {order: KafkaApiError(77, None, "fencing broker 0") for order in orders if order.broker_id == 0}

    monkeypatch.setattr(registrations, "fence", refuse_the_first)
    await shop.reconcile()
    assert sent == [[0, 1]]
    [event] = shop.kube.events("BrokerGone")
    assert "broker 1" in event["message"]
    await shop.context.aclose()
