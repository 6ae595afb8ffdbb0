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
