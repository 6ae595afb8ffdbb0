"""Listeners for external clients: the addresses that brokers advertise, on node ports and behind load balancers.

Traffic to a node is not forwarded here, and a test plays the cloud provider: advertised addresses are read inside.
"""

import json
from collections.abc import Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.clusters.test_listeners import told_at
from e2e.world.shop import BROKERS, CLUSTER, BrokerPod, Json, Shop, condition_of
from sluicegate_operator.kafka_admin.client import BrokerHandle

PORT = 9097
NAME = "shop-outside"
HIDDEN = "ClientAddressHidden"
OF_ADDRESS = "shop-noisy-neighbour"
TRUSTED_KEY = "listener.name.outside.proxy.protocol.trusted"


def listener(**spec: object) -> Json:
    return {
        "apiVersion": "sluicegate.dev/v1alpha1",
        "kind": "BrokerListener",
        "metadata": {"name": NAME},
        "spec": {"clusterRef": {"name": CLUSTER}, "name": "OUTSIDE", "port": PORT, **spec},
    }


@pytest.fixture
def outside(shop: Shop) -> Iterator[Shop]:
    yield shop
    shop.delete("brokerlistener", NAME)
    wait_for("its Services are gone", lambda: services(shop) == {})


def services(shop: Shop) -> dict[str, Json]:
    listed = shop.plane.get("services", "-l", f"sluicegate.dev/cluster={CLUSTER},sluicegate.dev/listener=OUTSIDE")
    return {found["metadata"]["name"]: found for found in listed["items"]}


def told(shop: Shop) -> dict[int, str]:
    return told_at(shop.pod(0).address, PORT)


def trusted(shop: Shop) -> set[str | None]:
    return {trusted_by(shop, pod) for pod in shop.broker_pods()}


def trusted_by(shop: Shop, pod: BrokerPod) -> str | None:
    async def read(broker: BrokerHandle) -> str | None:
        return (await broker.describe_broker_configs(pod.id, [TRUSTED_KEY]))[TRUSTED_KEY].value

    return shop.admin(pod, read)


def test_clients_receive_node_ports_and_a_changed_address_takes_effect_live(outside: Shop) -> None:
    shop, before = outside, outside.fingerprint()
    shop.apply(listener(exposure="NodePort"))
    shop.await_condition("brokerlistener", NAME, "Ready", "True")
    made = services(shop)
    ports = {broker: made[f"{NAME}-{broker}"]["spec"]["ports"][0]["nodePort"] for broker in range(BROKERS)}
    assert len(made) == BROKERS + 1
    assert {found["spec"]["externalTrafficPolicy"] for found in made.values()} == {"Local"}
    # All nodes of the process kubelet are this machine.
    assert told(shop) == {broker: f"127.0.0.1:{port}" for broker, port in ports.items()}
    status = shop.plane.get("brokerlistener", NAME)["status"]
    assert status["bootstrap"] == f"127.0.0.1:{made[NAME]['spec']['ports'][0]['nodePort']}"
    assert condition_of({"status": status}, HIDDEN)["status"] == "False"
    shop.apply(listener(exposure="NodePort", advertisedHost="kafka.example.org"))
    wait_for(
        "the name is told",
        lambda: told(shop) == {broker: f"kafka.example.org:{port}" for broker, port in ports.items()},
    )
    shop.apply(listener(exposure="NodePort", externalTrafficPolicy="Cluster"))
    hidden = shop.await_condition("brokerlistener", NAME, HIDDEN, "True")
    assert "externalTrafficPolicy Cluster" in hidden["message"]
    shop.await_condition("connectionquota", OF_ADDRESS, HIDDEN, "True")
    shop.apply(listener())
    wait_for("the pods are told", lambda: told(shop) == {p.id: f"{p.address}:{PORT}" for p in shop.broker_pods()})
    wait_for("one Service is left", lambda: list(services(shop)) == [NAME])
    shop.await_condition("connectionquota", OF_ADDRESS, HIDDEN, "False")
    assert shop.fingerprint() == before


def test_load_balancers_are_waited_for_and_trusted_when_the_manifest_says_so(outside: Shop) -> None:
    shop, before = outside, outside.fingerprint()
    shop.apply(listener(exposure="LoadBalancer"))

    def waits() -> str:
        ready = condition_of(shop.plane.get("brokerlistener", NAME), "Ready")
        assert ready.get("reason") == "AddressPending", f"condition {ready}"
        return str(ready["message"])

    message = wait_for("it says who waits", waits)
    assert f"broker 2 waits for the address of the load balancer of Service {NAME}-2" in message
    for number, name in enumerate(sorted(services(shop))):
        status = {"loadBalancer": {"ingress": [{"ip": f"198.51.100.{number}", "ipMode": "Proxy"}]}}
        body = json.dumps({"status": status})
        shop.plane.kubectl("patch", "service", name, "--subresource=status", "--type=merge", "-p", body)
    shop.plane.kubectl("annotate", "brokerlistener", NAME, "example.org/again=1")
    shop.await_condition("brokerlistener", NAME, "Ready", "True")
    assert told(shop) == {broker: f"198.51.100.{broker + 1}:{PORT}" for broker in range(BROKERS)}
    assert shop.plane.get("brokerlistener", NAME)["status"]["bootstrap"] == f"198.51.100.0:{PORT}"
    quota = shop.await_condition("connectionquota", OF_ADDRESS, HIDDEN, "True")
    assert "proxyProtocol" in quota["message"]
    shop.apply(listener(exposure="LoadBalancer", proxyProtocol={"trusted": ["198.51.100.7/24"]}))
    wait_for("the balancers are trusted", lambda: trusted(shop) == {"198.51.100.0/24"})
    shop.await_condition("connectionquota", OF_ADDRESS, HIDDEN, "False")
    wait_for("who brings no header is turned away", lambda: told(shop) == {})
    assert shop.fingerprint() == before
