"""What a reconcile reads of its cluster, and what it leaves alone."""

import logging
from typing import Any

import pytest

from sluicegate_operator.handlers.snapshot import gather_snapshot
from sluicegate_operator.kube.kinds import BROKER_CLUSTER, CONNECTION_QUOTA, Kind


class Stored:
    """An API server's objects, as far as a snapshot asks for them."""

    def __init__(self, *objects: dict[str, Any]) -> None:
        self.objects = objects

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
