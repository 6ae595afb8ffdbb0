"""The Lease of an active controller whose pod is gone ends at once; any other is left alone."""

from typing import Any

import pytest

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.fleet.kafka.controllers import ControllerView
from sluicegate_operator.fleet.pods.controller_lease import end_term_of_gone
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.registrations import RegistrationReconciler
from sluicegate_operator.kube.http.kinds import LEASE
from sluicegate_operator.planning.layout.cluster_layout import journal_name
from sluicegate_operator.planning.registrations.controller_lease import ADDRESS, JOURNAL_LABEL
from sluicegate_operator.resources.labels import CLUSTER_LABEL, REVISION, ROLE_LABEL
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.support.manifests.bad_manifests import cluster

SHOP = ("default", "shop")


def kube_with(*objects: Json, **spec: Any) -> tuple[MemoryKube, BrokerCluster]:
    kube = MemoryKube(cluster(controllers={"replicas": 3, "storage": {"size": "1Gi"}}, **spec), *objects)
    found = BrokerCluster.model_validate(
        {key: kube.take("BrokerCluster", "shop")[key] for key in ("apiVersion", "kind", "metadata", "spec")}
    )
    name = journal_name(found)
    kube.put(
        {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {
                "name": name,
                "labels": {JOURNAL_LABEL: name},
                "annotations": {ADDRESS: "10.0.0.1:9093"},
            },
            "spec": {"holderIdentity": "1001_4cf186ee", "leaseTransitions": 4},
        }
    )
    return kube, found


def pod(host: str, **labels: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "shop-controllers-1",
            "labels": {CLUSTER_LABEL: "shop", ROLE_LABEL: "controller"} | labels,
            "annotations": {REVISION: "r"},
        },
        "status": {"podIP": host},
    }


def holder(kube: MemoryKube) -> str:
    [name] = kube.names("Lease")
    found: str = kube.take("Lease", name)["spec"]["holderIdentity"]
    return found


@pytest.mark.parametrize("pods", [(), (pod("10.0.0.9"),)], ids=["no pod", "its successor"])
async def test_the_lease_of_a_deleted_pod_is_released(pods: tuple[Json, ...]) -> None:
    kube, shop = kube_with(*pods)
    assert "1001" in await end_term_of_gone(kube, shop)  # type: ignore[arg-type]
    assert holder(kube) == ""
    [name] = kube.names("Lease")
    assert kube.take("Lease", name)["spec"]["leaseTransitions"] == 4
    assert await end_term_of_gone(kube, shop) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize("found", [pod("10.0.0.1"), pod(""), pod("10.0.0.1", **{CLUSTER_LABEL: "taken away"})])
async def test_the_lease_of_one_that_may_be_there_stays(found: Json) -> None:
    kube, shop = kube_with(found)
    assert await end_term_of_gone(kube, shop) == ""  # type: ignore[arg-type]
    assert holder(kube)


async def test_a_lease_that_is_renewed_while_the_pods_are_looked_at_is_its_holders(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kube, shop = kube_with()
    listed = kube.list

    async def renewed_meanwhile(*which: Any, **options: Any) -> list[Json]:
        [name] = kube.names("Lease")
        kube.put(kube.take("Lease", name))
        return await listed(*which, **options)

    monkeypatch.setattr(kube, "list", renewed_meanwhile)
    assert await end_term_of_gone(kube, shop) == ""  # type: ignore[arg-type]
    assert holder(kube)


@pytest.mark.parametrize("paused", [False, True])
async def test_while_no_controller_is_active_the_operator_looks_at_the_lease(
    paused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(_: object) -> ControllerView:
        return ControllerView(unseen="nobody answers")

    monkeypatch.setattr("sluicegate_operator.fleet.kubernetes.kubernetes.controller_view", nobody)
    kube, _ = kube_with(paused=paused)
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    await RegistrationReconciler(context).reconcile(SHOP)
    assert bool(holder(kube)) is paused
    assert len(kube.events("ControllerGone")) == (not paused)
    await context.aclose()
