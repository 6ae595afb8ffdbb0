"""The status of an external cluster, from its observation."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, parse_resource
from sluicegate_operator.api.models.parts.broker_cluster_status import NO_CONTROLLER
from sluicegate_operator.planning.external.external_registrations import plan_external_registrations
from sluicegate_operator.planning.external.external_status import (
    ConfigProgress,
    ExternalBroker,
    ExternalSeen,
    Quorum,
    ReplicaCounts,
    Voter,
    external_status,
    why_governed,
)
from tests.support.manifests.bad_manifests import cluster as bundled
from tests.support.manifests.bad_manifests import external

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BROKERS = tuple(ExternalBroker(number, "kafka", 9092 + number) for number in (1, 2, 3))
SEEN = ExternalSeen("c", BROKERS, Quorum(7, 4, (Voter(7, 0, 0.0), Voter(8, 123, 61.0))))
CONFIG = ConfigProgress()


def cluster(status: dict[str, Any] | None = None, **spec: Any) -> BrokerCluster:
    document = external(**spec)
    meta = {"namespace": "default", "uid": "u", "generation": 3}
    found = parse_resource({**document, "metadata": document["metadata"] | meta, "status": status or {}})
    assert isinstance(found, BrokerCluster)
    return found


@pytest.mark.parametrize(
    ("seen", "config", "ready", "reason", "says"),
    [
        (SEEN, CONFIG, "True", "Governed", "all 3 brokers answer"),
        (ExternalSeen(unseen="cannot connect"), CONFIG, "False", "Unreachable", "cannot connect"),
        (replace(SEEN, cluster_id="d"), CONFIG, "False", "AnotherCluster", "governs c"),
        (
            replace(SEEN, brokers=(replace(BROKERS[0], fenced=True),)),
            CONFIG,
            "False",
            "BrokersFenced",
            "these are fenced: 1;",
        ),
        (
            replace(SEEN, brokers=(replace(BROKERS[0], silent="x"),)),
            CONFIG,
            "False",
            "BrokersUnreachable",
            "broker 1: x",
        ),
        (SEEN, ConfigProgress(generation=2), "False", "SpecChanged", "is being compared with the brokers"),
        (SEEN, ConfigProgress(generation=3), "True", "Governed", "all 3 brokers answer"),
        (SEEN, ConfigProgress(refused="no"), "False", "ConfigRefused", "no"),
        (SEEN, ConfigProgress({2: "a is not b"}), "False", "ConfigApplying", "broker 2: a is not b"),
    ],
)
def test_an_external_cluster_is_ready_when_all_is_observed_and_nothing_is_refused(
    seen: ExternalSeen, config: ConfigProgress, ready: str, reason: str, says: str
) -> None:
    found = external_status(cluster({"clusterId": "c"}), seen, config, NOW).condition("Ready")
    assert found is not None
    assert (found.status, found.reason) == (ready, reason)
    assert says in found.message


def test_controllers_are_told_of_in_coarse_steps() -> None:
    status = external_status(cluster(), SEEN, CONFIG, NOW)
    assert status.voters == ("7: active, epoch 4", "8: lag 100, last contact 60 s ago")
    assert status.controller_id == 7
    found = status.condition("ControllersReady")
    assert found is not None
    assert (found.status, found.message) == ("False", "1/2, active: 7; no contact: 8")


def test_a_quorum_without_a_leader_is_shown_without_an_id() -> None:
    status = external_status(cluster(), replace(SEEN, quorum=Quorum(None, 4, (Voter(7, None, None),))), CONFIG, NOW)
    assert status.controller_id == NO_CONTROLLER
    found = status.condition("ControllersReady")
    assert found is not None
    assert found.message == "0/1, active: none; no contact: 7"


def test_an_unreachable_cluster_keeps_its_last_status() -> None:
    before = external_status(cluster(), SEEN, CONFIG, NOW)
    after = external_status(cluster(before.manifest()), ExternalSeen(unseen="away"), CONFIG, NOW)
    assert (after.brokers, after.cluster_id, after.voters) == ("3/3", "c", before.voters)


def test_a_broker_that_is_fenced_is_an_event_and_one_that_is_gone_goes() -> None:
    plan = plan_external_registrations(cluster(), (), BROKERS, {1: ReplicaCounts(2, 5, 1)}, NOW)
    assert [(one.status.state, one.status.leaders, one.new) for one in plan.registrations] == [
        ("Online", 2, True),
        ("Online", None, True),
        ("Online", None, True),
    ]
    assert plan.registrations[0].status.condition("InSync").status == "False"  # type: ignore[union-attr]
    there = [
        parse_resource(
            {**one.manifest, "metadata": {**one.manifest["metadata"], "generation": 1}, "status": one.status.manifest()}
        )
        for one in plan.registrations
    ]
    fenced = (BROKERS[0], replace(BROKERS[1], fenced=True))
    plan = plan_external_registrations(cluster(), there, fenced, {}, NOW)  # type: ignore[arg-type]
    assert [(event.type, event.reason) for one in plan.registrations for event in one.events] == [("Warning", "Fenced")]
    assert plan.delete == ("shop-3",)


def test_a_newly_started_operator_keeps_the_previous_status() -> None:
    told = cluster({"clusterId": "c", "observedGeneration": 3})
    found = external_status(told, SEEN, ConfigProgress(generation=0), NOW).condition("Ready")
    assert found is not None
    assert found.reason == "Governed"


@pytest.mark.parametrize("readable", [True, False])
@pytest.mark.parametrize("leaving", [False, True])
@pytest.mark.parametrize("born", ["2020-01-01T00:00:00Z", "2030-01-01T00:00:00Z"])
def test_a_cluster_that_runs_its_brokers_governs_them_at_any_age(readable: bool, leaving: bool, born: str) -> None:
    meta = {"name": "shop", "namespace": "default", "creationTimestamp": born}
    body = bundled() | {"metadata": meta | ({"deletionTimestamp": born} if leaving else {})}
    running = body | {"spec": body["spec"] | {"runtime": "Bundled"}, "status": {"clusterId": "c"}}
    other = parse_resource(running) if readable else running
    assert isinstance(other, BrokerCluster | dict)
    document = external()
    outside = parse_resource(
        document | {"metadata": {**document["metadata"], "creationTimestamp": "2025-01-01T00:00:00Z"}}
    )
    assert isinstance(outside, BrokerCluster)
    assert "BrokerCluster default/shop runs the brokers of the cluster" in why_governed(outside, "c", [outside, other])
    assert why_governed(outside, "d", [outside, other]) == ""
