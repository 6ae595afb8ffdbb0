"""The controller's state of each broker as users and clients see it: `kubectl get br`, readiness, fencing."""

import signal
import time
from collections.abc import Iterator

import pytest

from e2e.cluster.waiting import wait_for
from e2e.world.shop import (
    BROKERS,
    CLUSTER,
    EXTERNAL_RATE_KEY,
    NAMESPACE,
    READY_TIMEOUT_S,
    BrokerPod,
    Json,
    Shop,
    condition_of,
    quota_document,
)
from tests.support.processes.clients.acknowledged import create_topic

SESSION_S = 9.0
"""broker.session.timeout.ms: after this time the controller itself notices a loss."""
BEFORE_SESSION_S = SESSION_S - 2.0 - 0.5
"""A session that times out ends later than this: its last heartbeat is at most broker.heartbeat.interval.ms old.

On an idle machine, fencing without a timeout takes a second; for a broker on a lost node three more.
"""
ASK_S = 0.5
"""Time to query the brokers on a loaded machine."""
CATCHES_MAX = 12
GATE = "sluicegate.dev/unfenced"


def columns(shop: Shop, broker_id: int) -> dict[str, str]:
    """One row of `kubectl get br`, by its headings."""
    head, *rows = (line.split() for line in shop.plane.kubectl("get", "br").splitlines())
    return next(dict(zip(head, row, strict=False)) for row in rows if row[0] == f"{CLUSTER}-{broker_id}")


def pod_conditions(shop: Shop, broker_id: int) -> dict[str, str]:
    pod = shop.plane.get("pod", f"{CLUSTER}-brokers-{broker_id}")
    return {condition["type"]: condition["status"] for condition in pod["status"]["conditions"]}


@pytest.fixture
def thaw(shop: Shop) -> Iterator[list[int]]:
    """List of frozen brokers, which are resumed after the test in any case."""
    frozen: list[int] = []
    yield frozen
    for broker_id in frozen:
        shop.kubelet.kill_container(NAMESPACE, f"{CLUSTER}-brokers-{broker_id}", signal.SIGCONT)


def freeze(shop: Shop, broker_id: int, frozen: list[int]) -> None:
    shop.kubelet.kill_container(NAMESPACE, f"{CLUSTER}-brokers-{broker_id}", signal.SIGSTOP)
    frozen.append(broker_id)


def wake(shop: Shop, broker_id: int, frozen: list[int]) -> None:
    frozen.remove(broker_id)
    shop.kubelet.kill_container(NAMESPACE, f"{CLUSTER}-brokers-{broker_id}", signal.SIGCONT)


def test_people_see_what_the_controller_sees(shop: Shop) -> None:
    wait_for("all in sync", shop.all_in_sync)
    wait_for("all are seen", lambda: shop.states() == {0: "Online", 1: "Online", 2: "Online"})
    view = shop.controllers_view()
    for broker_id, broker in view.items():
        row = columns(shop, broker_id)
        assert (row["CLUSTER"], row["STATE"], row["EPOCH"]) == (CLUSTER, "Online", str(broker["epoch"]))
        assert row["POD"] == f"{CLUSTER}-brokers-{broker_id}"
        assert pod_conditions(shop, broker_id)[GATE] == "True"


def test_a_pod_that_stops_and_starts_is_stopping_fenced_and_online(shop: Shop, thaw: list[int]) -> None:
    """The broker is stopped in each state: its release waits for another frozen broker, then it is frozen itself."""
    create_topic(shop.bootstrap(), "led-by-all", BROKERS, BROKERS)
    wait_for("it has something to hand over", lambda: shop.controllers_view()[2]["leaders"] > 0)
    before = shop.registration(2)
    freeze(shop, 1, thaw)
    shop.plane.kubectl("delete", "pod", f"{CLUSTER}-brokers-2", "--wait=false")
    wait_for("people see it stop", lambda: columns(shop, 2)["STATE"] == "Stopping")
    wait_for("not Ready while it stops", lambda: pod_conditions(shop, 2).get(GATE) == "False")
    wake(shop, 1, thaw)
    _catch_fenced(shop, 2, before["brokerEpoch"], thaw)
    wait_for("people see it fenced", lambda: columns(shop, 2)["STATE"] == "Fenced")
    assert pod_conditions(shop, 2).get("Ready") != "True"
    wake(shop, 2, thaw)
    after = shop.await_state(2, "Online")
    assert after["brokerEpoch"] > before["brokerEpoch"]
    assert after["incarnationId"] != before["incarnationId"]
    wait_for("Ready again", lambda: pod_conditions(shop, 2)["Ready"] == "True")
    reasons = {"Stopping", "Fenced", "Online", "Registered"}
    wait_for("it is told", lambda: reasons <= {event["reason"] for event in shop.events(f"{CLUSTER}-2")})


