"""Which objects the operator treats as its own: others stay unchanged, and it reports conflicts."""

import json

from e2e.cluster.waiting import wait_for
from e2e.world.shop import CLUSTER, READY_TIMEOUT_S, Json, Shop, condition_of

PAYMENTS = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "payments"},
    "spec": {"selector": {"app": "payments"}, "ports": [{"port": 80}]},
}
LISTENER = {
    "apiVersion": "sluicegate.dev/v1alpha1",
    "kind": "BrokerListener",
    "metadata": {"name": "payments"},
    "spec": {"clusterRef": {"name": CLUSTER}, "name": "PAYMENTS", "port": 9097},
}


def test_a_service_of_somebody_else_outlives_a_listener_of_its_name(shop: Shop) -> None:
    shop.plane.kubectl("create", "-f", "-", input=json.dumps(PAYMENTS))
    before = shop.plane.get("service", "payments")
    shop.apply(LISTENER)
    try:
        wait_for(
            "the listener says that its name is taken",
            lambda: condition_of(shop.plane.get("brokerlistener", "payments"), "Stalled").get("reason") == "NameTaken",
            timeout_s=60,
        )
        found = shop.plane.get("events", "--field-selector", "reason=NameTaken,involvedObject.name=payments")["items"]
        assert [(event["type"], event["count"]) for event in found] == [("Warning", 1)]
        assert "Service payments" in found[0]["message"]
        assert shop.plane.get("service", "payments") == before
        shop.delete("brokerlistener", "payments", "--wait")
        assert shop.plane.get("service", "payments") == before
    finally:
        shop.delete("brokerlistener", "payments")
        shop.delete("service", "payments")


def test_a_pod_that_loses_its_label_runs_on_unfenced_and_gets_it_back(shop: Shop) -> None:
    pod, before, gone = shop.pod(2), shop.fingerprint(), broker_2_gone(shop)
    shop.plane.kubectl("label", "pod", pod.name, "sluicegate.dev/cluster-", "app.kubernetes.io/component-")

    def mended() -> bool:
        assert all(broker["state"] == "Online" for broker in shop.controllers_view().values())
        found = shop.plane.get("pod", pod.name)["metadata"]
        assert (found["uid"], found["labels"].get("sluicegate.dev/cluster")) == (pod.uid, CLUSTER), found
        # The StatefulSet adopts the pod again.
        return any(owner["kind"] == "StatefulSet" for owner in found.get("ownerReferences", []))

    wait_for("the pod has its labels and its StatefulSet again", mended, timeout_s=60, interval_s=0.1)
    messages = [event["message"] for event in shop.events() if event["reason"] == "LabelsMended"]
    assert [message for message in messages if pod.name in message]
    assert broker_2_gone(shop) == gone
    assert shop.fingerprint() == before


def broker_2_gone(shop: Shop) -> list[tuple[str, int]]:
    """Each BrokerGone Event of broker 2, and its count, because other tests kill the broker too."""
    found = [event for event in shop.events() if event["reason"] == "BrokerGone" and "broker 2" in event["message"]]
    return sorted((event["message"], event.get("count", 1)) for event in found)


def test_a_volume_claim_of_somebody_else_outlives_a_cluster_of_its_name(standing_shop: Shop) -> None:
    shop, name = standing_shop, "taken"
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": f"data-{name}-brokers-0", "labels": {"mine": "yes"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    shop.plane.kubectl("create", "-f", "-", input=json.dumps(claim))

    def theirs() -> Json:
        found = shop.plane.get("pvc", f"data-{name}-brokers-0")
        return {"metadata": found["metadata"], "spec": found["spec"]}

    before = theirs()
    cluster = {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "BrokerCluster",
        "metadata": {"name": name},
        "spec": {
            "brokers": {"replicas": 1, "storage": {"size": "1Gi"}},
            "storage": {"deleteClaims": True},
        },
    }
    nodes = ("statefulsets,pods", "-l", f"sluicegate.dev/cluster={name}")
    shop.apply(cluster)
    try:
        stalled = shop.await_condition("brokercluster", name, "Stalled", "True")
        assert stalled["reason"] == "ClaimsTaken"
        assert f"kubectl label pvc data-{name}-brokers-0 sluicegate.dev/cluster={name}" in stalled["message"]
        assert "ClaimsTaken" in {event["reason"] for event in shop.events(name)}
        assert shop.plane.get(*nodes)["items"] == []
        assert theirs() == before
        shop.delete("brokercluster", name)
        wait_for("its children are gone", lambda: not shop.plane.get("services", *nodes[1:])["items"], timeout_s=60)
        assert theirs() == before
    finally:
        shop.delete("brokercluster", name)
        shop.delete("pvc", f"data-{name}-brokers-0", "--wait=false")


def test_a_pod_of_somebody_else_with_the_name_of_a_node_is_named(standing_shop: Shop) -> None:
    shop, name = standing_shop, "busy"
    container = {
        "name": "theirs",
        "image": "theirs",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    spec = {
        "containers": [container],
        # No kubelet has that node, so the pod is not started.
        "nodeName": "theirs",
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{name}-controllers-0"}, "spec": spec}
    shop.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "theirs"}})
    shop.plane.kubectl("create", "-f", "-", input=json.dumps(pod))
    uid = shop.plane.get("pod", f"{name}-controllers-0")["metadata"]["uid"]
    cluster = {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "BrokerCluster",
        "metadata": {"name": name},
        "spec": {"brokers": {"replicas": 1, "storage": {"size": "1Gi"}}, "storage": {"deleteClaims": True}},
    }
    shop.apply(cluster)
    try:
        stalled = shop.await_condition("brokercluster", name, "Stalled", "True")
        assert stalled["reason"] == "NameTaken"
        assert f"a Pod {name}-controllers-0 that does not belong to the operator exists" in stalled["message"]
        assert shop.plane.get("pod", f"{name}-controllers-0")["metadata"]["uid"] == uid
        shop.delete("pod", f"{name}-controllers-0", "--force")
        shop.await_condition("brokercluster", name, "Ready", "True", timeout_s=READY_TIMEOUT_S)
    finally:
        shop.delete("brokercluster", name)
        shop.delete("pod", f"{name}-controllers-0", "--force")
        shop.delete("node", "theirs")
