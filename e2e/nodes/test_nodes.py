"""Nodes that are drained, killed and cut off, and an API server that is away: brokers are spread, traffic goes on."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from e2e.cluster.waiting import wait_for
from e2e.kind.provider import Provider, provider
from e2e.nodes.figures import Figures
from e2e.nodes.shop import NodeShop
from e2e.shop import BROKERS, CLUSTER, ROLLED_TIMEOUT_S
from tests.support.acknowledged import AcknowledgedWorkload

NODE_BACK_TIMEOUT_S = 240.0
AWAY_S = 120.0
"""How long there is no API server."""
TRAFFIC_MAX_S = 30.0
"""Until all partitions are written to again: a session of the controller's and a producer's next try."""


@pytest.fixture(scope="module")
def nodes() -> Provider:
    return provider()


def of_brokers_alone(shop: NodeShop) -> str:
    """A node that neither a controller nor the operator is on, with one broker."""
    placed = Counter(broker.node for broker in shop.running())
    others = [
        *shop.operator_pods(),
        *(pod for pod in shop.node_pods() if f"{CLUSTER}-controllers" in pod["metadata"]["name"]),
    ]
    taken = {pod["spec"]["nodeName"] for pod in others}
    free = sorted(node for node, brokers in placed.items() if node not in taken and brokers == 1)
    assert free, f"every node has the operator or a controller: {placed}, {taken}"
    return free[0]


def until_all_are_written_to(load: AcknowledgedWorkload) -> float:
    """Seconds until each partition has an acknowledgement that is newer than the beginning of this."""
    began_s = time.monotonic()
    before = {index: len(found) for index, found in load.acknowledged.items()}

    def look() -> bool:
        now = {index: len(found) for index, found in load.acknowledged.items()}
        return all(now[index] > count + 1 for index, count in before.items())

    wait_for("all partitions are written to", look, timeout_s=NODE_BACK_TIMEOUT_S, interval_s=0.02)
    return time.monotonic() - began_s


@contextmanager
def cordoned(shop: NodeShop, node: str) -> Iterator[None]:
    shop.plane.kubectl("cordon", node)
    try:
        yield
    finally:
        shop.plane.kubectl("uncordon", node)


def test_brokers_are_on_different_nodes(shop: NodeShop) -> None:
    placed = {broker.pod: broker.node for broker in shop.running()}
    assert len(set(placed.values())) == BROKERS, placed


def test_a_node_that_is_drained_gives_its_broker_away_and_takes_it_back(
    shop: NodeShop, load: AcknowledgedWorkload
) -> None:
    node = of_brokers_alone(shop)
    (broker,) = [broker for broker in shop.running() if broker.node == node]
    with cordoned(shop, node):
        drain = ("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=120s")
        shop.plane.kubectl(*drain, "--pod-selector", f"sluicegate.dev/cluster={CLUSTER}")
        wait_for(
            "the broker is away", lambda: broker.pod not in {other.pod for other in shop.running() if other.container}
        )
        assert until_all_are_written_to(load) < TRAFFIC_MAX_S
    shop.await_replaced(int(broker.pod.rpartition("-")[2]), broker.uid)


def test_a_node_that_is_killed_is_done_without_and_comes_back(
    shop: NodeShop, load: AcknowledgedWorkload, nodes: Provider, figures: Figures
) -> None:
    node = of_brokers_alone(shop)
    nodes.kill(node)
    try:
        took_s = until_all_are_written_to(load)
        figures.note("a node is lost until all partitions are written to again, s", took_s)
    finally:
        nodes.start(node)
    shop.plane.kubectl(
        "wait", "--for=condition=Ready", f"node/{node}", f"--timeout={NODE_BACK_TIMEOUT_S:.0f}s", timeout_s=300
    )
    shop.await_settled()
    assert took_s < TRAFFIC_MAX_S


def test_a_node_that_is_cut_off_is_done_without_and_comes_back(
    shop: NodeShop, load: AcknowledgedWorkload, nodes: Provider, figures: Figures
) -> None:
    node = of_brokers_alone(shop)
    nodes.partition(node)
    try:
        took_s = until_all_are_written_to(load)
        figures.note("a node is cut off until all partitions are written to again, s", took_s)
    finally:
        nodes.heal(node)
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
