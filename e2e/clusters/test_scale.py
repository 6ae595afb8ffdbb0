"""Scaling up and down: removed brokers first give their replicas away, and no other broker is restarted."""

from collections.abc import Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.world.shop import BROKERS, CLUSTER, ENFORCED_TIMEOUT_S, READY_TIMEOUT_S, Shop, condition_of
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, create_topic

TOPIC = "spread"
PARTITIONS = 8
MORE = BROKERS + 1


@pytest.fixture
def scaled(shop: Shop) -> Iterator[Shop]:
    yield shop
    shop.change_cluster(brokers={"replicas": BROKERS, "drain": True})
    wait_for("as before", lambda: sorted(shop.states()) == list(range(BROKERS)), timeout_s=READY_TIMEOUT_S)


def on_broker(shop: Shop, broker_id: int) -> int:
    broker = shop.controllers_view().get(broker_id, {})
    return int(broker.get("replicas", 0))


def test_an_added_broker_gets_replicas_and_gives_them_away_before_it_is_removed(scaled: Shop) -> None:
    shop = scaled
    before = shop.fingerprint()
    shop.plane.kubectl("scale", "brokercluster", CLUSTER, f"--replicas={MORE}")
    shop.await_state(BROKERS, "Online")
    wait_for("it is ready", lambda: len([pod for pod in shop.broker_pods() if pod.ready]) == MORE)
    wait_for("an autoscaler sees it", lambda: shop.cluster()["status"]["replicas"] == MORE)
    selected = shop.plane.get("pods", "--selector", shop.cluster()["status"]["selector"])["items"]
    assert len(selected) == MORE
    shop.await_enforced("shop-external-rate", brokers=f"{MORE}/{MORE}")
    create_topic(shop.bootstrap(), TOPIC, PARTITIONS, BROKERS, min_insync_replicas="2")
    wait_for("the new broker has replicas", lambda: on_broker(shop, BROKERS) > 0)
    with AcknowledgedWorkload(shop.bootstrap(), TOPIC, PARTITIONS, pause_s=0.01) as load:
        wait_for("the load runs", lambda: load.count > 100)
        shop.change_cluster(brokers={"replicas": BROKERS})

        def says_why() -> bool:
            ready = condition_of(shop.cluster(), "Ready")
            assert (ready["status"], ready["reason"]) == ("False", "ReplicasRemain"), ready
            return "drain" in ready["message"]

        wait_for("the status says why it stays", says_why)
        assert len(shop.broker_pods()) == MORE
        shop.change_cluster(brokers={"replicas": BROKERS, "drain": True})
        wait_for("its replicas are elsewhere", lambda: on_broker(shop, BROKERS) == 0, timeout_s=READY_TIMEOUT_S)
        wait_for("its pod is gone", lambda: len(shop.broker_pods(deleting=True)) == BROKERS, timeout_s=READY_TIMEOUT_S)
        wait_for("it is unregistered", lambda: sorted(shop.states()) == list(range(BROKERS)))
        count = load.count
        wait_for("the load goes on", lambda: load.count > count + 100)
    load.check()
    shop.await_condition("brokercluster", CLUSTER, "Ready", "True", timeout_s=READY_TIMEOUT_S)
    assert shop.fingerprint() == before
    assert [pod.name for pod in shop.broker_pods()] == [f"{CLUSTER}-brokers-{i}" for i in range(BROKERS)]


def test_the_operator_reverts_a_manual_scale_of_a_statefulset_and_an_event_names_its_author(shop: Shop) -> None:
    shop.plane.kubectl("scale", "statefulset", f"{CLUSTER}-brokers", "--replicas=1")
    found = wait_for(
        "the number is put back",
        lambda: shop.plane.get("statefulset", f"{CLUSTER}-brokers")["spec"]["replicas"] == BROKERS,
        timeout_s=ENFORCED_TIMEOUT_S,
        interval_s=0.05,
    )
    assert found

    def said() -> bool:
        events = [event["message"] for event in shop.events() if event["reason"] == "ScaledByOthers"]
        return any("scaled to 1 by kubectl" in message for message in events)

    wait_for("an Event that names kubectl", said, timeout_s=ENFORCED_TIMEOUT_S)
    wait_for("all brokers ready", shop.all_brokers_ready, timeout_s=READY_TIMEOUT_S, interval_s=0.2)
