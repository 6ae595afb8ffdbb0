"""Nodes, controllers, brokers, releases and objects, as `status` shows them."""

from dataclasses import replace
from typing import Any

import pytest

from sluicegate_operator.cli.doctor.checks.clusters import cluster_results, release_results, with_registrations
from sluicegate_operator.cli.doctor.checks.objects import object_results, row_results
from sluicegate_operator.cli.doctor.checks.results import CheckResult, Outcome, Unread
from sluicegate_operator.cli.fleets.fleet_view import BrokerRow, ShownCluster, ShownNode

Json = dict[str, Any]
NODE = ShownNode(0, "broker", None, 0, {}, "10.0.0.1:9404", None, "shop-brokers-0")
BROKER = BrokerRow(0, "Online", 5, 0.5, 3, 7, 0, 0, None, None)
ROW = {"kind": "Topic", "name": "orders", "ready": True, "message": ""}
SHOP = ShownCluster("shop", (NODE,), (BROKER,), "", {}, (), (ROW,))


def shown(results: Any) -> list[tuple[str, Outcome, str]]:
    found: list[CheckResult] = list(results)
    return [(one.check.name, one.outcome, one.sentence) for one in found]


def test_a_cluster_that_is_fine() -> None:
    assert shown(cluster_results([SHOP])) == [
        ("nodes", Outcome.OK, "1 of 1 nodes of shop are ready"),
        ("controller", Outcome.OK, "the active controller of shop answers"),
        ("brokers", Outcome.OK, "1 of 1 brokers of shop are Online and in sync"),
    ]


def test_an_external_cluster_has_no_nodes_to_check() -> None:
    unseen = "no controller has an address yet"
    assert shown(cluster_results([replace(SHOP, nodes=(), brokers=(), unseen=unseen)])) == []


def test_a_node_that_is_not_ready_and_an_unseen_controller() -> None:
    nodes = (NODE, replace(NODE, id=1, pod=None, problem="no answer in time"))
    assert shown(cluster_results([replace(SHOP, nodes=nodes, brokers=(), unseen="controller 1000 is not active")])) == [
        ("nodes", Outcome.PROBLEM, "broker 1 of shop is not ready: no answer in time"),
        ("nodes", Outcome.OK, "1 of 2 nodes of shop are ready"),
        ("controller", Outcome.PROBLEM, "no view of the controller of shop: controller 1000 is not active"),
    ]


def test_a_ready_pod_that_the_user_may_not_ask_is_ready() -> None:
    denied = "GET .../pods/shop-brokers-0:9404/proxy/x: 403 pods is forbidden"
    nodes = (replace(NODE, problem=denied),)
    unseen = f"shop-controllers-0: {denied}"
    assert shown(cluster_results([replace(SHOP, nodes=nodes, brokers=(), unseen=unseen)], {"shop-brokers-0"})) == [
        ("nodes", Outcome.OK, "1 of 1 nodes of shop are ready"),
        ("nodes", Outcome.SKIPPED, f"shop-brokers-0: you may not ask these nodes: {denied}"),
        ("controller", Outcome.SKIPPED, f"you may not ask the controllers of shop: {unseen}"),
    ]


@pytest.mark.parametrize(
    ("ready", "words"),
    [
        ({"shop-brokers-0"}, "is ready, and the API server has no answer of it: 503 no answer"),
        (set(), "is not ready: 503 no answer"),
    ],
)
def test_a_pod_that_does_not_answer_is_a_problem(ready: set[str], words: str) -> None:
    nodes = (replace(NODE, problem="503 no answer"),)
    found = shown(cluster_results([replace(SHOP, nodes=nodes)], ready))
    assert found[0] == ("nodes", Outcome.PROBLEM, f"broker 0 of shop (pod shop-brokers-0) {words}")


