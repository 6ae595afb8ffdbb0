"""The whole path of an ObserverPlugin: kubectl apply, the report of every broker, and no broker restarted for it."""

import json
from pathlib import Path

from confluent_kafka import Producer

from e2e.cluster.waiting import wait_for
from e2e.world.operator_process import REPOSITORY
from e2e.world.shop import BROKERS, CLUSTER, BrokerPod, Json, Shop, condition_of

NAME = "noting"
PLUGINS = "tests.support.requests.plugin_observers"


def document(class_name: str, config: dict[str, str]) -> Json:
    return {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "ObserverPlugin",
        "metadata": {"name": NAME},
        "spec": {
            "clusterRef": {"name": CLUSTER},
            "class": f"{PLUGINS}.{class_name}",
            "config": config,
            "filter": {"apiKeys": ["Produce"]},
        },
    }


def produce(shop: Shop) -> None:
    producer = Producer({"bootstrap.servers": shop.bootstrap(), "message.timeout.ms": 60000})
    errors: list[object] = []
    producer.produce("orders", b"observed", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0
    assert errors == [None]


def produced(path: Path) -> int:
    lines = path.read_text().splitlines() if path.exists() else []
    return sum(json.loads(line)[0] == "produce" for line in lines)


def row(shop: Shop) -> list[str]:
    return shop.plane.kubectl("get", "op", NAME, "--no-headers").split()


def test_an_applied_observer_works_without_a_restart_and_a_broken_one_has_no_effect(shop: Shop, tmp_path: Path) -> None:
    before, notes = shop.fingerprint(), tmp_path / "notes"
    shop.apply(document("Noting", {"path": str(notes)}))
    try:
        shop.await_condition("observerplugin", NAME, "Ready", "True")
        assert row(shop)[1:6] == [CLUSTER, f"{PLUGINS}.Noting", "Loaded", f"{BROKERS}/{BROKERS}", "True"]
        produce(shop)
        assert produced(notes) == 1

        shop.apply(document("Nobody", {"path": str(notes)}))
        stalled = shop.await_condition("observerplugin", NAME, "Stalled", "True")
        assert f"{PLUGINS} has no class Nobody" in stalled["message"]
        assert row(shop)[3:6] == ["Failed", f"0/{BROKERS}", "False"]
        states = shop.plane.get("observerplugin", NAME)["status"]["brokerStates"]
        assert [(one["brokerId"], one["state"]) for one in states] == [(each, "Failed") for each in range(BROKERS)]
        produce(shop)
        wait_for("an event that names it", lambda: any("Nobody" in event["message"] for event in shop.events(NAME)))
    finally:
        shop.delete("observerplugin", NAME)
    wait_for("the observer is off every broker", lambda: not any(map(shop.observers, shop.broker_pods())))
    seen = produced(notes)
    produce(shop)
    assert produced(notes) == seen
    assert shop.fingerprint() == before


def test_the_younger_of_two_plugins_with_one_name_reports_the_conflict(shop: Shop, tmp_path: Path) -> None:
    shop.apply(document("Noting", {"path": str(tmp_path / "notes")}))
    other = document("Silent", {})
    shop.apply(other | {"metadata": {"name": "other"}, "spec": {**other["spec"], "name": NAME}})
    try:
        shop.await_condition("observerplugin", NAME, "Ready", "True")
        said = shop.await_condition("observerplugin", "other", "Stalled", "True")
        assert f"ObserverPlugin {NAME} is older" in said["message"]
        assert condition_of(shop.plane.get("observerplugin", "other"), "Ready")["reason"] == "Conflicted"
    finally:
        shop.delete("observerplugin", NAME)
        shop.delete("observerplugin", "other")


def test_the_examples_load_in_a_cluster_that_runs(shop: Shop) -> None:
    before = shop.fingerprint()
    folder = str(REPOSITORY / "examples" / "observers")
    shop.plane.kubectl("apply", "-f", folder)
    try:
        for name in ("shop-traffic", "shop-audit"):
            shop.await_condition("observerplugin", name, "Ready", "True")
        produce(shop)
        seen = 'sluicegate_observed_requests_total{api="Produce"}'
        wait_for("requests in the metrics", lambda: sum(shop.metric(pod, seen) for pod in asked(shop, seen)) > 0)
        assert all(shop.metric(pod, "sluicegate_audit_events_total") > 0 for pod in shop.broker_pods())
    finally:
        shop.plane.kubectl("delete", "-f", folder)
    wait_for("the observers are off every broker", lambda: not any(map(shop.observers, shop.broker_pods())))
    assert shop.fingerprint() == before


def asked(shop: Shop, series: str) -> list[BrokerPod]:
    """The brokers that have the series: one has led the partition."""

    def has(pod: BrokerPod) -> bool:
        try:
            return shop.metric(pod, series) >= 0
        except AssertionError:
            return False

    return [pod for pod in shop.broker_pods() if has(pod)]
