"""Rolls under load: no acknowledged record is lost or repeated, quotas do not wait, and operators may die at any step.

Rolls are expensive, so no test undoes its own: each uses the other of two values of a static key.
"""

import os
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
    ROLLED_TIMEOUT_S,
    BrokerPod,
    Shop,
    condition_of,
    quota_document,
)
from sluicegate_operator.kafka_admin.configs import ConfigChange
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload, create_topic

PARTITIONS = 6
PAUSE_S = 0.01
"""Pause between two records: these tests are about a roll, not about a broker's throughput."""
ASK_S = 0.5
"""Time to query the brokers on a loaded machine."""
CONTROLLER = f"{CLUSTER}-controllers-0"


@pytest.fixture(scope="module")
def rolled(standing_shop: Shop) -> Shop:
    standing_shop.settle()
    return standing_shop


@pytest.fixture
def shop(rolled: Shop) -> Iterator[Shop]:
    """The cluster in the state of the previous test, with all brokers back and a running operator."""
    wait_for("rolled out", lambda: rolled_out(rolled), timeout_s=ROLLED_TIMEOUT_S, interval_s=0.2)
    yield rolled
    if not rolled.operator.running:
        rolled.operator.start()
    rolled.kubelet.release_pod(NAMESPACE, rolled.pod(1).name)


def other_value(shop: Shop) -> dict[str, str]:
    """Change a key that is static in Kafka and has no effect on this test's topics."""
    return {"num.partitions": "4" if shop.cluster()["spec"]["config"]["num.partitions"] == "3" else "3"}


def load_on(shop: Shop, topic: str) -> AcknowledgedWorkload:
    create_topic(shop.bootstrap(), topic, PARTITIONS, BROKERS, min_insync_replicas="2")
    return AcknowledgedWorkload(shop.bootstrap(), topic, PARTITIONS, pause_s=PAUSE_S)


def check(shop: Shop, load: AcknowledgedWorkload) -> None:
    """Check the load. Every broker has another address than at its start."""
    load.check(shop.bootstrap())


def uids(shop: Shop) -> dict[int, str]:
    return {pod.id: pod.uid for pod in shop.broker_pods()}


def rolled_out(shop: Shop) -> bool:
    """Whether the newest generation is rolled out on every node, and all are back."""
    shop.operator.must_run()
    cluster = shop.cluster()
    rolling = condition_of(cluster, "Rolling")
    current = cluster["status"].get("observedGeneration") == cluster["metadata"]["generation"]
    return current and rolling["status"] == "False" and shop.all_brokers_ready() and shop.all_in_sync()


