"""Faults between the operator and its API server: limits stay, no broker is restarted, and changes are followed later.

SLUICEGATE_AWAY_SECONDS is the length of the API server's outage.
"""

import json
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from e2e.cluster.waiting import wait_for
from e2e.world.engine_world import (
    BROKERS,
    CLUSTER,
    KINDS,
    EngineWorld,
    cluster_document,
    of_cluster,
    quota_document,
)
from e2e.world.forked_operator import ForkedOperator
from e2e.world.shop import install_crds
from tests.support.processes.process_kubelet.api import Json
from tests.support.processes.proxies.api_proxy import ApiProxy

AWAY_S = float(os.environ.get("SLUICEGATE_AWAY_SECONDS", "8"))
LEASE_S = 6
"""Shorter than the outage of the API server: the operator loses the Lease, and waits to acquire it again."""
FOLLOWED_S = 90.0
"""A silent watch is renewed after half a minute."""
QUIET_S = 4.0
"""Longer than a resync of these tests."""
HOUR_S = 3600.0
ONE, TWO = "10.0.0.1", "10.0.0.2"


def enter(world: EngineWorld) -> None:
    world.apply(
        cluster_document(),
        quota_document("one", ONE, 5),
        quota_document("two", TWO, 5),
        of_cluster("Topic", "orders", partitions=3, replicas=3),
    )
    world.await_ready()


def follow(world: EngineWorld, address: str, rate: float | None) -> None:
    wait_for(f"{address} has {rate}", lambda: world.rate(address) == rate, timeout_s=FOLLOWED_S)


def never_lifted(world: EngineWorld, address: str) -> bool:
    return None not in [value for entity, _, value in world.cluster.told if entity == (("ip", address),)]


def writes(*proxies: ApiProxy) -> int:
    return sum("/leases/" not in request.path for proxy in proxies for request in proxy.written)


def quiet(*proxies: ApiProxy) -> None:
    """Wait until nothing is written for longer than a resync: no operator reverts another's correction."""
    seen: list[int] = []

    def look() -> bool:
        seen.append(writes(*proxies))
        return seen[-2:-1] == seen[-1:]

    wait_for("nothing is written", look, timeout_s=40, interval_s=QUIET_S)


def test_an_api_server_that_is_away_for_longer_than_the_lease(world: EngineWorld) -> None:
    with world.operator(lease_s=LEASE_S) as operator:
        enter(world)
        before, pid = world.pods(), operator.pid
        world.plane.pause_api_server()
        try:
            threading.Event().wait(AWAY_S)
        finally:
            world.plane.resume_api_server()
        assert (world.rate(ONE), world.rate(TWO)) == (5.0, 5.0)
        world.patch("connectionquota", "one", {"spec": {"maxConnectionCreationRate": 6}})
        follow(world, ONE, 6.0)
        world.await_ready()
        operator.must_run()
        assert operator.pid == pid
        assert never_lifted(world, ONE)
        assert never_lifted(world, TWO)
        assert world.pods() == before


def test_watches_that_fall_silent_are_asked_again(world: EngineWorld) -> None:
    with world.operator(resync_s=300):
        enter(world)
        world.proxy.silence_watches()
        world.patch("connectionquota", "one", {"spec": {"maxConnectionCreationRate": 6}})
        world.delete("connectionquota", "two", "--wait=false")
        follow(world, ONE, 6.0)
        follow(world, TWO, None)


@contextmanager
def cut_off(proxy: ApiProxy) -> Iterator[None]:
    proxy.cut = True
    proxy.hang_up()
    try:
        yield
    finally:
        proxy.cut = False


def changed_meanwhile(world: EngineWorld) -> None:
    world.patch("connectionquota", "one", {"spec": {"maxConnectionCreationRate": 6}})
    world.delete("connectionquota", "two", "--wait=false")
    world.apply(of_cluster("Topic", "later", partitions=1, replicas=1))


def followed(world: EngineWorld) -> None:
    follow(world, ONE, 6.0)
    follow(world, TWO, None)
    wait_for("the topic is created", lambda: "later" in world.cluster.topics, timeout_s=FOLLOWED_S)
    world.await_ready()
    assert never_lifted(world, ONE)


def test_an_etcd_that_has_forgotten_what_was_missed(world: EngineWorld) -> None:
    with world.operator(resync_s=300):
        enter(world)
        before = world.pods()
        with cut_off(world.proxy):
            changed_meanwhile(world)
            # Some watches get the error at once, the others as an event, like etcd3 and the API server's cache.
            world.proxy.gone = 4
            world.plane.pause_api_server()
            try:
                world.plane.forget_the_past()
            finally:
                world.plane.resume_api_server()
        followed(world)
        assert world.pods() == before


@contextmanager
def writing(write: Callable[[int], None]) -> Iterator[list[int]]:
    """Call `write` repeatedly in a separate thread, with the number of earlier calls; the list has that number."""
    over, done = threading.Event(), [0]

    def run() -> None:
        while not over.is_set():
            write(done[0])
            done[0] += 1

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield done
    finally:
        over.set()
        thread.join()


