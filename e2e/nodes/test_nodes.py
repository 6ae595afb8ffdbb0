"""Nodes are drained, killed and cut off, and the API server fails: brokers are spread, and traffic continues."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.cluster.waiting import wait_for
from e2e.kind.provider import Provider, provider
from e2e.nodes.site.figures import Figures
from e2e.nodes.site.shop import NodeShop
from e2e.world.operator_process import OPERATOR_NAMESPACE
from e2e.world.shop import BROKERS, CLUSTER, ROLLED_TIMEOUT_S
from tests.support.processes.clients.acknowledged import AcknowledgedWorkload

CONTROLLER = f"{CLUSTER}-controllers-0"
NODE_BACK_TIMEOUT_S = 240.0
AWAY_S = 120.0
"""Length of the API server's outage, in seconds."""
TRAFFIC_MAX_S = 30.0
"""Longest time until all partitions accept writes again: a session of the controller's, and a producer's next retry."""


@pytest.fixture(scope="module")
def nodes() -> Provider:
    return provider()


@pytest.fixture
def worker(shop: NodeShop) -> str:
    """Return a node with one broker, and without the controller and operators, which the suite must not lose.

    Later only pods of brokers move there.
    """
    control_planes = shop.plane.get("nodes", "-l", "node-role.kubernetes.io/control-plane")["items"]
    kept = {node["metadata"]["name"] for node in control_planes} | {
        shop.plane.get("pod", CONTROLLER)["spec"]["nodeName"]
    }
    free = sorted({broker.node for broker in shop.running()} - kept)
    assert free, f"every node has a controller: {kept}"
    with cordoned(shop, *free):
        for operator in shop.operator_pods():
            if operator["spec"]["nodeName"] in free:
                shop.plane.kubectl("delete", "pod", "-n", OPERATOR_NAMESPACE, operator["metadata"]["name"])
        rollout = ("rollout", "status", "-n", OPERATOR_NAMESPACE, "deployment/sluicegate-operator", "--timeout=120s")
        shop.plane.kubectl(*rollout, timeout_s=150)
    return free[0]


@contextmanager
def cordoned(shop: NodeShop, *nodes: str) -> Iterator[None]:
    shop.plane.kubectl("cordon", *nodes)
    try:
        yield
    finally:
        shop.plane.kubectl("uncordon", *nodes)


def until_all_are_written_to(load: AcknowledgedWorkload) -> float:
    """Wait until each partition has new acknowledgements, and return the seconds."""
    began_s = time.monotonic()
    before = {index: len(found) for index, found in load.acknowledged.items()}

    def look() -> bool:
        now = {index: len(found) for index, found in load.acknowledged.items()}
        return all(now[index] > count + 5 for index, count in before.items())

    wait_for("all partitions are written to", look, timeout_s=NODE_BACK_TIMEOUT_S, interval_s=0.02)
    return time.monotonic() - began_s


def test_brokers_are_on_different_nodes(shop: NodeShop) -> None:
    placed = {broker.pod: broker.node for broker in shop.running()}
    assert len(set(placed.values())) == BROKERS, placed


def test_a_node_that_is_drained_gives_its_broker_away_and_takes_it_back(
    shop: NodeShop, worker: str, load: AcknowledgedWorkload
) -> None:
    (broker,) = [broker for broker in shop.running() if broker.node == worker]
    with cordoned(shop, worker):
        drain = ("drain", worker, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
        shop.plane.kubectl(*drain, "--pod-selector", f"sluicegate.dev/cluster={CLUSTER}")
        wait_for(
            "the broker is away", lambda: broker.pod not in {other.pod for other in shop.running() if other.container}
        )
        assert until_all_are_written_to(load) < TRAFFIC_MAX_S
    shop.await_replaced(int(broker.pod.rpartition("-")[2]), broker.uid)


def test_a_node_that_is_killed_is_done_without_and_comes_back(
    shop: NodeShop, worker: str, load: AcknowledgedWorkload, nodes: Provider, figures: Figures
) -> None:
    nodes.kill(worker)
    try:
        took_s = until_all_are_written_to(load)
        figures.note("a node is lost until all partitions are written to again, s", took_s)
    finally:
        nodes.start(worker)
    shop.plane.kubectl(
        "wait", "--for=condition=Ready", f"node/{worker}", f"--timeout={NODE_BACK_TIMEOUT_S:.0f}s", timeout_s=300
    )
    shop.await_settled()
    assert took_s < TRAFFIC_MAX_S


def test_a_node_that_is_cut_off_is_done_without_and_comes_back(
    shop: NodeShop, worker: str, load: AcknowledgedWorkload, nodes: Provider, figures: Figures
) -> None:
    nodes.partition(worker)
    try:
        took_s = until_all_are_written_to(load)
        figures.note("a node is cut off until all partitions are written to again, s", took_s)
    finally:
        nodes.heal(worker)
    shop.await_settled()
    assert took_s < TRAFFIC_MAX_S


def test_brokers_serve_for_two_minutes_without_an_api_server(
    shop: NodeShop, load: AcknowledgedWorkload, nodes: Provider, figures: Figures
) -> None:
    before = shop.running()
    nodes.stop_api_server()
    began_s = time.monotonic()
    try:
        longest_s = 0.0
        while time.monotonic() - began_s < AWAY_S:
            longest_s = max(longest_s, until_all_are_written_to(load))
    finally:
        nodes.start_api_server()
    figures.note("the longest wait for all partitions without an API server, s", longest_s)
    wait_for(
        "the API server is back", lambda: shop.plane.kubectl("get", "--raw", "/readyz"), timeout_s=ROLLED_TIMEOUT_S
    )
    shop.await_settled()
    assert shop.running() == before
    assert longest_s < TRAFFIC_MAX_S