class Watched:
    """Records which brokers were away together, as clients see it; polled during a roll."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self.away_together: list[set[int]] = []

    def look(self) -> bool:
        present = {pod.id for pod in self._shop.broker_pods() if pod.ready}
        away = set(range(BROKERS)) - present
        if len(away) > 1:
            self.away_together.append(away)
        return rolled_out(self._shop)


def test_a_changed_static_key_rolls_brokers_one_by_one_and_loses_nothing(shop: Shop) -> None:
    before, watched = uids(shop), Watched(shop)
    with load_on(shop, "rolled") as load:
        wait_for("the load runs", lambda: load.count > 100)
        shop.change_cluster(config=other_value(shop))
        wait_for("the first broker is replaced", lambda: uids(shop) != before)
        wait_for("rolled out", watched.look, timeout_s=ROLLED_TIMEOUT_S, interval_s=0.2)
        assert watched.away_together == []
        count = load.count
        wait_for("the load goes on", lambda: load.count > count + 100)
    after = uids(shop)
    assert all(after[broker_id] != uid for broker_id, uid in before.items())
    check(shop, load)
    restarts = [event for event in shop.events() if event["reason"] == "ConfigChanged"]
    assert sum(event.get("count", 1) for event in restarts) >= BROKERS
    assert all("num.partitions" in event["message"] for event in restarts)
    wait_for("the operator finds its way", lambda: shop.cluster()["status"].get("controllerId", -1) >= 0)


def test_a_changed_dynamic_key_restarts_nothing_and_drift_is_mended(shop: Shop) -> None:
    before = shop.fingerprint()
    config = shop.cluster()["spec"]["config"]

    def values() -> list[int]:
        return [shop.broker_config(pod, "log.retention.ms") for pod in shop.broker_pods()]

    [unset, *_] = values()
    shop.change_cluster(config={**config, "log.retention.ms": "7200000"})
    wait_for("in force on every broker", lambda: values() == [7200000] * BROKERS)
    shop.alter_by_hand(shop.pod(1), None, ConfigChange(set={"log.retention.ms": "60000"}))
    wait_for("drift is told", lambda: "ConfigDriftMended" in {event["reason"] for event in shop.events()})
    wait_for("mended", lambda: values() == [7200000] * BROKERS)
    shop.change_cluster(config=config)
    wait_for("taken away", lambda: values() == [unset] * BROKERS)
    assert shop.fingerprint() == before
    wait_for("forgotten", lambda: not shop.cluster()["status"].get("dynamicConfigKeys"))


def test_a_waiting_roll_names_the_broker_and_does_not_delay_quotas(shop: Shop) -> None:
    away, before, incarnations = shop.pod(1), uids(shop), Incarnations(shop)
    shop.kubelet.hold_pod(NAMESPACE, away.name)
    wait_for("the broker is away", lambda: not shop.pod(1).ready)
    shop.change_cluster(config=other_value(shop))

    def says_why() -> bool:
        cluster = shop.cluster()
        rolling = condition_of(cluster, "Rolling")
        named = away.name in rolling["message"] or "broker 1" in rolling["message"]
        waiting = set(cluster["status"]["rollout"].get("waiting", []))
        return rolling["status"] == "True" and named and {shop.pod(0).name, shop.pod(2).name} <= waiting

    wait_for("the status names what it waits for", says_why)
    _quotas_do_not_wait(shop, [shop.pod(0), shop.pod(2)])
    after = uids(shop)
    assert (after[0], after[2]) == (before[0], before[2]), "nothing else is restarted while a broker is away"
    shop.kubelet.release_pod(NAMESPACE, away.name)
    _roll_with_an_operator_that_dies_at_each_step(shop, incarnations)
    assert {*uids(shop).values()}.isdisjoint(before.values())
    shop.await_enforced("shop-external-rate")


def _quotas_do_not_wait(shop: Shop, up: list[BrokerPod]) -> None:
    took_s = []
    # Several changes, because a loaded machine may stall for a second.
    for rate in (61, 62, 63, 64):
        shop.apply(quota_document("shop-external-rate", {"listener": "EXTERNAL"}, maxConnectionCreationRate=rate))
        started_s = time.monotonic()
        wait_for("in force", lambda: {shop.broker_config(pod, EXTERNAL_RATE_KEY) for pod in up} == {rate})  # noqa: B023
        took_s.append(time.monotonic() - started_s)
        if took_s[-1] < 1.0 + ASK_S:
            return
    raise AssertionError(f"no change was in force within a second: {took_s}")


def _roll_with_an_operator_that_dies_at_each_step(shop: Shop, incarnations: "Incarnations") -> None:
    """The roll continues where it was, because its only state is the state of the objects."""
    watched = Watched(shop)
    steps: list[tuple[str, frozenset[str]]] = []
    with load_on(shop, "unattended") as load:
        deadline = time.monotonic() + ROLLED_TIMEOUT_S
        while not watched.look():
            assert time.monotonic() < deadline, f"not rolled out after {steps}: {shop.cluster()['status']}"
            step = (phase(shop), incarnations.look())
            if step not in steps:
                steps.append(step)
                shop.operator.kill()
                shop.operator.start()
    assert watched.away_together == []
    assert incarnations.restarts() == dict.fromkeys(incarnations.names, 1), "each node once, whatever the operator knew"
    assert incarnations.order()[-1] == CONTROLLER, "the active controller is last"
    phases = [name for name, _ in steps]
    assert phases.count("deleting") >= BROKERS - 1, phases
    assert phases.count("starting") >= BROKERS - 1, phases
    check(shop, load)


def phase(shop: Shop) -> str:
    """The phase of the roll, in which the operator is to die."""
    pods = shop.node_pods()
    if any(pod["metadata"].get("deletionTimestamp") for pod in pods):
        return "deleting"
    if len(pods) <= BROKERS or any(condition_of(pod, "Ready").get("status") != "True" for pod in pods):
        return "starting"
    return "between" if shop.all_in_sync() else "behind"


class Incarnations:
    """Every pod of each node of the cluster since the first poll."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._seen: dict[str, list[str]] = {}
        self._replaced: list[str] = []
        self.look()
        self.names = sorted(self._seen)

    def look(self) -> frozenset[str]:
        """Record the current pods, and return their uids."""
        now = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self._shop.node_pods()}
        for name, uid in now.items():
            known = self._seen.setdefault(name, [])
            if uid not in known:
                known.append(uid)
                self._replaced += [name] if len(known) > 1 else []
        return frozenset(now.values())

    def restarts(self) -> dict[str, int]:
        self.look()
        return {name: len(uids) - 1 for name, uids in self._seen.items()}

    def order(self) -> list[str]:
        return self._replaced


