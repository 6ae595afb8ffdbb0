"""The objects that a reconcile reads of its cluster, and those that it ignores."""

import logging
from typing import Any

import pytest

from sluicegate_operator.api.models.topic import FINALIZER
from sluicegate_operator.api.schema.metadata import Resource
from sluicegate_operator.engine.context.snapshot import UnreadableClusterError
from sluicegate_operator.handlers.snapshot import gather_cluster, gather_snapshot
from sluicegate_operator.kube.cache.cached_object import UnreadableObject
from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER, CONNECTION_QUOTA, TOPIC, Kind
from tests.support.fakes.kube.memory_kube import MemoryCache


class Stored:
    """An API server's objects, as far as a snapshot asks for them."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.objects = objects

    @property
    def cache(self) -> MemoryCache:
        return MemoryCache(self)

    async def get(self, kind: Kind, namespace: str | None, name: str) -> dict[str, Any] | None:
        return next((item for item in await self.list(kind, namespace) if item["metadata"]["name"] == name), None)

    async def list(self, kind: Kind, namespace: str | None, label_selector: str = "") -> list[dict[str, Any]]:
        return [item for item in self.objects if item["kind"] == kind.kind]


def quota(name: str, cluster: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": CONNECTION_QUOTA.api_version,
        "kind": CONNECTION_QUOTA.kind,
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1},
        "spec": {"clusterRef": {"name": cluster}, "target": {"broker": {}}, "maxConnections": 10, **spec},
    }


def cluster(name: str) -> dict[str, Any]:
    return {
        "apiVersion": BROKER_CLUSTER.api_version,
        "kind": BROKER_CLUSTER.kind,
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1},
        "spec": {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}},
    }


async def test_what_belongs_to_other_clusters_is_not_even_parsed(caplog: pytest.LogCaptureFixture) -> None:
    unreadable = quota("theirs", "other", maxConnections="many")
    kube = Stored(cluster("shop"), quota("ours", "shop"), unreadable)
    with caplog.at_level(logging.INFO):
        snapshot = await gather_snapshot(kube, ("default", "shop"))  # type: ignore[arg-type]
    assert [found.name for found in snapshot.quotas] == ["ours"]
    assert not caplog.records


async def test_fields_of_another_version_are_left_out_and_the_rest_is_read() -> None:
    newer = quota("ours", "shop", burst=5, target={"broker": {"scope": "all"}})
    kube = Stored(cluster("shop") | {"extra": 1}, newer | {"status": {"brokers": "3/3", "forecast": {"at": "noon"}}})
    snapshot = await gather_snapshot(kube, ("default", "shop"))  # type: ignore[arg-type]
    assert snapshot.cluster is not None
    [found] = snapshot.quotas
    assert (found.spec.max_connections, found.status.brokers) == (10, "3/3")
    assert snapshot.unreadable == ()


async def test_what_cannot_be_read_is_named_and_not_left_out() -> None:
    kube = Stored(cluster("shop"), quota("ours", "shop"), quota("strange", "shop", maxConnections="many"))
    snapshot = await gather_snapshot(kube, ("default", "shop"))  # type: ignore[arg-type]
    assert [found.name for found in snapshot.quotas] == ["ours"]
    [strange] = snapshot.unreadable_of(CONNECTION_QUOTA)
    assert str(strange) == (
        "ConnectionQuota strange cannot be read (spec.maxConnections: must be a whole number without quotes)"
    )
    assert snapshot.unreadable_of(BROKER_CLUSTER) == ()


async def test_a_cluster_that_cannot_be_read_is_not_taken_for_none() -> None:
    kube = Stored(cluster("shop") | {"spec": {"brokers": {"replicas": "three"}}})
    for gather in (gather_snapshot, gather_cluster):
        with pytest.raises(UnreadableClusterError, match="BrokerCluster shop cannot be read"):
            await gather(kube, ("default", "shop"))  # type: ignore[arg-type]
    assert await gather_cluster(kube, ("default", "other")) is None  # type: ignore[arg-type]


async def test_objects_that_are_not_requested_are_not_listed() -> None:
    kube = Stored(cluster("shop"), quota("ours", "shop"))
    listed: list[Kind] = []
    everything = kube.list

    async def noted(kind: Kind, namespace: str | None, label_selector: str = "") -> list[dict[str, Any]]:
        listed.append(kind)
        return await everything(kind, namespace, label_selector)

    kube.list = noted  # type: ignore[method-assign]
    snapshot = await gather_snapshot(kube, ("default", "shop"), [TOPIC])  # type: ignore[arg-type]
    assert CONNECTION_QUOTA not in listed
    assert (snapshot.quotas, TOPIC in listed) == ((), True)


async def test_a_deletion_that_nobody_can_take_back_is_read_from_the_api_server() -> None:
    topic = {
        "apiVersion": TOPIC.api_version,
        "kind": TOPIC.kind,
        "metadata": {
            "name": "orders",
            "namespace": "default",
            "uid": "orders",
            "resourceVersion": "7",
            "deletionTimestamp": "2026-01-01T00:00:00Z",
            "finalizers": [FINALIZER],
        },
        "spec": {"clusterRef": {"name": "shop"}, "partitions": 1, "replicas": 1, "deletionPolicy": "Delete"},
    }
    kube = Stored(cluster("shop"), topic)
    snapshot = await gather_snapshot(kube, ("default", "shop"), [TOPIC])  # type: ignore[arg-type]
    [leaving] = snapshot.leaving_topics
    assert (leaving.body["metadata"]["resourceVersion"], leaving.uid, snapshot.topics) == ("7", "orders", ())

    class Behind(MemoryCache):
        """A cache that has not seen the deletion of the Topic yet."""

        async def resources(self, kind: Kind, namespace: str, cluster: str) -> list[Resource | UnreadableObject]:
            return await MemoryCache(Stored(*kube.objects)).resources(kind, namespace, cluster)

    class Ahead(Stored):
        @property
        def cache(self) -> MemoryCache:
            return Behind(self)

    found = await gather_snapshot(Ahead(cluster("shop")), ("default", "shop"), [TOPIC])  # type: ignore[arg-type]
    assert found.leaving_topics == ()
