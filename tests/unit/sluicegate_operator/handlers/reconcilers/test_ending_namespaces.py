"""Nothing is made in a namespace that is being deleted, and everything in one that is created again under its name."""

from collections.abc import Mapping
from typing import Any

import pytest

from sluicegate_operator.api.queues import Queue
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.handlers.reconcilers.ending_namespaces import CREATING, until_namespace_ends
from sluicegate_operator.handlers.snapshot import gather_cluster
from sluicegate_operator.handlers.term import reconcilers
from sluicegate_operator.kube.http.errors import NamespaceGoingError
from sluicegate_operator.kube.http.kinds import Kind
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import Json, cluster, listener

SHOP = ("default", "shop")


class EndingKube(MemoryKube):
    """An API server that refuses every create, as it does in a namespace that is being deleted; counts them."""

    def __init__(self, *objects: Json) -> None:
        super().__init__(*objects)
        self.ending = True
        self.refused = 0

    async def apply(self, manifest: Mapping[str, Any], *arguments: Any) -> Json:
        self._refuse()
        return await super().apply(manifest, *arguments)

    async def create(self, kind: Kind, namespace: str, manifest: Mapping[str, Any]) -> Json:
        self._refuse()
        return await super().create(kind, namespace, manifest)

    def _refuse(self) -> None:
        if self.ending:
            self.refused += 1
            raise NamespaceGoingError("403 because it is being terminated")


def world(kube: MemoryKube) -> tuple[Context, dict[str, Any]]:
    settings = read_settings({"SLUICEGATE_SETTLE_SECONDS": "0"}, None, None, None)
    context = Context(kube, settings)  # type: ignore[arg-type]
    context.mark = lambda queue, key: None
    work = reconcilers(context, settings)
    assert work.keys() >= CREATING
    return context, {name: until_namespace_ends(context, name, reconcile) for name, reconcile in work.items()}


@pytest.mark.parametrize("name", ["clusters", "listeners"])
async def test_what_is_refused_because_the_namespace_ends_is_not_tried_again(name: str) -> None:
    kube = EndingKube(cluster(), listener())
    context, work = world(kube)
    assert await work[name](SHOP) is None
    refused = kube.refused
    assert refused == 1
    for _ in range(3):
        for other in CREATING:
            assert await work[other](SHOP) is None
    found = await gather_cluster(kube, SHOP)  # type: ignore[arg-type]
    assert found is not None
    await context.post(found, "Warning", "Any", "any")
    assert kube.refused == refused, "no Events either"
    await context.aclose()


async def test_a_cluster_that_is_made_again_in_a_new_namespace_is_another_one() -> None:
    kube = EndingKube(cluster(), listener())
    context, work = world(kube)
    await work["clusters"](SHOP)
    kube.remove("BrokerCluster", "shop")
    await work["clusters"](SHOP)
    assert context.ending == {}
    kube.ending = False
    kube.put(cluster())
    await work["clusters"](SHOP)
    assert kube.names("StatefulSet") == ["shop-brokers", "shop-controllers"]
    await context.aclose()


async def test_a_cluster_recreated_at_once_is_not_mistaken_for_its_predecessor() -> None:
    kube = EndingKube(cluster(), listener())
    context, work = world(kube)
    await work["clusters"](SHOP)
    kube.ending = False
    kube.remove("BrokerCluster", "shop")
    kube.put(cluster())
    await work["clusters"](SHOP)
    assert kube.names("StatefulSet") == ["shop-brokers", "shop-controllers"]
    await context.aclose()


def test_limits_and_topics_go_on() -> None:
    context, _ = world(MemoryKube())

    async def reconcile(_: object) -> None:
        return None

    for name in (Queue.QUOTAS, Queue.TOPICS, Queue.CONFIGS, Queue.STATUSES):
        assert until_namespace_ends(context, name, reconcile) is reconcile
