"""One rate of connections for three real brokers: the demand moves, a broker dies, the controller is away."""

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.integration.connections.test_connection_groups import alter
from tests.support.processes.broker_process import BrokerGroup, BrokerProcess
from tests.support.processes.clients.admitted import Admitted
from tests.support.processes.clients.broker_admin import set_default_config, until
from tests.support.processes.clients.reconnecting import Reconnecting

LISTENER = "EXTERNAL"
PREFIX = f"listener.name.{LISTENER.lower()}."
RATE_KEY, SCOPE_KEY = f"{PREFIX}max.connection.creation.rate", f"{PREFIX}connection.quota.scope"
RATE = 100
TIMING = {"broker.session.timeout.ms": "9000", "broker.heartbeat.interval.ms": "500"}
GROUP = "shop/ingest"


@pytest.fixture(scope="module")
def cluster() -> Iterator[BrokerGroup]:
    with BrokerGroup(3, listeners=[LISTENER], properties=TIMING) as group:
        set_default_config(group.brokers[0], RATE_KEY, str(RATE))
        set_default_config(group.brokers[0], SCOPE_KEY, "cluster")
        until(lambda: all_granted(group.brokers), "every broker has a share")
        yield group


def limit(broker: BrokerProcess) -> dict[str, Any]:
    status, body = broker.get("/connection-limits?held=true")
    assert status == 200, body
    found: dict[str, Any] = json.loads(body)["listeners"][LISTENER]
    return found


def all_granted(brokers: list[BrokerProcess]) -> bool:
    shares = [limit(broker)["cluster"] for broker in brokers]
    return all(share is not None and share["state"] == "granted" and share["share"] > 0 for share in shares)


def storm(broker: BrokerProcess, clients: int = 60) -> Reconnecting:
    """Let more clients connect to a broker than it may admit."""
    return Reconnecting((broker.host, broker.port(LISTENER)), clients)


@pytest.mark.full
def test_demand_that_moves_gets_the_rate_within_three_seconds(cluster: BrokerGroup) -> None:
    shares_of_rate = []
    with Admitted(cluster.brokers, LISTENER) as found:
        # Other processes may use the processors for seconds: then the demand moves again.
        for broker in (*cluster.brokers, *cluster.brokers):
            with storm(broker):
                begin_s = time.monotonic()
                found.wait(8)
            shares_of_rate.append(found.per_s(begin_s + 3, begin_s + 8) / RATE)
            if len(shares_of_rate) > 1 and shares_of_rate[-1] >= 0.9:
                break
    assert shares_of_rate[-1] >= 0.9, shares_of_rate
    assert found.most_per_s(10) <= 1.1 * RATE
    shares = [limit(broker)["cluster"] for broker in cluster.brokers]
    assert sum(share["share"] for share in shares) <= RATE
    assert {share["brokers"] for share in shares} == {3}


def test_brokers_that_need_it_divide_the_rate_equally(cluster: BrokerGroup) -> None:
    with Admitted(cluster.brokers, LISTENER) as found, storm(cluster.brokers[0]), storm(cluster.brokers[1]):
        found.wait(5)
        until(
            lambda: min(limit(broker)["cluster"]["share"] for broker in cluster.brokers[:2]) > 0.4 * RATE,
            "two brokers with nearly half of the rate each",
        )
        found.reach(0.9 * RATE)
        assert limit(cluster.brokers[0])["held"]["rate"] > 0
    assert found.most_per_s(10) <= 1.1 * RATE


def test_metrics_show_rate_share_and_demand(cluster: BrokerGroup) -> None:
    metrics = cluster.brokers[0].metrics()
    name, target = "sluicegate_cluster_connection_rate", f'{{target="listener {LISTENER}"}}'
    assert metrics[name + target] == RATE
    assert 0 < metrics[f"{name}_share{target}"] <= RATE
    assert metrics[f"{name}_demand{target}"] >= 0
    assert 0 <= metrics[f"{name}_answer_age_seconds{target}"] < 4
    assert metrics[f'{name}_reports_total{{outcome="answered"}}'] > 0


