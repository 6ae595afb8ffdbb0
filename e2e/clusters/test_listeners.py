"""Listeners of running brokers: opened, refused and closed while clients of another listener continue."""

import socket
from collections.abc import Iterator
from contextlib import suppress

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from e2e.cluster.waiting import wait_for
from e2e.world.shop import BROKERS, CLUSTER, NAMESPACE, READY_TIMEOUT_S, Json, Shop, quota_document
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, create_topic

PORT, TAKEN_PORT = 9095, 9096
NAME = "shop-partner"
RATE = "shop-partner-rate"
PAUSE_S = 0.01


def listener(port: int = PORT, **spec: object) -> Json:
    return {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "BrokerListener",
        "metadata": {"name": NAME},
        "spec": {"clusterRef": {"name": CLUSTER}, "name": "PARTNER", "port": port, **spec},
    }


@pytest.fixture
def partners(shop: Shop) -> Iterator[Shop]:
    yield shop
    shop.delete("connectionquota", RATE)
    shop.delete("brokerlistener", NAME)
    wait_for("the listener is closed", lambda: not any(is_open(pod.address) for pod in shop.broker_pods()))


def is_open(address: str, port: int = PORT) -> bool:
    with suppress(OSError), socket.create_connection((address, port), timeout=2):
        return True
    return False


def bootstrap(shop: Shop) -> str:
    return ",".join(f"{pod.address}:{PORT}" for pod in shop.broker_pods())


def told_at(address: str, port: int = PORT) -> dict[int, str]:
    """Addresses that clients of that listener receive, by broker."""
    try:
        brokers = AdminClient({"bootstrap.servers": f"{address}:{port}", "log_level": 0}).list_topics(timeout=2).brokers
    except KafkaException:
        return {}
    return {broker.id: f"{broker.host}:{broker.port}" for broker in brokers.values()}


def test_a_listener_opens_and_closes_while_clients_of_another_listener_continue(partners: Shop) -> None:
    shop, before = partners, partners.fingerprint()
    create_topic(shop.bootstrap(), "listeners", 3, BROKERS, min_insync_replicas="2")
    with AcknowledgedWorkload(shop.bootstrap(), "listeners", 3, pause_s=PAUSE_S) as load:
        wait_for("the load runs", lambda: load.count > 100)
        shop.apply(listener(), quota_document(RATE, {"listener": "PARTNER"}, maxConnectionCreationRate=70))
        shop.await_condition("brokerlistener", NAME, "Ready", "True")
        assert shop.plane.get("brokerlistener", NAME)["status"]["brokers"] == f"{BROKERS}/{BROKERS}"
        shop.await_enforced(RATE)
        create_topic(bootstrap(shop), "partners", 3, BROKERS, min_insync_replicas="2")
        with AcknowledgedWorkload(bootstrap(shop), "partners", 3, pause_s=PAUSE_S) as theirs:
            wait_for("partners produce", lambda: theirs.count > 100)
        theirs.check(bootstrap(shop))
        shop.delete("brokerlistener", NAME)
        wait_for("it is closed", lambda: not any(is_open(pod.address) for pod in shop.broker_pods()))
        count = load.count
        wait_for("the load goes on", lambda: load.count > count + 100)
    assert shop.fingerprint() == before, "nothing was restarted"
    load.check(shop.bootstrap())
    shop.await_condition("brokercluster", CLUSTER, "Ready", "True")
    assert [event["reason"] for event in shop.events() if event["reason"] == "ListenersChanged"] == []


def test_a_broker_that_comes_back_elsewhere_opens_it_without_the_operator(partners: Shop) -> None:
    shop = partners
    shop.apply(listener())
    shop.await_condition("brokerlistener", NAME, "Ready", "True")
    away = shop.pod(1)
    shop.operator.kill()
    try:
        shop.plane.kubectl("delete", "pod", away.name, "--wait=false")
        found = wait_for(
            "its successor has the listener open",
            lambda: next(
                (p for p in shop.broker_pods() if p.id == 1 and p.uid != away.uid and is_open(p.address)), None
            ),
            timeout_s=READY_TIMEOUT_S,
        )
        assert found is not None
        assert found.address != away.address
        wait_for("clients are told", lambda: told_at(found.address).get(1) == f"{found.address}:{PORT}")
    finally:
        shop.operator.start()
    wait_for("all brokers ready", shop.all_brokers_ready, timeout_s=READY_TIMEOUT_S)


def test_a_port_that_is_taken_is_refused_by_its_broker_alone_and_everything_else_stays(partners: Shop) -> None:
    shop, before = partners, partners.fingerprint()
    victim = shop.pod(2)
    with socket.create_server((victim.address, TAKEN_PORT)):
        shop.apply(listener(TAKEN_PORT))
        stalled = shop.await_condition("brokerlistener", NAME, "Stalled", "True")
        assert stalled["reason"] == "Refused"
        assert stalled["message"].startswith(f"open on 2/{BROKERS} brokers; broker 2 refuses it: ")
        assert "in use" in stalled["message"]
        assert is_open(victim.address, 9094)
        assert is_open(shop.pod(0).address, TAKEN_PORT)
    shop.plane.kubectl("annotate", "brokerlistener", NAME, "example.org/again=1")
    shop.await_condition("brokerlistener", NAME, "Ready", "True")
    assert shop.fingerprint() == before
    assert shop.kubelet.node_of(NAMESPACE, victim.name)
