"""What is told of a roll that waits, and of which spec."""

import logging

import pytest

from sluicegate_operator.api.broker_cluster import BrokerCluster
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.rolls import RollReconciler
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.planning.roll import Wait, WaitReason
from sluicegate_operator.settings import read_settings
from tests.support.bad_manifests import cluster
from tests.support.memory_kube import MemoryKube

SHOP = ("default", "shop")
CLUSTER = BrokerCluster.model_validate(
    {
        "metadata": {"name": "shop", "namespace": "default", "uid": "u"},
        "spec": {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}},
    }
)
NOT_READY = Wait(WaitReason.NODE_NOT_READY, "shop-brokers-0 is not ready")
PAUSED = Wait(WaitReason.PAUSED, "rollout.paused is true")
BLOCKED = Wait(WaitReason.BELOW_MIN_ISR, "orders-0 would have 1 in-sync replicas")


@pytest.fixture
def kube() -> MemoryKube:
    return MemoryKube()


@pytest.fixture
def rolls(kube: MemoryKube) -> RollReconciler:
    return RollReconciler(Context(kube, read_settings({}, None, None, None)))  # type: ignore[arg-type]


async def test_a_look_says_which_spec_it_went_by() -> None:
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
        # Nothing that a node is restarted for.
        kube.put(cluster(resyncSeconds=77))
    await context.close()


async def test_what_it_waits_for_is_logged_once_and_again_when_it_changes(
    rolls: RollReconciler, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for step in (NOT_READY, NOT_READY, NOT_READY, BLOCKED, BLOCKED, NOT_READY):
        await rolls.tell(CLUSTER, step)
    assert [record.getMessage().partition("waits, ")[2] for record in caplog.records] == [
        "NodeNotReady: shop-brokers-0 is not ready",
        "BelowMinIsr: orders-0 would have 1 in-sync replicas",
        "NodeNotReady: shop-brokers-0 is not ready",
    ]


async def test_a_warning_is_for_what_stays_blocked_and_nobody_has_asked_for(
    rolls: RollReconciler, kube: MemoryKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    for step in (BLOCKED, BLOCKED):
        await rolls.tell(CLUSTER, step)
    assert kube.names("Event") == [], "it may pass"
    monkeypatch.setattr("sluicegate_operator.handlers.rolls.BLOCKED_TOLD_AFTER_S", 0.0)
    for step in (PAUSED, PAUSED, NOT_READY, NOT_READY):
        await rolls.tell(CLUSTER, step)
    assert kube.names("Event") == []
    for _ in range(2):
        await rolls.tell(CLUSTER, BLOCKED)
    [event] = kube.events("RollBlockedBelowMinIsr")
    assert event["type"] == "Warning"