def test_others_who_write_all_the_time_what_the_operator_writes(world: EngineWorld) -> None:
    """kubectl annotates quotas, and an autoscaler changes the StatefulSet."""
    with world.operator():
        enter(world)

        def scale(n: int) -> None:
            world.plane.kubectl(
                "scale", "statefulset", f"{CLUSTER}-brokers", f"--replicas={BROKERS + 1 + n % 2}", "-n", world.namespace
            )

        def annotate(n: int) -> None:
            world.patch("connectionquota", "two", {"metadata": {"annotations": {"n": str(n)}}})

        with writing(scale) as scaled, writing(annotate) as annotated:
            for rate in (6, 7, 8):
                world.patch("connectionquota", "one", {"spec": {"maxConnectionCreationRate": rate}})
                follow(world, ONE, float(rate))
            wait_for("they have written", lambda: min(scaled[0], annotated[0]) >= 10)
        replicas = ("statefulset", f"{CLUSTER}-brokers")
        wait_for("put back", lambda: world.get(*replicas)["spec"]["replicas"] == BROKERS, timeout_s=FOLLOWED_S)
        wait_for("no pod too many", lambda: len(world.pods()) == BROKERS + 1, timeout_s=FOLLOWED_S)
        world.await_ready()
        quiet(world.proxy)
        reasons = {event["reason"] for event in world.get("events")["items"]}
        assert "ScaledByOthers" in reasons
        assert never_lifted(world, TWO)


def leads(operator: ForkedOperator) -> bool:
    operator.must_run()
    return f"{operator.identity} leads" in operator.output()


def test_only_one_of_two_operators_with_different_clocks_acts_at_a_time(world: EngineWorld) -> None:
    second = world.open(world.new_proxy())
    with world.operator("one", lease_s=LEASE_S, shift_s=HOUR_S) as one:
        wait_for("one leads", lambda: leads(one))
        with world.operator("two", proxy=second, lease_s=LEASE_S, shift_s=-HOUR_S) as two:
            enter(world)
            wait_for("two waits", lambda: "waits" in two.output())
            # Wait longer than a whole Lease, whose times are two hours away from those of the waiting operator.
            threading.Event().wait(LEASE_S * 1.5)
            assert not leads(two)
            assert writes(second) == 0
            one.kill()
            wait_for("two leads", lambda: leads(two), timeout_s=FOLLOWED_S)
            world.patch("connectionquota", "one", {"spec": {"maxConnectionCreationRate": 6}})
            follow(world, ONE, 6.0)
            before = writes(world.proxy)
            with world.operator("one", lease_s=LEASE_S, shift_s=HOUR_S):
                world.patch("connectionquota", "one", {"spec": {"maxConnectionCreationRate": 7}})
                follow(world, ONE, 7.0)
                world.await_ready()
            assert writes(world.proxy) == before, "it has come back, and waits"


def test_an_operator_of_one_namespace_beside_one_of_all(world: EngineWorld) -> None:
    second = world.open(world.new_proxy())
    with world.operator("own"), world.operator("all", proxy=second, everywhere=True) as everywhere:
        wait_for("both lead", lambda: leads(everywhere), timeout_s=FOLLOWED_S)
        enter(world)
        before = world.pods()
        world.patch("connectionquota", "one", {"spec": {"maxConnectionCreationRate": 6}})
        world.delete("connectionquota", "two", "--wait=false")
        follow(world, ONE, 6.0)
        follow(world, TWO, None)
        world.await_ready()
        quiet(world.proxy, second)
        assert world.rate(ONE) == 6.0
        assert world.pods() == before


@pytest.fixture
def crds_put_back(world: EngineWorld) -> Iterator[None]:
    yield
    install_crds(world.plane)


def changed_crd(world: EngineWorld, plural: str, change: Callable[[Json], None]) -> None:
    """Change a CRD: `change` receives the schemas of spec and status."""
    crd = world.plane.get("crd", f"{plural}.sluicegate.dev")
    for meta in ("managedFields", "resourceVersion", "uid"):
        crd["metadata"].pop(meta, None)
    change(crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"])
    world.plane.kubectl("replace", "-f", "-", input=json.dumps(crd))


def newer(properties: Json) -> None:
    properties["spec"]["properties"]["note"] = {"type": "string"}
    properties["status"]["properties"]["summary"] = {"type": "string"}


def older(properties: Json) -> None:
    properties["spec"]["properties"].pop("note")
    properties["status"]["properties"].pop("summary")
    properties["status"]["properties"].pop("applySeconds")


def unwritten(world: EngineWorld) -> None:
    """Wait until, for longer than a resync, the project's objects keep their versions."""
    seen: list[dict[str, str]] = []

    def look() -> bool:
        items = world.get(KINDS)["items"]
        seen.append({item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items})
        return seen[-2:-1] == seen[-1:]

    wait_for("nothing is changed", look, timeout_s=40, interval_s=QUIET_S)


def noted(world: EngineWorld) -> bool:
    world.patch("connectionquota", "one", {"spec": {"maxConnectionCreationRate": 6, "note": "of a release to come"}})
    return "note" in world.get("connectionquota", "one")["spec"]


@pytest.mark.usefixtures("crds_put_back")
def test_crds_that_are_changed_under_an_operator_that_runs(world: EngineWorld) -> None:
    with world.operator() as operator:
        enter(world)
        before = world.pods()
        changed_crd(world, "connectionquotas", newer)
        wait_for("the new field is kept", lambda: noted(world))
        follow(world, ONE, 6.0)
        world.await_ready()
        changed_crd(world, "connectionquotas", older)
        world.patch("connectionquota", "one", {"spec": {"maxConnectionCreationRate": 7}})
        follow(world, ONE, 7.0)
        world.await_ready()
        assert "applySeconds" not in world.get("connectionquota", "one")["status"]
        unwritten(world)
        assert "older than this operator" in operator.output()
        assert never_lifted(world, ONE)
        assert world.pods() == before
        operator.must_run()
