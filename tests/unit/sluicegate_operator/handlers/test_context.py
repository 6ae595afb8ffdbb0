"""The known state of an object after its status was written."""

from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.api.models.connection_quota import ConnectionQuota, ConnectionQuotaStatus
from sluicegate_operator.engine.context.context import now
from sluicegate_operator.handlers.context import Context
from sluicegate_operator.kube.cache.cached_object import CachedObject, Reader, read_object
from sluicegate_operator.kube.cache.undeclared import UndeclaredFields
from sluicegate_operator.kube.http.errors import KubeConflictError
from sluicegate_operator.kube.http.kinds import CONNECTION_QUOTA
from sluicegate_operator.planning.external.external_status import why_governed
from sluicegate_operator.planning.status.conditions import conditions, ready
from sluicegate_operator.settings import read_settings
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.bad_manifests import external

WRITTEN: dict[str, Any] = {
    "apiVersion": CONNECTION_QUOTA.api_version,
    "kind": CONNECTION_QUOTA.kind,
    "metadata": {"name": "all", "namespace": "default", "uid": "u", "generation": 1, "resourceVersion": "3"},
    "spec": {"clusterRef": {"name": "shop"}, "target": {"ip": "10.0.0.1"}, "maxConnections": 3},
}


class OneWrite:
    """An API server whose object has changed beyond the write: `since` are its other fields."""

    def __init__(self, **since: Any) -> None:
        self._since = since
        self.cached: CachedObject | None = None
        self.undeclared = UndeclaredFields()

    async def apply_status(self, kind: Any, namespace: str, name: str, status: Any, **_: Any) -> CachedObject:
        meta = {**WRITTEN["metadata"], "resourceVersion": "4", **self._since.get("metadata", {})}
        told = {**WRITTEN, "metadata": meta, "status": {**status, **self._since.get("status", {})}}
        self.cached = Reader().read(CONNECTION_QUOTA, told)
        return self.cached


@pytest.mark.parametrize(
    ("since", "is_known"),
    [
        ({}, True),
        # Another client wrote before the answer: the change is found when the quota is read again.
        ({"status": {"brokers": "0/9"}}, False),
        ({"metadata": {"generation": 2}}, False),
        ({"metadata": {"uid": "of-the-next"}}, False),
    ],
)
async def test_the_object_kept_after_a_write_is_the_written_one_or_an_equal_cached_one(
    since: dict[str, Any], is_known: bool
) -> None:
    kube = OneWrite(**since)
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    quota = Reader().read(CONNECTION_QUOTA, WRITTEN).value
    assert isinstance(quota, ConnectionQuota)
    progress = ready("Enforced", "enforced by all 3 brokers")
    found = conditions(quota, quota.status, progress.findings, now())
    status = ConnectionQuotaStatus(observed_generation=1, brokers="3/3", enforced_at=now(), conditions=found)
    written = await context.write_status(quota, status)
    assert written is not None
    assert kube.cached is not None
    assert (written is kube.cached.value) is is_known
    assert (written.spec_version, written.status) == (("u", 1), status)
    assert await context.write_status(written, status) is None
    await context.aclose()


async def test_a_field_that_the_crd_does_not_declare_makes_no_write_of_its_own() -> None:
    kube = MemoryKube(WRITTEN)
    kube.lacks["ConnectionQuota"] = ("enforcedAt",)
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    for brokers, writes in (("3/3", 1), ("3/3", 1), ("2/3", 2), ("2/3", 2)):
        quota = read_object(kube.take("ConnectionQuota", "all"))
        assert isinstance(quota, ConnectionQuota)
        await context.write_status(quota, ConnectionQuotaStatus(brokers=brokers, enforced_at=now()))
        assert kube.statuses_written == writes
    assert kube.take("ConnectionQuota", "all")["status"]["brokers"] == "2/3"
    await context.aclose()


async def test_no_status_is_written_to_another_object_of_the_name() -> None:
    kube = MemoryKube({**WRITTEN, "metadata": {**WRITTEN["metadata"], "uid": "of-the-next"}})
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    quota = Reader().read(CONNECTION_QUOTA, WRITTEN).value
    assert isinstance(quota, ConnectionQuota)
    with pytest.raises(KubeConflictError, match="another object"):
        await context.write_status(quota, ConnectionQuotaStatus(brokers="3/3"))
    with pytest.raises(KubeConflictError, match="another object"):
        await context.remember(quota, {"limitsSet": []})
    assert "status" not in kube.take("ConnectionQuota", "all")
    await context.aclose()


async def test_a_cluster_that_cannot_be_read_is_among_those_that_may_govern_a_kafka_cluster() -> None:
    unreadable = external() | {"metadata": {"name": "older"}, "status": {"clusterId": "c"}}
    unreadable["spec"] = unreadable["spec"] | {"resyncSeconds": "often"}
    kube = MemoryKube(unreadable)
    context = Context(kube, read_settings({}, None, None, None))  # type: ignore[arg-type]
    younger = parse_resource(
        external() | {"metadata": {"name": "younger", "creationTimestamp": "2026-01-01T00:00:00Z"}}
    )
    assert isinstance(younger, BrokerCluster)
    assert "BrokerCluster default/older already governs" in why_governed(younger, "c", context._clusters())
    await context.aclose()