def test_a_broker_that_registers_before_its_address_is_reported_is_left_alone(shop: Shop) -> None:
    """The kubelet reports the address of a pod up to a second after its broker has registered."""

    def fenced() -> list[str]:
        return [event["message"] for event in shop.events() if event["reason"] == "BrokerGone"]

    before = fenced()
    for broker_id in range(BROKERS):
        epoch = shop.registration(broker_id)["brokerEpoch"]
        shop.plane.kubectl("delete", "pod", f"{CLUSTER}-brokers-{broker_id}")
        wait_for("it registers", lambda b=broker_id, e=epoch: shop.controllers_view()[b]["epoch"] != e)  # type: ignore[misc]
        wait_for("all are back", lambda: shop.all_brokers_ready() and shop.all_in_sync(), timeout_s=READY_TIMEOUT_S)
    assert fenced() == before


def _catch_fenced(shop: Shop, broker_id: int, epoch: int, frozen: list[int]) -> None:
    """Freeze the broker between its registration and its first answered heartbeat as a caught-up broker.

    That moment may be over before it is noticed; then the broker is restarted.
    """
    for _ in range(CATCHES_MAX):
        old = epoch
        wait_for("it registers", lambda old=old: shop.controllers_view()[broker_id]["epoch"] != old, interval_s=0.0)  # type: ignore[misc]
        freeze(shop, broker_id, frozen)
        caught = shop.controllers_view()[broker_id]
        if caught["state"] == "Fenced":
            return
        wake(shop, broker_id, frozen)
        epoch = shop.await_state(broker_id, "Online")["brokerEpoch"]
        shop.kubelet.kill_container(NAMESPACE, f"{CLUSTER}-brokers-{broker_id}")
    raise AssertionError(f"broker {broker_id} was unfenced too soon to be seen, {CATCHES_MAX} times")


def gone_after_s(shop: Shop, pod: BrokerPod, since_s: float) -> float:
    def gone() -> bool:
        view = shop.controllers_view()[pod.id]
        return bool(view["state"] == "Offline" or view["host"] != pod.address)

    wait_for(f"broker {pod.id} fenced", gone, interval_s=0.02)
    return time.monotonic() - since_s


def test_a_broker_whose_pod_was_deleted_is_fenced_before_its_session_ends(shop: Shop) -> None:
    wait_for("all in sync", shop.all_in_sync)
    pod = shop.pod(1)
    shop.plane.kubectl("delete", "pod", pod.name, "--grace-period=0", "--force")
    took_s = gone_after_s(shop, pod, time.monotonic())
    assert took_s < BEFORE_SESSION_S
    wait_for("it is told", lambda: any("fenced at once" in event["message"] for event in shop.events()))
    shop.await_state(1, "Online")
    wait_for("all brokers ready", shop.all_brokers_ready)


def test_a_broker_on_a_lost_node_is_fenced_before_its_session_ends(shop: Shop) -> None:
    wait_for("all in sync", shop.all_in_sync)
    nodes = {pod.id: shop.kubelet.node_of(NAMESPACE, pod.name) for pod in shop.broker_pods()}
    controllers = shop.kubelet.node_of(NAMESPACE, f"{CLUSTER}-controllers-0")
    broker_id = next(broker_id for broker_id, node in nodes.items() if node != controllers)
    pod = shop.pod(broker_id)
    shop.kubelet.lose_node(nodes[broker_id])
    try:
        took_s = gone_after_s(shop, pod, time.monotonic())
        assert took_s < BEFORE_SESSION_S
        shop.await_state(broker_id, "Offline")
    finally:
        shop.kubelet.restore_node(nodes[broker_id])
    shop.await_state(broker_id, "Online")
    wait_for("all brokers ready", shop.all_brokers_ready)