def test_a_paused_rollout_restarts_no_pod_and_a_manually_deleted_pod_loses_no_record(shop: Shop) -> None:
    incarnations, change = Incarnations(shop), other_value(shop)
    with load_on(shop, "by-hand") as load:
        wait_for("the load runs", lambda: load.count > 100)
        shop.change_cluster(config=change, rollout={"paused": True})
        blocked = shop.await_condition("brokercluster", CLUSTER, "RollBlocked", "True")
        assert blocked["reason"] == "Paused"
        assert "rollout.paused" in blocked["message"]
        wait_for("it says so", lambda: condition_of(shop.cluster(), "Ready")["reason"] == "RolloutPaused")
        assert sum(incarnations.restarts().values()) == 0
        assert_a_crash_keeps_the_file(shop, shop.pod(2))
        shop.change_cluster(config=change)
        wait_for("one broker is on its way", lambda: sum(incarnations.restarts().values()) == 1)
        [first] = incarnations.order()
        assert first != CONTROLLER
        victim = next(pod for pod in shop.broker_pods() if pod.name != first)
        shop.plane.kubectl("delete", "pod", victim.name, "--grace-period=0", "--force")
        wait_for("rolled out", lambda: rolled_out(shop), timeout_s=ROLLED_TIMEOUT_S, interval_s=0.2)
    restarts = incarnations.restarts()
    assert restarts == dict.fromkeys(incarnations.names, 1), "what a hand has replaced is as wanted already"
    assert incarnations.order()[-1] == CONTROLLER
    check(shop, load)
    wait_for("files that no pod uses are gone", lambda: len(config_maps(shop)) == 2)


def test_a_restart_that_kubectl_asks_for_is_a_roll_like_any_other(shop: Shop) -> None:
    incarnations, watched = Incarnations(shop), Watched(shop)
    name = f"statefulset/{CLUSTER}-brokers"
    with load_on(shop, "asked-for") as load:
        wait_for("the load runs", lambda: load.count > 100)
        shop.plane.kubectl("rollout", "restart", name)
        wait_for("the first broker is replaced", lambda: sum(incarnations.restarts().values()) > 0)
        wait_for("rolled out", watched.look, timeout_s=ROLLED_TIMEOUT_S, interval_s=0.2)
    assert watched.away_together == []
    assert incarnations.restarts() == {name: int(name != CONTROLLER) for name in incarnations.names}
    check(shop, load)
    told = [event["message"] for event in shop.events() if event["reason"] == "RestartRequested"]
    assert told
    assert all("kubectl rollout restart" in message for message in told)


def assert_a_crash_keeps_the_file(shop: Shop, pod: BrokerPod) -> None:
    """A container that restarts before its roll still runs with the configuration of its arguments."""
    partitions = shop.broker_config(pod, "num.partitions")
    for pid in shop.kubelet.pids(NAMESPACE, pod.name):
        os.kill(pid, signal.SIGKILL)
    wait_for("the container has started again", lambda: shop.pod(pod.id).restarts > pod.restarts)
    wait_for("the broker is back", lambda: shop.pod(pod.id).ready, timeout_s=READY_TIMEOUT_S)
    assert shop.pod(pod.id).uid == pod.uid
    assert shop.broker_config(pod, "num.partitions") == partitions
    assert len(config_maps(shop)) == 4, "the files of pods that wait, and of those that will be"


def config_maps(shop: Shop) -> list[str]:
    listed = shop.plane.get("configmaps", "-l", f"sluicegate.dev/cluster={CLUSTER}")["items"]
    return [found["metadata"]["name"] for found in listed]
