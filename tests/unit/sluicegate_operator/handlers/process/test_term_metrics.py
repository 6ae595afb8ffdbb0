"""The figures of a leading operator on its clusters, and their lifetime."""

import asyncio
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.fleet.kafka.controllers import ControllerView
from sluicegate_operator.fleet.kubernetes.kubernetes import KubernetesFleet, Sighting
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.process.term_metrics import PipelineMetrics, TermMetrics
from sluicegate_operator.handlers.term import reconcilers
from sluicegate_operator.planning.certificates.cluster_ca_status import CertificatesSeen
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.rolls.roll import Done, WaitForNodes, WaitReason
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import cluster, quota
from tests.support.manifests.pipeline_manifests import pipeline

SHOP = ("default", "shop")
OF_SHOP = 'broker_cluster="shop",namespace="default"'


@pytest.fixture
def figures() -> TermMetrics:
    return TermMetrics()


def shown(figures: TermMetrics) -> dict[str, float]:
    registry = CollectorRegistry()
    registry.register(figures)
    lines = [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_quotas_and_brokers_are_counted_by_state_and_what_is_gone_is_not_shown(figures: TermMetrics) -> None:
    figures.note_quotas(SHOP, {"a": "Enforced", "b": "Applying", "c": "Enforced"})
    figures.note_brokers(SHOP, "uid", 3, ["Online", "Fenced", "Online"])
    found = shown(figures)
    assert found[f'sluicegate_quotas{{{OF_SHOP},state="Enforced"}}'] == 2
    assert found[f'sluicegate_quotas{{{OF_SHOP},state="Applying"}}'] == 1
    assert found[f'sluicegate_brokers{{{OF_SHOP},state="Fenced"}}'] == 1
    assert found[f"sluicegate_brokers_wanted{{{OF_SHOP}}}"] == 3
    figures.note_quotas(SHOP, {"a": "Enforced"})
    assert f'sluicegate_quotas{{{OF_SHOP},state="Applying"}}' not in shown(figures)
    figures.note_quotas(SHOP, None)
    figures.forget_brokers(SHOP)
    assert shown(figures) == {}


@pytest.mark.parametrize(
    ("step", "blocked"),
    [
        (WaitForNodes(WaitReason.BELOW_MIN_ISR, "orders-0"), True),
        (WaitForNodes(WaitReason.NODE_FAILING, "ImagePullBackOff"), True),
        (WaitForNodes(WaitReason.PAUSED, "a person wants it so"), False),
        (WaitForNodes(WaitReason.NODE_NOT_READY, "it is coming back"), False),
        (Done(), False),
        (None, False),
    ],
)
def test_a_roll_is_blocked_by_what_does_not_pass_by_itself(
    figures: TermMetrics, step: WaitForNodes | Done | None, blocked: bool
) -> None:
    figures.note_roll(SHOP, WaitForNodes(WaitReason.CONTROLLER_UNKNOWN, "it does not answer"))
    figures.note_roll(SHOP, step)
    series = [name for name in shown(figures) if name.startswith("sluicegate_roll_blocked")]
    assert series == ([f'sluicegate_roll_blocked{{{OF_SHOP},reason="{step.reason}"}}'] if blocked else [])  # type: ignore[union-attr]


def test_pipelines_are_shown_as_they_were_last_seen(figures: TermMetrics) -> None:
    figures.note_pipelines(SHOP, {"daily": PipelineMetrics(True, None), "hourly": PipelineMetrics(False, 7)})
    found = {name: value for name, value in shown(figures).items() if "pipeline" in name}
    assert found == {
        f'sluicegate_audit_pipeline_failing{{{OF_SHOP},pipeline="daily"}}': 1,
        f'sluicegate_audit_pipeline_failing{{{OF_SHOP},pipeline="hourly"}}': 0,
        f'sluicegate_audit_pipeline_missing_events{{{OF_SHOP},pipeline="hourly"}}': 7,
    }
    figures.note_pipelines(SHOP, {})
    assert not [name for name in shown(figures) if "pipeline" in name]


def context_of(kube: MemoryKube) -> Context:
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    context.is_due = lambda queue, key: False
    return context


async def test_the_last_pod_of_a_deleted_cluster_takes_no_figure_of_its_quotas_and_pipelines_away() -> None:
    context = context_of(MemoryKube(quota(), pipeline()))
    work = reconcilers(context, context.settings)
    for queue in (Queue.QUOTAS, Queue.STATUSES, Queue.PIPELINES):
        await work[queue](SHOP)
    before = shown(context.figures)
    assert before[f'sluicegate_quotas{{{OF_SHOP},state="ClusterMissing"}}'] == 1
    # The queues that a deleted pod marks.
    for queue in (Queue.REGISTRATIONS, Queue.RACKS, Queue.ROLLS, Queue.CLUSTERS, Queue.LISTENERS):
        await work[queue](SHOP)
    assert shown(context.figures) == before
    await context.aclose()


async def test_brokers_of_an_earlier_cluster_of_the_name_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = MemoryKube(cluster())
    context = context_of(kube)
    online = ClusterOverview("c", 1000, 1, 9, (BrokerOverview(0, 7, "i", BrokerState.ONLINE),))
    view = ControllerView(online)

    async def look(*_: Any, **__: Any) -> Sighting:
        return Sighting(view, ())

    monkeypatch.setattr(KubernetesFleet, "observe", look)
    registrations = reconcilers(context, context.settings)[Queue.REGISTRATIONS]
    await registrations(SHOP)
    before = shown(context.figures)
    assert before[f'sluicegate_brokers{{{OF_SHOP},state="Online"}}'] == 1
    view = ControllerView(unseen="no controller has an address yet")
    await registrations(SHOP)
    assert shown(context.figures) == before, "it is the same cluster"
    kube.remove("BrokerCluster", "shop")
    kube.put(cluster())
    await registrations(SHOP)
    assert shown(context.figures) == {}
    await context.aclose()


async def test_brokers_that_were_asked_for_before_a_deletion_are_not_shown_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kube = MemoryKube(cluster())
    context = context_of(kube)
    work = reconcilers(context, context.settings)
    asked, answer = asyncio.Event(), asyncio.Event()
    broker = BrokerOverview(0, 7, "i", BrokerState.OFFLINE)

    async def look(*_: Any) -> Sighting:
        asked.set()
        await answer.wait()
        return Sighting(ControllerView(ClusterOverview("c", 1000, 1, 9, (broker,))), ())

    monkeypatch.setattr(KubernetesFleet, "observe", look)
    late = asyncio.ensure_future(work[Queue.REGISTRATIONS](SHOP))
    await asked.wait()
    kube.remove("BrokerCluster", "shop")
    await work[Queue.ROLLS](SHOP)
    answer.set()
    await late
    assert shown(context.figures)[f'sluicegate_brokers{{{OF_SHOP},state="Offline"}}'] == 1
    await work[Queue.REGISTRATIONS](SHOP)
    assert shown(context.figures) == {}
    await context.aclose()


def test_the_ends_of_a_clusters_certificates_are_shown_while_it_has_some(figures: TermMetrics) -> None:
    figures.note_certificates(SHOP, CertificatesSeen(usable=True, authority_ends_s=2e9, certificate_ends_s=1e9))
    name = "sluicegate_cluster_certificate_end_seconds"
    assert shown(figures) == {
        f'{name}{{broker_cluster="shop",certificate="authority",namespace="default"}}': 2e9,
        f'{name}{{broker_cluster="shop",certificate="nodes",namespace="default"}}': 1e9,
    }
    figures.note_certificates(SHOP, None)
    assert shown(figures) == {}