def _quotas_do_not_wait_for_broker_0(shop: Shop, others: list[BrokerPod]) -> None:
    """Just frozen, the broker is still Online and Ready for other components, and accepts connections."""
    took_s = []
    # Several changes, because a loaded machine may stall for a second.
    for rate in (47, 48, 49):
        shop.apply(quota_document("shop-external-rate", {"listener": "EXTERNAL"}, maxConnectionCreationRate=rate))
        started_s = time.monotonic()
        wait_for("in force", lambda: {shop.broker_config(pod, EXTERNAL_RATE_KEY) for pod in others} == {rate})  # noqa: B023
        took_s.append(time.monotonic() - started_s)
        if took_s[-1] < 1.0 + ASK_S:
            break
    assert min(took_s) < 1.0 + ASK_S, took_s
    assert shop.pod(0).ready, "nobody but the quota path knows that it is frozen"
    quota = shop.await_enforced("shop-external-rate", brokers="2/3")
    assert "waiting for 0" in condition_of(quota, "Ready")["message"]


def test_a_frozen_broker_loses_its_readiness_and_gets_it_back(shop: Shop, thaw: list[int]) -> None:
    others = [shop.pod(1), shop.pod(2)]
    freeze(shop, 0, thaw)
    _quotas_do_not_wait_for_broker_0(shop, others)
    shop.await_state(0, "Offline")
    wait_for("the gate is shut", lambda: pod_conditions(shop, 0)[GATE] == "False")
    ready = condition_of(shop.cluster(), "BrokersReady")
    assert ready["message"] in ("2/3", "3/3")
    wake(shop, 0, thaw)
    shop.await_state(0, "Online")
    wait_for("all brokers ready", shop.all_brokers_ready)


def test_a_broker_whose_container_crashes_is_fenced_without_waiting_for_its_session(shop: Shop) -> None:
    create_topic(shop.bootstrap(), "led-by-all-again", BROKERS, BROKERS)
    wait_for("all in sync", shop.all_in_sync)
    wait_for("it leads something", lambda: shop.controllers_view()[1]["leaders"] > 0)
    pod, before = shop.pod(1), shop.controllers_view()
    [crashed] = shop.kubelet.pids(NAMESPACE, pod.name)
    shop.kubelet.kill_container(NAMESPACE, pod.name)
    took_s = moved_after_s(shop, before, time.monotonic())
    states = seen_until_ready(shop, pod.id, before[1]["epoch"])
    assert took_s < BEFORE_SESSION_S
    assert "Offline" not in states, "the process after it is not taken for the one that is gone"
    after = shop.pod(1)
    assert (after.uid, after.restarts) == (pod.uid, pod.restarts + 1)
    assert shop.kubelet.pids(NAMESPACE, pod.name) != [crashed]
    word = f"the container of {pod.name} with the process of broker 1 ended (Error, exit code 137)"
    told = ("BrokerGone", f"{word}: the broker was fenced at once")
    wait_for("it is told", lambda: told in {(e["reason"], e["message"]) for e in shop.events()})


def moved_after_s(shop: Shop, before: dict[int, Json], since_s: float) -> float:
    """Wait until other brokers lead more partitions, and return the seconds.

    Leaders of topics with one replica cannot move.
    """

    def elsewhere(view: dict[int, Json]) -> int:
        return sum(int(broker["leaders"]) for broker in view.values() if broker["id"] != 1)

    def moved() -> bool:
        return elsewhere(shop.controllers_view()) > elsewhere(before)

    wait_for("its leaders moved", moved, interval_s=0.02)
    return time.monotonic() - since_s


def seen_until_ready(shop: Shop, broker_id: int, old_epoch: int) -> list[str]:
    """States of the broker's next registration in the controller, until everything is as before."""
    states: list[str] = []

    def back() -> bool:
        broker = shop.controllers_view()[broker_id]
        if broker["epoch"] != old_epoch:
            states.append(broker["state"])
        return bool(states and states[-1] == "Online" and shop.all_in_sync() and shop.all_brokers_ready())

    wait_for("ready again", back, interval_s=0.02)
    return states
