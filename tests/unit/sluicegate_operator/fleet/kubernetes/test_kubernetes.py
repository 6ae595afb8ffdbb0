"""The applied children of a cluster, by what is known of them."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from sluicegate_operator.fleet.kubernetes.kubernetes import KubernetesFleet
from sluicegate_operator.fleet.pods.node_sets import broker_replicas
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.kube.http.errors import KubeConflictError, KubeError
from sluicegate_operator.kube.http.kinds import STATEFUL_SET, Kind
from sluicegate_operator.resources.labels import CLUSTER_LABEL, ROLE_LABEL
from tests.support.fakes.kube.memory_kube import MemoryCache, MemoryKube
from tests.support.manifests.bad_manifests import cluster
from tests.support.worlds.fleet_worlds import Pods, fleet_world, shop

SHOP = ("default", "shop")


async def test_a_cache_that_is_behind_takes_no_broker_away(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = MemoryKube(cluster())
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    fleet = KubernetesFleet(kube)  # type: ignore[arg-type]
    await fleet.apply(found, [])
    brokers = kube.take("StatefulSet", "shop-brokers")
    past = deepcopy(brokers)
    # By another operator that led meanwhile, for a spec that this one has not seen either.
    brokers["spec"]["replicas"] += 2

    async def as_it_was(cache: MemoryCache, kind: Kind, namespace: str, name: str) -> Any:
        known = await kube.get(kind, namespace, name)
        return past if kind == STATEFUL_SET and name == "shop-brokers" else known

    with monkeypatch.context() as patched:
        patched.setattr(MemoryCache, "get", as_it_was)
        with pytest.raises(KubeConflictError, match="requests 5 brokers"):
            await fleet.apply(found, [])
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == past["spec"]["replicas"] + 2
    await fleet.apply(found, [])
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == past["spec"]["replicas"] + 2
    await fleet.apply(found, [], past["spec"]["replicas"])
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == past["spec"]["replicas"]


@pytest.mark.parametrize("label", [CLUSTER_LABEL, ROLE_LABEL])
async def test_a_statefulset_that_lost_a_label_gets_it_back_while_brokers_are_to_go(
    monkeypatch: pytest.MonkeyPatch, label: str
) -> None:
    kube = MemoryKube(cluster(brokers={"replicas": 3, "storage": {"size": "1Gi"}}))
    fleet = KubernetesFleet(kube)  # type: ignore[arg-type]
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    await fleet.apply(found, [])
    kube.put(cluster(brokers={"replicas": 1, "storage": {"size": "1Gi"}}))
    brokers = kube.take("StatefulSet", "shop-brokers")["metadata"]
    del brokers["labels"][label]
    brokers["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {"f:replicas": {}}}}]

    async def labelled(cache: MemoryCache, kind: Kind, namespace: str, name: str) -> Any:
        known = await kube.get(kind, namespace, name)
        return known if known is not None and CLUSTER_LABEL in known["metadata"]["labels"] else None

    monkeypatch.setattr(MemoryCache, "get", labelled)
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    assert await broker_replicas(kube, found) == 3, "their Services stay"  # type: ignore[arg-type]
    applied = await fleet.apply(found, [])
    assert "by kubectl" in applied.scaled_by_others[0]
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == 3
    assert label in kube.take("StatefulSet", "shop-brokers")["metadata"]["labels"]


VELERO, OPERATOR, KUBECTL = (
    {"manager": manager, "operation": operation, "fieldsV1": {"f:spec": {"f:replicas": {}}}}
    for manager, operation in (("velero-server", "Update"), ("sluicegate-operator", "Apply"), ("kubectl", "Update"))
)


@pytest.mark.parametrize(
    ("owners", "replicas", "told"),
    [
        pytest.param([KUBECTL], 5, "was scaled to 5 by kubectl", id="another number"),
        pytest.param([VELERO, OPERATOR], 3, "", id="the same number"),
        pytest.param([VELERO, OPERATOR], 5, "", id="the operator's own number of an earlier spec"),
        pytest.param([KUBECTL], 3, "", id="the number of the spec, set by hand before"),
    ],
)
async def test_a_statefulset_is_scaled_by_others_only_if_they_have_changed_the_number(
    owners: list[dict[str, Any]], replicas: int, told: str
) -> None:
    kube = MemoryKube(cluster())
    fleet = KubernetesFleet(kube)  # type: ignore[arg-type]
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    await fleet.apply(found, [])
    brokers = kube.take("StatefulSet", "shop-brokers")
    brokers["spec"]["replicas"] = replicas
    brokers["metadata"]["managedFields"] = owners
    sentences = (await fleet.apply(found, [])).scaled_by_others
    assert len(sentences) == bool(told)
    assert told in "".join(sentences)


async def test_a_pod_that_has_lost_its_label_is_the_same_pod_before_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with fleet_world("pods", tmp_path, monkeypatch) as world:
        assert isinstance(world, Pods)
        await world.put()
        world.settle()
        meta = world.kube.take("Pod", "shop-brokers-1")["metadata"]
        meta["labels"] = {key: value for key, value in meta["labels"].items() if key != CLUSTER_LABEL}
        fleet, found = world.context.fleet, await shop(world)
        seen = await fleet.nodes(found, ())
        assert seen is not None
        await fleet.check(found, seen)
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        with pytest.raises(KubeConflictError, match="shop-brokers-1 changed"):
            await fleet.check(found, seen)


async def test_nodes_do_not_wait_for_a_network_policy_that_cannot_be_deleted() -> None:
    kube = MemoryKube(cluster())
    fleet = KubernetesFleet(kube)  # type: ignore[arg-type]
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    await fleet.apply(found, [])

    async def refused(*_: Any, **__: Any) -> None:
        raise KubeError("403 deletion protected", 403)

    kube.delete = refused  # type: ignore[method-assign]
    kube.put(cluster(networkPolicies=False, brokers={"replicas": 5, "storage": {"size": "10Gi"}}))
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    with pytest.raises(KubeError, match="deletion protected"):
        await fleet.apply(found, [])
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == 5
