"""BrokerRegistrations from the controller's view: coarse steps, Events on each change, gates of pods."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerRegistration, parse_resource
from sluicegate_operator.api.models.broker_registration import TAGS_MAX
from sluicegate_operator.planning.registrations.fencing import BrokerPod, ContainerEnd
from sluicegate_operator.planning.registrations.overview import BrokerOverview, BrokerState, ClusterOverview
from sluicegate_operator.planning.registrations.registrations import (
    BrokerWords,
    RegistrationPlan,
    RegistrationsPlan,
    SeenBrokers,
    plan_registrations,
    unfenced_gate,
)
from tests.support.manifests.bad_manifests import cluster, registration

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ONLINE = BrokerOverview(
    2, 41, "6264", BrokerState.ONLINE, "a", heartbeat_age_s=1.9, leaders=3, replicas=7, metadata_lag=0, host="10.0.0.2"
)


def a_cluster() -> BrokerCluster:
    document = cluster() | {"metadata": {"name": "shop", "uid": "u"}}
    made = parse_resource(document)
    assert isinstance(made, BrokerCluster)
    return made


POD = BrokerPod("shop-brokers-2", 2, "10.0.0.2")


def planned(
    *brokers: BrokerOverview,
    existing: tuple[BrokerRegistration, ...] = (),
    now: datetime = NOW,
    pods: tuple[BrokerPod, ...] = (POD,),
    told: Mapping[int, BrokerWords] | None = None,
) -> RegistrationsPlan:
    seen = SeenBrokers(ClusterOverview("c", 1000, 1, 9, brokers), pods, told or {})
    return plan_registrations(a_cluster(), existing, seen, now)


def stored(plan: RegistrationPlan) -> BrokerRegistration:
    """The registration as the API server has it after the operator wrote it."""
    manifest: dict[str, Any] = {**plan.manifest, "status": plan.status.manifest()}
    manifest["metadata"] = manifest["metadata"] | {"generation": 1}
    made = parse_resource(manifest)
    assert isinstance(made, BrokerRegistration)
    return made


def only(plan: RegistrationsPlan) -> RegistrationPlan:
    (one,) = plan.registrations
    return one


def test_a_broker_that_registers_is_written_down() -> None:
    plan = only(planned(ONLINE))
    assert (plan.name, plan.new) == ("shop-2", True)
    assert stored(plan).spec.broker_id == 2
    assert plan.manifest["metadata"]["ownerReferences"][0]["kind"] == "BrokerCluster"
    status = plan.status
    assert (status.state, status.broker_epoch, status.pod, status.rack) == ("Online", 41, "shop-brokers-2", "a")
    assert (status.leaders, status.replicas, status.out_of_sync) == (3, 7, 0)
    assert [event.reason for event in plan.events] == ["Registered", "Online"]


def test_nothing_new_changes_nothing() -> None:
    first = only(planned(ONLINE))
    later = only(planned(replace(ONLINE, heartbeat_age_s=0.1), existing=(stored(first),), now=NOW + timedelta(hours=1)))
    assert later.status == first.status
    assert (later.events, later.new) == ((), False)


@pytest.mark.parametrize(
    ("before", "after", "events"),
    [
        (ONLINE, replace(ONLINE, state=BrokerState.STOPPING), [("Normal", "Stopping")]),
        (ONLINE, replace(ONLINE, state=BrokerState.FENCED), [("Warning", "Fenced")]),
        (ONLINE, replace(ONLINE, state=BrokerState.OFFLINE), [("Warning", "Offline")]),
        (
            replace(ONLINE, state=BrokerState.STOPPING),
            replace(ONLINE, state=BrokerState.OFFLINE),
            [("Normal", "Offline")],
        ),
        (ONLINE, replace(ONLINE, epoch=50), [("Normal", "Registered")]),
        (
            replace(ONLINE, state=BrokerState.OFFLINE),
            replace(ONLINE, epoch=50, state=BrokerState.FENCED),
            [("Normal", "Registered"), ("Normal", "Fenced")],
        ),
    ],
)
def test_each_change_is_an_event(before: BrokerOverview, after: BrokerOverview, events: list[tuple[str, str]]) -> None:
    plan = only(planned(after, existing=(stored(only(planned(before))),)))
    assert [(event.type, event.reason) for event in plan.events] == events
    assert all("broker 2" in event.message for event in plan.events)


@pytest.mark.parametrize("state", [BrokerState.OFFLINE, BrokerState.FENCED])
def test_the_end_of_a_broker_to_be_removed_is_not_a_warning(state: BrokerState) -> None:
    def types(before: BrokerOverview, after: BrokerOverview, pods: tuple[BrokerPod, ...] = (POD,)) -> set[str]:
        plan = only(planned(after, existing=(stored(only(planned(before))),), pods=pods))
        return {event.type for event in plan.events}

    gone = replace(ONLINE, state=state)
    assert types(ONLINE, gone, (replace(POD, deleting=True),)) == {"Normal"}, "its pod was told to stop"
    assert types(ONLINE, replace(gone, epoch=50)) == {"Normal"}, "another incarnation has registered"
    assert types(replace(ONLINE, id=3), replace(gone, id=3), ()) == {"Normal"}, "it is scaled away"
    assert types(ONLINE, gone) == {"Warning"}


@pytest.mark.parametrize(
    ("state", "ready", "reconciling"),
    [
        (BrokerState.ONLINE, "True", "False"),
        (BrokerState.FENCED, "False", "True"),
        (BrokerState.STOPPING, "False", "True"),
        (BrokerState.OFFLINE, "False", "True"),
    ],
)
def test_only_an_online_broker_is_ready(state: BrokerState, ready: str, reconciling: str) -> None:
    status = only(planned(replace(ONLINE, state=state))).status
    found = {condition.type: condition.status for condition in status.conditions}
    assert (found["Ready"], found["Reconciling"], found["Stalled"]) == (ready, reconciling, "False")
    assert status.observed_generation == 1


CRASHED = replace(POD, ended=ContainerEnd(1000, "OOMKilled, exit code 137"))
OFFLINE = replace(ONLINE, state=BrokerState.OFFLINE, began_ms=900)


@pytest.mark.parametrize(
    ("broker", "pods", "word"),
    [
        (OFFLINE, (POD,), "no session"),
        (
            OFFLINE,
            (CRASHED,),
            "the container of shop-brokers-2 with the process of broker 2 ended (OOMKilled, exit code 137)",
        ),
        (OFFLINE, (), "the pod of broker 2 does not exist any more"),
        (replace(OFFLINE, began_ms=1500), (CRASHED,), "no session"),
        # A broker with a session serves, whatever ended before.
        (replace(ONLINE, began_ms=1500), (CRASHED,), "the broker serves clients"),
        (ONLINE, (), "the broker serves clients"),
    ],
)
def test_an_offline_brokers_condition_and_event_have_its_pods_reason(
    broker: BrokerOverview, pods: tuple[BrokerPod, ...], word: str
) -> None:
    plan = only(planned(broker, pods=pods))
    [ready] = [condition for condition in plan.status.conditions if condition.type == "Ready"]
    assert word in ready.message
    assert word in plan.events[-1].message


@pytest.mark.parametrize(
    ("age_s", "step"), [(None, None), (0.0, 0), (4.9, 0), (5.0, 5), (14.9, 10), (59.0, 30), (1e9, 86400), (-0.1, 0)]
)
def test_ages_are_coarse(age_s: float | None, step: int | None) -> None:
    assert only(planned(replace(ONLINE, heartbeat_age_s=age_s))).status.last_heartbeat_age_seconds == step


@pytest.mark.parametrize(("lag", "step"), [(None, None), (0, 0), (1, 1), (9, 1), (10, 10), (12345, 10000)])
def test_lags_are_coarse(lag: int | None, step: int | None) -> None:
    assert only(planned(replace(ONLINE, metadata_lag=lag))).status.metadata_lag == step


def test_an_unregistered_broker_loses_its_object_and_others_keep_theirs() -> None:
    gone = stored(only(planned(ONLINE)))
    foreign = parse_resource(registration("bank-9", clusterRef={"name": "bank"}, brokerId=9))
    assert isinstance(foreign, BrokerRegistration)
    assert planned(existing=(gone, foreign)) == RegistrationsPlan((), ("shop-2",))


@pytest.mark.parametrize(
    ("broker", "host", "status", "reason"),
    [
        (ONLINE, "10.0.0.2", "True", "Online"),
        (replace(ONLINE, state=BrokerState.FENCED), "10.0.0.2", "False", "Fenced"),
        (replace(ONLINE, state=BrokerState.STOPPING), "10.0.0.2", "False", "Stopping"),
        (ONLINE, "10.0.0.9", "False", "NotRegistered"),
        (replace(ONLINE, state=BrokerState.OFFLINE), "", "False", "Offline"),
        (None, "10.0.0.2", "False", "NotRegistered"),
    ],
)
def test_the_gate_is_open_for_the_pod_that_is_online(
    broker: BrokerOverview | None, host: str, status: str, reason: str
) -> None:
    seen = ClusterOverview("c", 1000, 1, 9, (broker,) if broker else ())
    verdict = unfenced_gate(seen, 2, host)
    assert verdict is not None
    assert (verdict.status, verdict.reason) == (status, reason)
    assert verdict.message


def test_without_a_controller_the_gate_stays_as_it_is() -> None:
    assert unfenced_gate(None, 2, "10.0.0.2") is None


def test_a_pod_without_a_known_address_keeps_its_gate_while_its_broker_is_online() -> None:
    """The gate stays closed for a new pod: the session's owner is known once the kubelet has reported the address."""
    assert unfenced_gate(ClusterOverview("c", 1000, 1, 9, (ONLINE,)), 2, "") is None


def test_a_brokers_description_is_stored_until_it_changes() -> None:
    told = {2: BrokerWords("0.1.0-sluicegate", 1, 3, {"team": "payments"}), 3: BrokerWords(None, None, None, {})}
    first = only(planned(ONLINE, told=told))
    status = first.status
    assert (status.version, status.protocol_version_min, status.protocol_version_max) == ("0.1.0-sluicegate", 1, 3)
    assert status.tags == {"team": "payments"}
    # An operator that has just started has not asked yet.
    assert only(planned(ONLINE, existing=(stored(first),))).status == status
    silent = only(planned(ONLINE, existing=(stored(first),), told={2: BrokerWords(None, None, None, {})})).status
    assert (silent.version, silent.protocol_version_min, silent.tags) == (None, None, None)


def test_no_more_tags_are_written_down_than_the_schema_takes() -> None:
    many = {2: BrokerWords("0.1.0", 1, 3, {f"t{number:03}": "a" for number in range(TAGS_MAX + 1)})}
    shown = only(planned(ONLINE, told=many)).status.tags or {}
    assert (len(shown), f"t{TAGS_MAX:03}" in shown) == (TAGS_MAX, False)
