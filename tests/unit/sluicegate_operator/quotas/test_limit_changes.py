"""Different limits, in phrases for users."""

from collections.abc import Sequence
from typing import Any

from sluicegate_operator.api import BrokerListener, ConnectionQuota, Manifests, parse_resource
from sluicegate_operator.quotas.limit_changes import changed_limits
from sluicegate_operator.quotas.plan import QuotaPlan, plan_quotas


def resource(kind: str, name: str, spec: dict[str, Any], namespace: str = "default") -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec}


def cluster(name: str = "shop", namespace: str = "default") -> dict[str, Any]:
    return resource("BrokerCluster", name, {"brokers": {"replicas": 3, "storage": {"size": "1Gi"}}}, namespace)


def quota(name: str, target: dict[str, Any], rate: int, ref: str = "shop") -> dict[str, Any]:
    return resource(
        "ConnectionQuota", name, {"clusterRef": {"name": ref}, "target": target, "maxConnectionCreationRate": rate}
    )


def listener() -> dict[str, Any]:
    return resource("BrokerListener", "shop-public", {"clusterRef": {"name": "shop"}, "name": "PUBLIC", "port": 9094})


def limits(documents: Sequence[dict[str, Any]]) -> QuotaPlan:
    found = Manifests.of([parse_resource(document) for document in documents])
    return plan_quotas(found.clusters[0], found.of_kind(BrokerListener), found.of_kind(ConnectionQuota))


def test_a_changed_scope_is_a_phrase() -> None:
    shop = [cluster(), listener()]
    one = quota("a", {"listener": "PUBLIC"}, 50)
    shares = one | {"spec": one["spec"] | {"maxConnectionCreationRate": 300, "scope": "Cluster"}}
    words = "300/s of all brokers together"
    assert changed_limits(limits([*shop, one]), limits([*shop, shares])) == [f"listener PUBLIC 50/s -> {words}"]
    assert changed_limits(limits([*shop, shares]), limits([*shop, one])) == [f"listener PUBLIC {words} -> 50/s"]
    address = quota("a", {"ip": "10.0.0.1"}, 50)
    of_all = address | {"spec": address["spec"] | {"scope": "Cluster"}}
    assert changed_limits(limits([*shop, address]), limits([*shop, of_all])) == [
        "ip 10.0.0.1 (of the cluster) no limit -> 50/s of all brokers together",
        "ip 10.0.0.1 50/s -> no limit",
    ]


def test_changed_limits_are_phrases_for_people() -> None:
    shop = [cluster(), listener()]
    before = limits([*shop, quota("a", {"broker": {}}, 5), quota("b", {"ip": "127.0.1.7"}, 9)])
    after = limits([*shop, quota("a", {"broker": {}}, 6), quota("c", {"defaultIp": {}}, 7)])
    assert changed_limits(before, after) == [
        "broker 5/s -> 6/s",
        "defaultIp no limit -> 7/s",
        "ip 127.0.1.7 9/s -> no limit",
    ]
    assert changed_limits(before, before) == []
