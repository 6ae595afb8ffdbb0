"""Observers on every broker: set together, waited for, and reported as each broker reports them."""

from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, ObserverPlugin, parse_resource
from sluicegate_operator.fleet.kafka.observers import enforce_observers, plugin_reports
from sluicegate_operator.planning.observers.observers import ObserverPlan, ObserverReport, plan_observers
from tests.support.fakes.scripted_cluster import REFUSED, ScriptedCluster
from tests.support.manifests.bad_manifests import cluster, observer

pytestmark = pytest.mark.virtual_time

DOC = "The class of this observer. On this broker: orders: "


def plan(**spec: Any) -> ObserverPlan:
    shop, plugin = parse_resource(cluster()), parse_resource(observer(**spec))
    assert isinstance(shop, BrokerCluster)
    assert isinstance(plugin, ObserverPlugin)
    return plan_observers(shop, [plugin])


def say(brokers: ScriptedCluster, *said: str) -> None:
    for number, text in enumerate(said):
        brokers.documentation[number] = {"observer.orders.class": DOC + text}


async def test_observers_are_set_in_one_change_and_each_broker_reports_its_state() -> None:
    brokers = ScriptedCluster(3)
    brokers.defaults["observer.class.names"] = "mine"
    brokers.defaults["observer.mine.class"] = "a.B"
    say(brokers, "Loaded", "Failed (ValueError: no (such) path)", "Loaded (2 errors, the last: KeyError: 'x')")
    wanted = plan(config={"path": "/tmp/x"})

    result = await enforce_observers(brokers.pool(), wanted)

    assert brokers.defaults == wanted.configs
    assert brokers.alterations == 1
    reports = plugin_reports(wanted, wanted.verdicts["orders"], (0, 1, 2), result)
    assert reports.reports == {
        0: ObserverReport("Loaded"),
        1: ObserverReport("Failed", "ValueError: no (such) path"),
        2: ObserverReport("Loaded", "2 errors, the last: KeyError: 'x'"),
    }
    assert reports.counted == "2/3"
    assert reports.settled
    again = await enforce_observers(brokers.pool(), wanted)
    assert again.changes == ()
    assert brokers.alterations == 1


async def test_the_last_plugin_takes_all_keys_with_it() -> None:
    brokers = ScriptedCluster(2)
    brokers.defaults |= plan().configs
    await enforce_observers(brokers.pool(), ObserverPlan())
    assert brokers.defaults == {}


async def test_an_offline_broker_is_reported_and_the_others_are_set() -> None:
    brokers = ScriptedCluster(2)
    say(brokers, "Loaded")
    brokers.peers[1].refuse = True
    wanted = plan()
    result = await enforce_observers(brokers.pool(), wanted)
    reports = plugin_reports(wanted, wanted.verdicts["orders"], (0, 1), result)
    assert [(broker_id, report.state) for broker_id, report in reports.by_broker] == [(1, "Unknown"), (0, "Loaded")]
    assert reports.error
    assert not reports.settled


async def test_the_wait_for_a_loading_observer_has_a_deadline() -> None:
    brokers = ScriptedCluster(1)
    say(brokers, "Loading (it is being loaded)")
    wanted = plan()
    result = await enforce_observers(brokers.pool(), wanted, deadline_s=3.0)
    reports = plugin_reports(wanted, wanted.verdicts["orders"], (0,), result)
    assert reports.reports == {0: ObserverReport("Loading", "it is being loaded")}
    assert not reports.settled


async def test_a_value_that_brokers_refuse_is_told_of_its_plugin() -> None:
    brokers = ScriptedCluster(1)
    say(brokers, "Failed (KeyError: 'path')")
    wanted = plan(config={"path": REFUSED})
    result = await enforce_observers(brokers.pool(), wanted)
    reports = plugin_reports(wanted, wanted.verdicts["orders"], (0,), result)
    assert "no such value" in reports.refused
