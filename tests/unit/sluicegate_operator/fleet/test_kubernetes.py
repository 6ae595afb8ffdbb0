"""What is applied to a cluster's children by what is known of them."""

from copy import deepcopy
from typing import Any

import pytest

from sluicegate_operator.fleet.kubernetes import KubernetesFleet
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.kube.errors import KubeConflictError
from sluicegate_operator.kube.kinds import STATEFUL_SET, Kind
from tests.support.bad_manifests import cluster
from tests.support.memory_kube import MemoryCache, MemoryKube

SHOP = ("default", "shop")


async def test_a_cache_that_is_behind_takes_no_broker_away(monkeypatch: pytest.MonkeyPatch) -> None:
    kube = MemoryKube(cluster())
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    fleet = KubernetesFleet(kube)  # type: ignore[arg-type]
    await fleet.apply(found, [])
    brokers = kube.take("StatefulSet", "shop-brokers")
    past = deepcopy(brokers)
    # By another operator that led meanwhile, for a spec of which this one has not heard either.
    brokers["spec"]["replicas"] += 2

    async def as_it_was(cache: MemoryCache, kind: Kind, namespace: str, name: str) -> Any:
        known = await kube.get(kind, namespace, name)
        return past if kind == STATEFUL_SET and name == "shop-brokers" else known

    with monkeypatch.context() as patched:
        patched.setattr(MemoryCache, "get", as_it_was)
        with pytest.raises(KubeConflictError, match="asks for"):
            await fleet.apply(found, [])
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == past["spec"]["replicas"] + 2
    await fleet.apply(found, [])
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == past["spec"]["replicas"] + 2
    await fleet.apply(found, [], past["spec"]["replicas"])
    assert kube.take("StatefulSet", "shop-brokers")["spec"]["replicas"] == past["spec"]["replicas"]
