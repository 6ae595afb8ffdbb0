"""What the operator takes for its own: others' objects stay as they are, and it says what stands in the way."""

import json

from e2e.cluster.waiting import wait_for
from e2e.shop import CLUSTER, Shop, condition_of

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
        # Its StatefulSet takes it back.
        return any(owner["kind"] == "StatefulSet" for owner in found.get("ownerReferences", []))

    wait_for("the pod has its labels and its StatefulSet again", mended, timeout_s=60, interval_s=0.1)
    messages = [event["message"] for event in shop.events() if event["reason"] == "LabelsMended"]
    assert [message for message in messages if pod.name in message]
    assert broker_2_gone(shop) == gone
    assert shop.fingerprint() == before


def broker_2_gone(shop: Shop) -> list[tuple[str, int]]:
    """Each Event that says so, and how often; other tests kill it."""
    found = [event for event in shop.events() if event["reason"] == "BrokerGone" and "broker 2" in event["message"]]
    return sorted((event["message"], event.get("count", 1)) for event in found)
