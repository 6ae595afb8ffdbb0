"""The quota path of an external cluster."""

import pytest

from sluicegate_operator.kube.http.kinds import BROKER_CLUSTER
from sluicegate_operator.quotas import external_limits
from tests.support.fakes.kube.memory_kube import Json, MemoryKube
from tests.unit.sluicegate_operator.quotas.test_reconcile import Shop, quota

pytestmark = pytest.mark.virtual_time


def others_cluster() -> Json:
    return {
        "apiVersion": BROKER_CLUSTER.api_version,
        "kind": BROKER_CLUSTER.kind,
        "metadata": {"name": "shop"},
        "spec": {"runtime": "External", "bootstrapServers": ["10.0.0.1:9092"]},
    }


async def test_limits_that_are_too_many_to_be_remembered_are_not_said_to_be_in_force(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(external_limits, "LIMITS_MAX", 1)
    shop = Shop(MemoryKube(others_cluster(), quota("one", "10.0.0.1")))
    await shop.reconcile()
    assert shop.said("one") == ("3/3", "True", "Enforced")
    shop.kube.put(quota("two", "10.0.0.2"))
    for _ in range(2):
        await shop.reconcile()
        assert shop.brokers.ip_rates == {"10.0.0.1": 5.0}
        assert shop.said("two") == ("0/3", "False", "Applying")
        assert (
            "the quotas need 2 limits, and the operator can store 1"
            in shop.kube.condition("ConnectionQuota", "two")["message"]
        )
        assert shop.said("one") == ("3/3", "True", "Enforced")
    shop.kube.remove("ConnectionQuota", "one")
    await shop.reconcile()
    assert shop.brokers.ip_rates == {}
    await shop.reconcile()
    assert shop.brokers.ip_rates == {"10.0.0.2": 5.0}
    assert shop.said("two") == ("3/3", "True", "Enforced")
