"""Listeners of running brokers over an in-memory cluster."""

import pytest

from sluicegate_operator.fleet.kafka.listeners import ListenerOutcome, ask_listeners, set_listeners
from sluicegate_operator.planning.listeners.exposure import Address
from sluicegate_operator.planning.listeners.listeners import OpenListener, OpenListeners
from tests.support.fakes.scripted_cluster import ScriptedCluster

pytestmark = pytest.mark.virtual_time

BOTH = "INTERNAL://:9091,A://:9094,B://:9095"


def opened(host: str, **ports: int) -> dict[str, OpenListener]:
    return {name: OpenListener(port, Address(host, port)) for name, port in {"INTERNAL": 9091, **ports}.items()}


def shop(brokers: int = 2) -> ScriptedCluster:
    cluster = ScriptedCluster(brokers)
    for number in range(brokers):
        cluster.overrides[number] = {"listeners": f"INTERNAL://b{number}:9091"}
    return cluster


async def tell(cluster: ScriptedCluster, **ports: int) -> tuple[dict[int, ListenerOutcome], dict[int, OpenListeners]]:
    """Open these ports; return the outcome, and the brokers' listeners afterwards."""
    pool = cluster.pool()
    async with pool.admin:
        now = await ask_listeners(pool, ports)
        wanted = {broker.broker_id: opened(broker.host, **ports) for broker in pool.brokers}
        told = await set_listeners(pool, now, wanted)
        return told, await ask_listeners(pool, ports)


async def test_each_broker_is_told_once_and_for_itself() -> None:
    cluster = shop()
    told, after = await tell(cluster, A=9094)
    assert told == {0: ListenerOutcome(("A",)), 1: ListenerOutcome(("A",))}
    assert after == {0: opened("b0", A=9094), 1: opened("b1", A=9094)}
    assert cluster.alterations == 2
    assert cluster.defaults == {}
    again, _ = await tell(cluster, A=9094)
    assert (again, cluster.alterations) == ({}, 2), "who has it is left alone"


async def test_one_listener_that_is_refused_does_not_hold_up_another() -> None:
    cluster = shop(1)
    cluster.refused |= {BOTH, "INTERNAL://:9091,B://:9095"}
    told, after = await tell(cluster, A=9094, B=9095)
    assert told[0].changed == ("A",)
    assert list(told[0].refused) == ["B"]
    assert "no such value" in told[0].refused["B"]
    assert after == {0: opened("b0", A=9094)}


async def test_a_single_one_that_is_refused_is_tried_once() -> None:
    cluster = shop(1)
    cluster.refused.add("INTERNAL://:9091,A://:9094")
    told, _ = await tell(cluster, A=9094)
    assert list(told[0].refused) == ["A"]
    assert cluster.alterations == 1


async def test_a_broker_that_is_away_is_left_out_and_the_others_are_done() -> None:
    cluster = shop()
    cluster.peers[1].refuse = True
    told, after = await tell(cluster, A=9094)
    assert told == {0: ListenerOutcome(("A",))}
    assert list(after) == [0]


async def test_a_broker_that_stops_answering_has_changed_nothing_as_far_as_known() -> None:
    cluster = shop(1)
    cluster.peers[0].script(44, lambda _: None)
    told, _ = await tell(cluster, A=9094)
    assert told == {0: ListenerOutcome()}