def test_registrations_replace_the_view_of_an_unseen_controller() -> None:
    spec: Json = {"clusterRef": {"name": "shop"}, "brokerId": 3}
    registered: list[Json] = [
        {"spec": spec, "status": {"state": "Fenced", "outOfSync": 2}},
        {"spec": spec | {"brokerId": 4}},
        {"spec": spec | {"clusterRef": {"name": "other"}}, "status": {"state": "Online"}},
    ]
    seen = with_registrations(replace(SHOP, brokers=(), unseen="no answer"), registered)
    assert [(row.id, row.state, row.out_of_sync) for row in seen.brokers] == [(3, "Fenced", 2)]
    assert with_registrations(SHOP, registered) is SHOP


@pytest.mark.parametrize(
    ("change", "outcome", "words"),
    [
        ({"state": "Fenced"}, Outcome.PROBLEM, "broker 0 of shop is Fenced: it serves no clients"),
        ({"state": "Offline"}, Outcome.PROBLEM, "broker 0 of shop is Offline: it serves no clients"),
        ({"state": "Stopping"}, Outcome.WARNING, "broker 0 of shop is Stopping: its leaders move to other brokers"),
        ({"out_of_sync": 2}, Outcome.WARNING, "2 of 7 replicas of broker 0 of shop are out of sync"),
    ],
)
def test_a_broker_that_does_not_serve(change: Json, outcome: Outcome, words: str) -> None:
    found = shown(cluster_results([replace(SHOP, brokers=(replace(BROKER, **change),))]))
    assert found[-1] == ("brokers", outcome, words)


@pytest.mark.parametrize(
    ("found", "outcome", "words"),
    [
        ({0: "0.2.0-sluicegate", 1: "0.2.0"}, Outcome.OK, "the brokers of shop have release 0.2.0"),
        ({0: "0.1.0"}, Outcome.WARNING, "the brokers of shop have release 0.1.0, this command 0.2.0"),
        (
            {0: "0.1.0", 1: "0.2.0", 2: "0.1.0"},
            Outcome.WARNING,
            "the brokers of shop have several releases: 0.1.0: broker 0, 2; 0.2.0: broker 1",
        ),
        ({}, Outcome.SKIPPED, "no broker of shop has reported its release"),
        (Unread("403"), Outcome.SKIPPED, "the releases of the brokers of shop are unknown: 403"),
    ],
)
def test_releases_are_compared(found: Any, outcome: Outcome, words: str) -> None:
    assert shown(release_results({"shop": found}, "0.2.0")) == [("releases", outcome, words)]


def test_a_command_of_unknown_release_compares_brokers_only_with_each_other() -> None:
    assert shown(release_results({"shop": {0: "0.1.0"}}, None))[0][1] is Outcome.OK


def an_object(name: str, *conditions: tuple[str, str]) -> Json:
    told = [{"type": kind, "status": status, "reason": "Because", "message": "words"} for kind, status in conditions]
    return {"kind": "Topic", "metadata": {"name": name}, "status": {"conditions": told}}


def test_objects_that_are_not_ready() -> None:
    bodies = [
        an_object("a", ("Ready", "True")),
        an_object("b", ("Ready", "False"), ("Reconciling", "True")),
        an_object("c", ("Ready", "False"), ("Stalled", "True")),
        an_object("d"),
    ]
    assert shown(object_results(bodies)) == [
        ("objects", Outcome.WARNING, "Topic b is not Ready: Because: words"),
        ("objects", Outcome.PROBLEM, "Topic c is not Ready: Because: words"),
        ("objects", Outcome.WARNING, "Topic d: the operator has not reconciled it yet"),
        ("objects", Outcome.OK, "1 of 4 objects are Ready"),
    ]


def test_rows_of_up_that_are_not_ready() -> None:
    rows = (ROW, {**ROW, "name": "events", "ready": False, "message": "broker 1 does not answer"})
    assert shown(row_results([replace(SHOP, resources=rows)])) == [
        ("objects", Outcome.WARNING, "Topic events is not ready: broker 1 does not answer"),
        ("objects", Outcome.OK, "1 of 2 objects are ready"),
    ]