def group(broker: BrokerProcess) -> Mapping[str, Any]:
    """Return the share of the group on a broker; empty if the group is not in force."""
    status, body = broker.get(f"/connection-quotas?group={GROUP}")
    found: Mapping[str, Any] = json.loads(body) if status == 200 else {}
    return found.get("cluster") or {}


@pytest.mark.full
def test_a_connection_group_shares_one_rate_of_the_cluster(cluster: BrokerGroup) -> None:
    controller = cluster.brokers[0]
    entity, values = {"connection-group": GROUP}, {"connection_creation_rate": 30.0, "shared": 1.0, "cluster": 1.0}
    problem = alter(controller, (entity, {"connection_creation_rate": 30.0, "cluster": 1.0}))
    assert problem == [
        "cluster 1 needs shared 1: the members share the one rate of all brokers; set shared to 1, or cluster to 0"
    ]
    member = {"connection-group": GROUP, "ip": "127.0.0.0/8"}
    assert alter(controller, (entity, values), (member, {"member": 1.0})) == [None, None]
    try:
        until(lambda: all(group(one).get("state") == "granted" for one in cluster.brokers), "shares of the group")
        # The broker keeps refused clients for up to a second, so many of them are needed.
        with Admitted(cluster.brokers, LISTENER) as found, storm(cluster.brokers[2], clients=200):
            until(lambda: group(cluster.brokers[2])["share"] >= 0.9 * 30, "the rate of the group at one broker")
            found.reach(0.9 * 30)
            assert found.most_per_s(10) <= 1.1 * 30
            assert sum(group(broker)["share"] for broker in cluster.brokers) <= 30
    finally:
        alter(controller, (entity, dict.fromkeys(values)), (member, {"member": None}))
    until(lambda: not group(cluster.brokers[0]), "the end of the group")


@contextmanager
def paused(node: BrokerProcess) -> Iterator[None]:
    node.pause()
    try:
        yield
    finally:
        node.resume()


@pytest.mark.full
def test_a_paused_controller_lets_no_broker_exceed_the_rate(cluster: BrokerGroup) -> None:
    first = cluster.brokers[0]
    with Admitted(cluster.brokers, LISTENER) as found, storm(first):
        until(lambda: limit(first)["cluster"]["share"] > 0.9 * RATE, "the rate at one broker")
        with paused(cluster.controller):
            until(lambda: limit(first)["cluster"]["state"] == "reserve", "the end of the lease")
            assert limit(first)["cluster"]["share"] == pytest.approx(RATE / 3, rel=0.01)
        until(lambda: limit(first)["cluster"]["share"] > 0.9 * RATE, "the rate again")
        found.reach(0.9 * RATE)
        assert found.most_per_s(10) <= 1.1 * RATE


@pytest.mark.full
def test_a_controller_that_is_killed_and_started_grants_again(cluster: BrokerGroup) -> None:
    first = cluster.brokers[0]
    with Admitted(cluster.brokers, LISTENER) as found, storm(first):
        until(lambda: limit(first)["cluster"]["share"] > 0.9 * RATE, "the rate at one broker")
        cluster.controller.kill()
        cluster.controller.start()
        begin_s = time.monotonic()
        until(lambda: (limit(first)["cluster"]["age_s"] or 9.0) < 1, "an answer of the new term")
        until(lambda: limit(first)["cluster"]["share"] > 0.9 * RATE, "the rate again")
        found.wait(max(0.0, begin_s + 6 - time.monotonic()))
        assert found.most_per_s(10) <= 1.1 * RATE


@pytest.mark.full
def test_the_share_of_a_killed_broker_returns(cluster: BrokerGroup) -> None:
    first, second = cluster.brokers[:2]
    with Admitted(cluster.brokers, LISTENER) as found:
        with storm(second):
            until(lambda: limit(second)["cluster"]["share"] > 0.9 * RATE, "the rate at the second broker")
            second.kill()
        with storm(first):
            until(lambda: limit(first)["cluster"]["share"] > 0.9 * RATE, "the rate at the first broker")
            found.reach(0.9 * RATE)
        second.start()
        until(lambda: all_granted(cluster.brokers), "the second broker has a share again")
        assert found.most_per_s(10) <= 1.1 * RATE
