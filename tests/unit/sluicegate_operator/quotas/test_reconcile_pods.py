"""The quota path while the pods of a ConnectionQuota are not known."""

import pytest

from sluicegate_operator.planning.limits.workloads import Members
from tests.support.fakes.kube.memory_kube import MemoryKube
from tests.support.manifests.quota_manifests import of_pods
from tests.unit.sluicegate_operator.quotas.test_reconcile import Selected, Shop, cluster, quota

pytestmark = pytest.mark.virtual_time


async def test_a_quota_whose_pods_are_not_known_keeps_no_limit_of_other_quotas() -> None:
    workload = quota("pods", "10.0.0.1")
    workload["spec"]["target"] = of_pods()
    kube = MemoryKube(cluster(1), workload, quota("one", "10.0.0.1"), quota("two", "10.0.0.2"))
    shop = Shop(kube, brokers=1, pods=Selected(pods=Members({"10.0.0.9": 7.0})))
    await shop.reconcile()
    # The next operator does not know the pods of the workload, and brokers still have its limits.
    group, member = ("connection-group", "default/pods"), ("ip", "10.0.0.9")
    pods = Selected()
    after = Shop(kube, brokers=1, pods=pods)
    after.brokers = shop.brokers
    after.pool = shop.pool
    await after.reconcile()
    assert after.said("pods")[2] == "PodsUnknown"
    kube.remove("ConnectionQuota", "one")
    kube.put(quota("two", "10.0.0.2", rate=50))
    await after.reconcile()
    assert shop.brokers.ip_rates == {"10.0.0.2": 50.0}
    assert after.said("two") == ("1/1", "True", "Enforced")
    assert shop.brokers.groups[group, member] == {"member": 7.0}
    assert shop.brokers.groups[(group,)] == {"connection_creation_rate": 5.0}
    pods.news = {"pods": Members({"10.0.0.8": 8.0})}
    await after.reconcile()
    assert not shop.brokers.groups[group, member]
    assert shop.brokers.groups[group, ("ip", "10.0.0.8")] == {"member": 8.0}
