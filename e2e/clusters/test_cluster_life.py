"""A second, small cluster from its first manifest to its last object: listeners follow, deletion leaves nothing."""

from collections.abc import Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.world.shop import READY_TIMEOUT_S, Json, Shop, condition_of

API_VERSION = "sluicegate.dev/v1alpha1"
MINI = "mini"
CHILDREN = "statefulsets,pods,services,configmaps,serviceaccounts,poddisruptionbudgets,networkpolicies"


def a_cluster(**spec: object) -> Json:
    return document("BrokerCluster", MINI, {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}, **spec})


def document(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name}, "spec": spec}


def listener(name: str, port: int) -> Json:
    spec = {"clusterRef": {"name": MINI}, "name": name, "port": port, "protocol": "PLAINTEXT"}
    return document("BrokerListener", f"mini-{name.lower()}", spec)


@pytest.fixture
def mini(standing_shop: Shop) -> Iterator[Shop]:
    shop = standing_shop
    shop.apply(a_cluster())
    yield shop
    shop.delete("connectionquota", "mini-partner-rate")
    shop.delete("brokerlistener", "mini-partner")
    shop.delete("brokercluster", MINI)
    wait_for("nothing is left", lambda: children(shop) == [], timeout_s=READY_TIMEOUT_S, interval_s=0.3)


def children(shop: Shop) -> list[str]:
    listed = shop.plane.get(CHILDREN, "-l", f"sluicegate.dev/cluster={MINI}")["items"]
    return sorted(f"{child['kind']}/{child['metadata']['name']}" for child in listed)


def test_a_quota_waits_for_its_listener_and_everything_goes_with_the_cluster(mini: Shop) -> None:
    quota = document(
        "ConnectionQuota",
        "mini-partner-rate",
        {"clusterRef": {"name": MINI}, "target": {"listener": "PARTNER"}, "maxConnectionCreationRate": 20},
    )
    mini.apply(quota)
    missing = mini.await_condition("connectionquota", "mini-partner-rate", "Ready", "False")
    assert "PARTNER" in missing["message"]
    mini.await_condition("brokercluster", MINI, "Ready", "True", timeout_s=READY_TIMEOUT_S)
    mini.apply(listener("PARTNER", 9095))
    mini.await_enforced("mini-partner-rate", brokers="1/1", timeout_s=READY_TIMEOUT_S)
    mini.await_condition("brokercluster", MINI, "Ready", "True", timeout_s=READY_TIMEOUT_S)
    [broker] = mini.broker_pods(MINI)
    assert mini.broker_config(broker, "listener.name.partner.max.connection.creation.rate") == 20
    expected = {
        "StatefulSet/mini-brokers",
        "StatefulSet/mini-controllers",
        "Pod/mini-brokers-0",
        "Service/mini-partner",
        "NetworkPolicy/mini-brokers",
        "NetworkPolicy/mini-controllers",
    }
    assert expected <= set(children(mini))
    mini.apply(a_cluster(networkPolicies=False))
    wait_for(
        "its own network policies are gone",
        lambda: not mini.plane.get("networkpolicies", "-l", f"sluicegate.dev/cluster={MINI}")["items"],
    )


APART = "apart"


@pytest.fixture
def apart(standing_shop: Shop) -> Iterator[Shop]:
    shop = standing_shop
    yield shop
    shop.delete("brokercluster", APART)
    wait_for("nothing is left", lambda: pods_of(shop, APART) == [], timeout_s=READY_TIMEOUT_S, interval_s=0.3)


def pods_of(shop: Shop, cluster: str) -> list[Json]:
    found: list[Json] = shop.plane.get("pods", "-l", f"sluicegate.dev/cluster={cluster}")["items"]
    return found


def test_pods_that_must_not_share_a_node_wait_for_one_of_their_own(apart: Shop) -> None:
    """The control plane has three nodes."""

    def brokers(replicas: int) -> Json:
        pod = {"spread": "Required", "labels": {"example.org/team": "payments"}}
        spec = {"brokers": {"replicas": replicas, "storage": {"size": "1Gi"}, "pod": pod}}
        return document("BrokerCluster", APART, spec)

    apart.apply(brokers(4))

    def waits() -> bool:
        ready = condition_of(apart.plane.get("brokercluster", APART), "Ready")
        return ready.get("reason") == "Unschedulable" and "0/3 nodes are available" in ready["message"]

    wait_for("the fourth is said to wait", waits, timeout_s=READY_TIMEOUT_S, interval_s=0.3)
    apart.apply(brokers(3))
    apart.await_condition("brokercluster", APART, "Ready", "True", timeout_s=READY_TIMEOUT_S)
    found = [pod for pod in pods_of(apart, APART) if pod["metadata"]["labels"].get("example.org/team") == "payments"]
    assert len({pod["spec"]["nodeName"] for pod in found}) == len(found) == 3


CROWDED = "crowded"
COUNTED = "requests.cpu=4,limits.cpu=4,requests.memory=4Gi"


@pytest.fixture
def crowded(standing_shop: Shop) -> Iterator[Shop]:
    """A namespace whose ResourceQuota counts everything, and has room for one of the two pods."""
    shop = standing_shop
    shop.plane.kubectl("create", "namespace", CROWDED)
    shop.plane.kubectl("create", "quota", "small", f"--hard={COUNTED},limits.memory=1200Mi", "-n", CROWDED)
    yield shop
    shop.plane.kubectl("delete", "namespace", CROWDED, "--wait=false")


def test_a_cluster_whose_pods_are_refused_is_stalled_with_the_api_servers_own_sentence(crowded: Shop) -> None:
    manifest = a_cluster()
    manifest["metadata"]["namespace"] = CROWDED
    crowded.apply(manifest)

    def refused() -> Json:
        found = crowded.plane.get("brokercluster", MINI, "-n", CROWDED)
        stalled = condition_of(found, "Stalled")
        assert stalled.get("status") == "True", f"status {found.get('status')}"
        return stalled

    stalled = wait_for("the cluster is stalled", refused, timeout_s=READY_TIMEOUT_S, interval_s=0.3)
    assert stalled["reason"] == "FailedCreate"
    assert "exceeded quota: small" in stalled["message"]
    told = crowded.plane.get("events", "-n", CROWDED, "--field-selector=involvedObject.kind=BrokerCluster")["items"]
    assert [event["type"] for event in told if event["reason"] == "FailedCreate"] == ["Warning"]
    crowded.plane.kubectl("delete", "quota", "small", "-n", CROWDED)
    crowded.plane.kubectl("create", "quota", "large", f"--hard={COUNTED},limits.memory=4Gi", "-n", CROWDED)
    # The StatefulSet controller would retry within minutes.
    crowded.plane.kubectl("delete", "statefulset", "mini-controllers", "mini-brokers", "-n", CROWDED)
    wait_for(
        "its pods are made",
        lambda: len(crowded.plane.get("pods", "-n", CROWDED)["items"]) == 2,
        timeout_s=READY_TIMEOUT_S,
        interval_s=0.3,
    )
