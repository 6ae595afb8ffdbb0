"""ObserverPlugins with bad observers, or whose cluster, code or brokers appear, vanish or change at a bad time."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from e2e.cluster.waiting import wait_for
from e2e.world.shop import NAMESPACE, READY_TIMEOUT_S, BrokerPod, Json, Shop, condition_of

CLUSTER = "tried"
PLUGINS = "tests.support.requests.plugin_observers"
MODULE = """
class Word:
    def configure(self, config): ...
    def record_connection(self, notice): ...
    def close(self, timeout_s): ...
"""


def document(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": "sluicegate.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def cluster(**observers: bool) -> Json:
    brokers = {"replicas": 2, "storage": {"size": "1Gi"}}
    return document("BrokerCluster", CLUSTER, {"brokers": brokers, "resyncSeconds": 5, "observers": observers})


def plugin(name: str, class_name: str = "Silent", **spec: object) -> Json:
    which = {} if "builtIn" in spec else {"class": f"{PLUGINS}.{class_name}"}
    return document("ObserverPlugin", name, {"clusterRef": {"name": CLUSTER}, **which, **spec})


@pytest.fixture(scope="module")
def tried(standing_shop: Shop) -> Iterator[Shop]:
    shop = standing_shop
    # The plugin exists before its cluster.
    shop.apply(plugin("early"))
    said = shop.await_condition("observerplugin", "early", "Stalled", "True")
    assert (said["reason"], f"bundled BrokerCluster {CLUSTER} does not exist" in said["message"]) == (
        "ClusterMissing",
        True,
    )
    shop.apply(cluster())
    shop.await_condition("observerplugin", "early", "Ready", "True", timeout_s=READY_TIMEOUT_S)
    shop.delete("observerplugin", "early")
    yield shop
    shop.apply(plugin("late"))
    shop.await_condition("observerplugin", "late", "Ready", "True")
    shop.delete("brokercluster", CLUSTER)
    shop.await_condition("observerplugin", "late", "Stalled", "True")
    assert condition_of(shop.plane.get("observerplugin", "late"), "Ready")["reason"] == "ClusterMissing"
    shop.delete("observerplugin", "late")
    wait_for("no broker is left", lambda: not shop.broker_pods(CLUSTER, deleting=True), timeout_s=READY_TIMEOUT_S)


@pytest.fixture
def plugins(tried: Shop) -> Iterator[Shop]:
    yield tried
    tried.plane.kubectl("delete", "observerplugins", "--all")
    wait_for("no observer is left", lambda: not any(observed(tried)), timeout_s=READY_TIMEOUT_S)


def observed(shop: Shop) -> list[str]:
    return [shop.observers(pod) for pod in shop.broker_pods(CLUSTER)]


def produce(pods: list[BrokerPod]) -> None:
    servers = ",".join(f"{pod.address}:{pod.internal_port}" for pod in pods)
    producer = Producer({"bootstrap.servers": servers, "message.timeout.ms": 60000, "linger.ms": 0})
    errors: list[object] = []
    for _ in range(4):
        producer.produce("orders", b"observed", on_delivery=lambda error, _: errors.append(error))
        producer.flush(60)
    assert errors == [None] * 4


def messages(shop: Shop, name: str) -> str:
    states = shop.plane.get("observerplugin", name)["status"]["brokerStates"]
    return "\n".join(f"{one['state']}: {one.get('message', '')}" for one in states)


def test_the_status_reports_the_losses_of_a_slow_and_a_flooded_observer(plugins: Shop) -> None:
    plugins.apply(
        plugin("slow", "Sleeping", filter={"apiKeys": ["Produce"]}),
        plugin("flooded", "Flooding", config={"queue.max": "10"}, filter={"apiKeys": ["Produce"]}),
    )
    for name in ("slow", "flooded"):
        plugins.await_condition("observerplugin", name, "Ready", "True")
    produce(plugins.broker_pods(CLUSTER))
    wait_for("what was dropped", lambda: "items dropped because its own queue was full" in messages(plugins, "flooded"))
    wait_for("that it is suspended", lambda: "1 suspensions, " in messages(plugins, "slow"))
    assert condition_of(plugins.plane.get("observerplugin", "flooded"), "Ready")["status"] == "True"


def test_two_that_change_in_one_second_and_one_that_is_switched_off_and_on(plugins: Shop) -> None:
    plugins.apply(plugin("one"), plugin("two"))
    for name in ("one", "two"):
        plugins.await_condition("observerplugin", name, "Ready", "True")
    plugins.apply(plugin("one", config={"word": "a"}), plugin("two", config={"word": "b"}))
    for name in ("one", "two"):
        plugins.await_condition("observerplugin", name, "Ready", "True")
    plugins.apply(plugin("one", enabled=False), plugin("two"))
    off = plugins.await_condition("observerplugin", "one", "Ready", "True")
    assert off["reason"] == "Disabled"
    assert set(observed(plugins)) == {"two"}
    plugins.apply(plugin("one"))
    on = plugins.await_condition("observerplugin", "one", "Ready", "True")
    assert on["reason"] == "Loaded"


def test_a_broker_that_is_away_learns_of_a_plugin_that_went_meanwhile(plugins: Shop) -> None:
    plugins.apply(plugin("gone"), plugin("stays"))
    for name in ("gone", "stays"):
        plugins.await_condition("observerplugin", name, "Ready", "True")
    away = plugins.broker_pods(CLUSTER)[1]
    plugins.kubelet.hold_pod(NAMESPACE, away.name)
    try:
        plugins.delete("observerplugin", "gone")
        here = plugins.broker_pods(CLUSTER)[0]
        wait_for("it is off the broker that is there", lambda: plugins.observers(here) == "stays")
        plugins.apply(plugin("stays", config={"word": "changed"}))
        wait_for("who is missing", lambda: silent(plugins, "stays"))
    finally:
        plugins.kubelet.release_pod(NAMESPACE, away.name)
    plugins.await_condition("observerplugin", "stays", "Ready", "True", timeout_s=READY_TIMEOUT_S)
    assert observed(plugins) == ["stays", "stays"]


def silent(shop: Shop, name: str) -> Json:
    """Status of the plugin once one of two brokers does not answer."""
    status: Json = shop.plane.get("observerplugin", name)["status"]
    return status if status["state"] == "Unknown" and status.get("brokers") == "1/2" else {}


def test_plugins_beyond_the_maximum_of_a_broker_are_reported(plugins: Shop) -> None:
    plugins.apply(*(plugin(f"each-{number:02}") for number in range(50)))

    def reasons() -> list[str]:
        found = plugins.plane.get("observerplugins")["items"]
        return [condition_of(one, "Ready").get("reason", "") for one in found]

    wait_for("a word on each", lambda: sorted(reasons()) == ["Loaded"] * 16 + ["TooMany"] * 34)
    assert all(len(names.split(",")) == 16 for names in observed(plugins))
    first = next(iter(observed(plugins)[0].split(",")))
    plugins.delete("observerplugin", first)
    wait_for("one comes in its place", lambda: sorted(reasons()) == ["Loaded"] * 16 + ["TooMany"] * 33)


def test_code_that_is_not_allowed_any_more_is_removed_at_once_even_if_it_changed(plugins: Shop, tmp_path: Path) -> None:
    def code(text: str) -> Json:
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "words"}, "data": {"word.py": text}}

    given = {"class": "word.Word", "source": {"configMap": {"name": "words"}}}
    plugins.apply(
        cluster(allowConfigMapCode=True),
        code(MODULE),
        plugin("word") | {"spec": {"clusterRef": {"name": CLUSTER}, **given}},
    )
    plugins.await_condition("observerplugin", "word", "Ready", "True", timeout_s=240.0)
    plugins.apply(code(MODULE + "# changed\n"), cluster())
    refused = plugins.await_condition("observerplugin", "word", "Stalled", "True")
    assert refused["reason"] == "CodeNotAllowed"
    wait_for("the code is off every broker", lambda: not any(observed(plugins)), timeout_s=READY_TIMEOUT_S)
    plugins.await_condition("brokercluster", CLUSTER, "Ready", "True", timeout_s=240.0)
    plugins.delete("configmap", "words")
