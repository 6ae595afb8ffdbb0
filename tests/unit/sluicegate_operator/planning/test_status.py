"""Status of quotas and clusters: kstatus, times, and the messages to users."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from sluicegate_operator.api import BrokerCluster, BrokerListener, ConnectionQuota, parse_resource
from sluicegate_operator.api.models.connection_quota import ConnectionQuotaStatus, ObservedCounts
from sluicegate_operator.api.models.parts.broker_cluster_status import VolumesStatus
from sluicegate_operator.api.schema.metadata import Status
from sluicegate_operator.planning.clusters.cluster_status import cluster_status
from sluicegate_operator.planning.layout.cluster_layout import Role
from sluicegate_operator.planning.layout.restart_reasons import ReasonKind, RestartReason
from sluicegate_operator.planning.layout.volumes import VolumesSeen
from sluicegate_operator.planning.listeners.exposure import HIDDEN, Hiding
from sluicegate_operator.planning.registrations.fencing import FenceOrder
from sluicegate_operator.planning.registrations.racks import RackAssignment, RackPod, RacksPlan, RackWait
from sluicegate_operator.planning.rolls.roll import (
    Done,
    Fence,
    PlannedRestart,
    Restart,
    RollStep,
    WaitForNodes,
    WaitReason,
)
from sluicegate_operator.planning.rolls.scale import ScaleReason, ScaleStep
from sluicegate_operator.planning.rolls.start_failures import FailingNode, NodesNotStarting, StartFailure
from sluicegate_operator.planning.status.log_damage import BrokerDamage
from sluicegate_operator.quotas.plan import plan_quotas
from sluicegate_operator.quotas.status import Enforcement, quota_status
from tests.support.manifests.bad_manifests import cluster, listener, quota
from tests.support.oracles.kstatus import kstatus as kstatus_of
from tests.support.worlds.observed_clusters import observed_cluster

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)
BROKERS = (0, 1, 2)


def kstatus(status: Status, generation: int) -> str:
    return kstatus_of({"metadata": {"generation": generation}, "status": status.manifest()})


def resource(document: dict[str, Any], generation: int = 1, **metadata: Any) -> Any:
    return parse_resource(document | {"metadata": document["metadata"] | {"generation": generation} | metadata})


def a_cluster(**spec: Any) -> BrokerCluster:
    parsed: BrokerCluster = resource(cluster(**spec))
    return parsed


def a_listener() -> BrokerListener:
    parsed: BrokerListener = resource(listener())
    return parsed


def a_quota(status: ConnectionQuotaStatus | None = None, generation: int = 1, **spec: Any) -> ConnectionQuota:
    parsed: ConnectionQuota = resource(quota(**(spec or {"maxConnectionCreationRate": 50})), generation)
    return parsed.model_copy(update={"status": status}) if status else parsed


def status_of(one: ConnectionQuota, enforcement: Enforcement, now: datetime = NOW) -> ConnectionQuotaStatus:
    return quota_status(one, plan_quotas(a_cluster(), [a_listener()], [one]).of[one.name], enforcement, now)


ALL = Enforcement(BROKERS, (), NOW - timedelta(seconds=0.25))


def test_a_quota_that_all_brokers_enforce_is_current() -> None:
    status = status_of(a_quota(), ALL)
    assert kstatus(status, 1) == "Current"
    assert (status.brokers, status.target, status.apply_seconds, status.enforced_at) == ("3/3", "broker", 0.25, NOW)
    assert status.effective is not None
    assert status.effective.max_connection_creation_rate == 50
    held = {condition.type: condition.status for condition in status.conditions}
    assert held == {
        "Ready": "True",
        "Reconciling": "False",
        "Stalled": "False",
        "TargetFound": "True",
        "Enforced": "True",
        "Conflicted": "False",
    }
    assert {condition.observed_generation for condition in status.conditions} == {1}


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ({"defaultIp": {}}, "True"),
        ({"ip": "203.0.113.7"}, "True"),
        ({"listener": "EXTERNAL"}, ""),
        ({"broker": {}}, ""),
    ],
)
def test_a_limit_on_addresses_reports_where_they_are_hidden(target: dict[str, Any], shown: str) -> None:
    hidden = replace(ALL, hiding=Hiding(hidden=True, reason="TrafficPolicyCluster", message="say proxyProtocol"))
    one: ConnectionQuota = resource(quota(target))
    status = status_of(one, hidden)
    assert [c.status for c in status.conditions if c.type == HIDDEN] == ([shown] if shown else [])
    assert kstatus(status, 1) == "Current"


def test_a_quota_that_brokers_lack_is_in_progress_and_names_them() -> None:
    status = status_of(a_quota(), Enforcement(BROKERS, (2, 1), NOW, "broker 1: REQUEST_TIMED_OUT"))
    assert kstatus(status, 1) == "InProgress"
    assert status.brokers == "1/3"
    assert status.enforced_at is None
    ready = status.condition("Ready")
    assert ready is not None
    assert ready.message == "enforced by 1/3 brokers; waiting for 1, 2: broker 1: REQUEST_TIMED_OUT"


def test_a_limit_that_brokers_refuse_is_a_matter_for_a_person() -> None:
    status = status_of(
        a_quota(), Enforcement(BROKERS, BROKERS, NOW, "INVALID_REQUEST: nobody could connect", refused=True)
    )
    assert kstatus(status, 1) == "Failed"
    stalled = status.condition("Stalled")
    assert stalled is not None
    assert (stalled.reason, stalled.message) == (
        "Refused",
        "enforced by 0/3 brokers; waiting for 0, 1, 2: INVALID_REQUEST: nobody could connect",
    )


def test_a_quota_without_brokers_is_in_progress() -> None:
    assert kstatus(status_of(a_quota(), Enforcement()), 1) == "InProgress"


def test_a_quota_without_its_listener_fails_with_a_sentence() -> None:
    status = status_of(a_quota(target={"listener": "OTHER"}, maxConnections=1), ALL)
    assert kstatus(status, 1) == "Failed"
    ready = status.condition("Ready")
    assert ready is not None
    assert "create it or correct target.listener" in ready.message
    assert (status.brokers, status.enforced_at, status.effective) == ("", None, None)


def test_what_brokers_have_counted_is_not_shown_without_the_cluster() -> None:
    counted = ObservedCounts(would_hold=1234, brokers="3/3")
    spec: dict[str, Any] = {"mode": "Observe", "target": {"cidr": "10.0.0.0/8"}, "maxConnections": 1}
    one = a_quota(ConnectionQuotaStatus(observed=counted), **spec)
    assert status_of(one, replace(ALL, observed=counted)).observed == counted
    gone = quota_status(one, plan_quotas(None, [], [one]).of[one.name], Enforcement(), NOW)
    assert (gone.observed, kstatus(gone, 1)) == (None, "Failed")


def test_a_quota_that_lost_to_a_stricter_one_fails_and_shows_what_is_enforced() -> None:
    loose = a_quota()
    strict: ConnectionQuota = resource(quota(maxConnectionCreationRate=5), name="strict")
    status = quota_status(loose, plan_quotas(a_cluster(), [a_listener()], [loose, strict]).of[loose.name], ALL, NOW)
    assert kstatus(status, 1) == "Failed"
    assert status.effective is not None
    assert status.effective.max_connection_creation_rate == 5
    conflicted, enforced = status.condition("Conflicted"), status.condition("Enforced")
    assert conflicted is not None
    assert enforced is not None
    assert (conflicted.status, enforced.status) == ("True", "False")
    assert "ConnectionQuota strict" in conflicted.message
    assert status.enforced_at is None


def test_nothing_changes_while_nothing_changes() -> None:
    first = status_of(a_quota(), ALL)
    assert status_of(a_quota(first), ALL, LATER) == first


def test_transition_times_move_only_with_the_status() -> None:
    first = status_of(a_quota(), ALL)
    second = status_of(a_quota(first), Enforcement(BROKERS, (1,)), LATER)
    times = {condition.type: condition.last_transition_time for condition in second.conditions}
    assert times == {
        "Ready": LATER,
        "Reconciling": LATER,
        "Stalled": NOW,
        "TargetFound": NOW,
        "Enforced": LATER,
        "Conflicted": NOW,
    }


def test_mended_drift_is_not_a_new_enforcement() -> None:
    first = status_of(a_quota(), ALL)
    lagging = status_of(a_quota(first), Enforcement(BROKERS, (1,)), LATER)
    mended = status_of(a_quota(lagging), ALL, LATER)
    assert (mended.enforced_at, mended.apply_seconds) == (first.enforced_at, first.apply_seconds)


def test_a_new_generation_is_a_new_enforcement() -> None:
    first = status_of(a_quota(), ALL)
    changed = a_quota(first, generation=2, maxConnectionCreationRate=70)
    assert kstatus(first, 2) == "InProgress"
    status = status_of(changed, Enforcement(BROKERS, (), LATER - timedelta(seconds=1)), LATER)
    assert (status.enforced_at, status.apply_seconds, status.observed_generation) == (LATER, 1.0, 2)


def test_a_generation_whose_outcome_is_open_is_not_observed() -> None:
    first = status_of(a_quota(), ALL)
    status = status_of(a_quota(first, generation=2), Enforcement(BROKERS, (0,)), LATER)
    assert status.observed_generation == 1


def test_what_is_written_has_no_empty_fields_and_times_as_text() -> None:
    written = status_of(a_quota(), ALL).manifest()
    assert written["enforcedAt"] == "2026-01-01T12:00:00Z"
    assert written["effective"] == {"maxConnectionCreationRate": 50}
    again: ConnectionQuota = parse_resource(quota() | {"status": written})  # type: ignore[assignment]
    assert again.status.manifest() == written


RESTART = Restart(
    (PlannedRestart("shop-brokers-0", Role.BROKER, 0, (RestartReason(ReasonKind.IMAGE_CHANGED, "a to b"),)),)
)
BLOCKED = WaitForNodes(WaitReason.BELOW_MIN_ISR, "orders-0 would have 1", ("shop-brokers-0",))
GROWING = VolumesSeen(VolumesStatus(brokers="2Gi", growing=("data-shop-brokers-0 has 1Gi of 2Gi: Resizing",)))
STUCK = VolumesSeen(VolumesStatus(brokers="1Gi", growing=("it stays",)), "it stays")
PAUSED = WaitForNodes(WaitReason.PAUSED, "rollout.paused is true", ("shop-brokers-0",))
FAILS = WaitForNodes(WaitReason.NODE_FAILING, "shop-brokers-2 does not start", ("shop-brokers-0",))
BAD_VALUE = FailingNode("shop-brokers-2", "u", StartFailure("CrashLoopBackOff", "num.partitions: abc is no number"))
CRASHES, GIVEN_UP = (NodesNotStarting(BAD_VALUE, needs_a_person) for needs_a_person in (False, True))
REMAIN = ScaleStep(5, ScaleReason.REPLICAS_REMAIN, "replicas are left on broker 4")
RUNNING: dict[str, Any] = {"brokers_expected": 3, "brokers_ready": 3, "controllers_expected": 1, "controllers_ready": 1}


@pytest.mark.parametrize(
    ("spec", "seen", "reason", "verdict"),
    [
        pytest.param({}, {}, "Running", "Current", id="a cluster whose nodes are all ready"),
        pytest.param({}, {"brokers_ready": 2}, "BrokersStarting", "InProgress", id="a broker that is missing"),
        pytest.param(
            {}, {"controllers_ready": 0, "brokers_ready": 0}, "ControllersStarting", "InProgress", id="no controller"
        ),
        pytest.param({}, {"refusal": "422 StatefulSet is invalid"}, "Refused", "Failed", id="a child that is refused"),
        pytest.param(
            {},
            {"not_starting": CRASHES, "brokers_ready": 2},
            "CrashLoopBackOff",
            "InProgress",
            id="a crash that is new",
        ),
        pytest.param(
            {}, {"not_starting": GIVEN_UP, "brokers_ready": 2}, "CrashLoopBackOff", "Failed", id="a crash loop"
        ),
        pytest.param(
            {},
            {"not_starting": GIVEN_UP, "roll": FAILS, "brokers_ready": 2},
            "CrashLoopBackOff",
            "Failed",
            id="a roll that waits for a node that crashes",
        ),
        pytest.param(
            {}, {"not_starting": GIVEN_UP, "roll": RESTART}, "Rolling", "InProgress", id="a restart that may mend it"
        ),
        pytest.param(
            {}, {"roll": Done(), "config_refused": "INVALID_CONFIG"}, "ConfigRefused", "Failed", id="a refused value"
        ),
        pytest.param({"paused": True}, {}, "Paused", "Current", id="a paused cluster that runs"),
        pytest.param(
            {"paused": True}, {"brokers_ready": 0}, "Paused", "InProgress", id="a cluster that is paused from the start"
        ),
        pytest.param(
            {"paused": True},
            {"not_starting": GIVEN_UP, "brokers_ready": 2},
            "CrashLoopBackOff",
            "Failed",
            id="a pause does not hide a crash loop",
        ),
        pytest.param({}, {"roll": Done()}, "Running", "Current", id="a roll that is over"),
        pytest.param(
            {}, {"roll": Done(), "followed_generation": 0}, "SpecChanged", "InProgress", id="a roll before the change"
        ),
        pytest.param(
            {}, {"roll": PAUSED, "followed_generation": 0}, "Rolling", "InProgress", id="a pause before the change"
        ),
        pytest.param(
            {}, {"roll": RESTART, "brokers_ready": 2}, "Rolling", "InProgress", id="a roll is never a failure"
        ),
        pytest.param({}, {"roll": BLOCKED}, "Rolling", "InProgress", id="a blocked roll may pass by itself"),
        pytest.param({}, {"roll": PAUSED}, "RolloutPaused", "Current", id="a paused roll is what a person wants"),
        pytest.param({}, {"roll": Done(), "scale": REMAIN}, "ReplicasRemain", "Failed", id="a broker that cannot go"),
        pytest.param({}, {"silence": "none"}, "ControllersUnreachable", "InProgress", id="silent controllers"),
        pytest.param({}, {"silence": "none", "roll": PAUSED}, "RolloutPaused", "InProgress", id="a pause, and silence"),
        pytest.param({"paused": True}, {"silence": "none"}, "Paused", "InProgress", id="paused, and silence"),
        pytest.param(
            {}, {"brokers_ready": 0, "gate_refused": "forbidden"}, "Refused", "Failed", id="a refused readiness gate"
        ),
        pytest.param({}, {"unreachable": {2: "no answer"}}, "BrokersUnreachable", "InProgress", id="silent brokers"),
        pytest.param(
            {}, {"roll": Done(), "config_lagging": {1: "a is not b"}}, "ConfigApplying", "InProgress", id="dynamic keys"
        ),
        pytest.param({}, {"volumes": GROWING}, "VolumesGrowing", "InProgress", id="volumes on their way"),
        pytest.param({}, {"volumes": STUCK}, "VolumesRefused", "Failed", id="volumes that cannot grow"),
    ],
)
def test_cluster_status(spec: dict[str, Any], seen: dict[str, Any], reason: str, verdict: str) -> None:
    status = cluster_status(a_cluster(**spec), observed_cluster(**(RUNNING | seen)), NOW)
    ready = status.condition("Ready")
    assert ready is not None
    assert ready.reason == reason
    assert kstatus(status, 1) == verdict


def test_a_newly_started_operator_keeps_the_status_of_its_predecessor() -> None:
    settled = a_cluster().model_copy(update={"status": cluster_status(a_cluster(), observed_cluster(**RUNNING), NOW)})
    unknown = observed_cluster(**RUNNING, followed_generation=0)
    assert cluster_status(settled, unknown, LATER) == settled.status


def test_the_status_of_volumes_is_kept_while_they_are_not_read() -> None:
    first = cluster_status(a_cluster(), observed_cluster(**RUNNING, volumes=GROWING), NOW)
    assert first.volumes == GROWING.status
    again = a_cluster().model_copy(update={"status": first})
    assert cluster_status(again, observed_cluster(**RUNNING), LATER).volumes == first.volumes


def conditions_of(**seen: Any) -> dict[str, tuple[str, str, str]]:
    status = cluster_status(a_cluster(), observed_cluster(**(RUNNING | seen)), NOW)
    return {c.type: (c.status, c.reason, c.message) for c in status.conditions}


def test_whether_controllers_are_ready_is_unknown_while_none_answers() -> None:
    silence = "no active controller has answered for 60 s: controller 1000 does not answer within 2 s"
    found = conditions_of(silence=silence)
    assert found["ControllersReady"] == ("Unknown", "ControllersUnreachable", silence)
    assert found["Ready"][0] == "False"
    assert found["Ready"][2].startswith(f"{silence}; check the controllers' logs")
    assert conditions_of(silence=silence, controllers_ready=0)["ControllersReady"][:2] == ("False", "Counted")
    assert conditions_of()["ControllersReady"][:2] == ("True", "Counted")


@pytest.mark.parametrize(
    ("spec", "seen", "holds", "reason"),
    [
        ({}, {}, "False", "NotPaused"),
        ({"paused": True}, {"brokers_ready": 1}, "True", "Paused"),
        ({}, {"roll": PAUSED}, "True", "RolloutPaused"),
        ({}, {"roll": PAUSED, "followed_generation": 0}, "False", "NotPaused"),
        ({"paused": True}, {"not_starting": GIVEN_UP}, "True", "Paused"),
    ],
)
def test_a_pause_is_a_condition_of_its_own(spec: Any, seen: Any, holds: str, reason: str) -> None:
    paused = cluster_status(a_cluster(**spec), observed_cluster(**(RUNNING | seen)), NOW).condition("Paused")
    assert paused is not None
    assert (paused.status, paused.reason) == (holds, reason)


@pytest.mark.parametrize(
    ("step", "rolling", "blocked"),
    [
        (Done(), ("False", "Done", ""), ("False", "Done", "")),
        (
            RESTART,
            ("True", "Restarting", "restarting shop-brokers-0: ImageChanged (a to b)"),
            ("False", "Restarting", ""),
        ),
        (
            BLOCKED,
            ("True", "BelowMinIsr", "orders-0 would have 1"),
            ("True", "BelowMinIsr", "orders-0 would have 1"),
        ),
        (
            WaitForNodes(WaitReason.OUT_OF_SYNC, "broker 1 is still missing", ("shop-brokers-0",)),
            ("True", "OutOfSync", "broker 1 is still missing"),
            ("False", "OutOfSync", ""),
        ),
        (
            Fence((FenceOrder(1, 4, "the pod of broker 1 does not exist any more"),)),
            ("False", "Fencing", "the pod of broker 1 does not exist any more"),
            ("False", "Fencing", ""),
        ),
    ],
)
def test_conditions_describe_the_step_of_a_roll(
    step: RollStep, rolling: tuple[str, str, str], blocked: tuple[str, str, str]
) -> None:
    found = conditions_of(roll=step)
    assert found["Rolling"] == rolling
    assert found["RollBlocked"] == blocked


def test_the_pods_that_wait_are_listed_and_kept_while_nothing_is_known() -> None:
    first = cluster_status(a_cluster(), observed_cluster(**RUNNING, roll=BLOCKED), NOW)
    assert first.rollout is not None
    assert first.rollout.waiting == ("shop-brokers-0",)
    again = a_cluster().model_copy(update={"status": first})
    assert cluster_status(again, observed_cluster(**RUNNING), LATER).rollout == first.rollout
    done = cluster_status(again, observed_cluster(**RUNNING, roll=Done()), LATER)
    assert done.rollout is not None
    assert done.rollout.reason == "Done"


ZONES: dict[str, Any] = {
    "brokers": {"replicas": 3, "storage": {"size": "1Gi"}, "rack": {"topologyKey": "topology.kubernetes.io/zone"}}
}


def test_conditions_outlive_the_term_that_found_them() -> None:
    """A new operator writes statuses before it has planned the roll or asked brokers for damaged logs."""
    damage = {1: BrokerDamage(1, ("offsets 15 to 15 of orders-0 cannot be read",))}
    known: dict[str, Any] = {"roll": BLOCKED, "racks": RacksPlan(3), "damage": damage}
    first = cluster_status(a_cluster(**ZONES), observed_cluster(**RUNNING, **known), NOW)
    again = a_cluster(**ZONES).model_copy(update={"status": first})
    second = cluster_status(again, observed_cluster(**(RUNNING | {"brokers_ready": 2})), LATER)
    for kind in ("Rolling", "RollBlocked", "RacksKnown", "LogsDamaged"):
        assert second.condition(kind) == first.condition(kind) != None  # noqa: E711
    done = cluster_status(again, observed_cluster(**RUNNING, roll=Done()), LATER)
    rolling = done.condition("Rolling")
    assert rolling is not None
    assert rolling.status == "False"
    assert cluster_status(a_cluster(), observed_cluster(**RUNNING), NOW).condition("Rolling") is None, "none was found"


@pytest.mark.parametrize(("step", "blocked"), [(BLOCKED, "True"), (Done(), "False")])
def test_nothing_rolls_while_the_cluster_is_paused(step: RollStep, blocked: str) -> None:
    first = cluster_status(a_cluster(), observed_cluster(**RUNNING, roll=step), NOW)
    paused = a_cluster(paused=True).model_copy(update={"status": first})
    found = cluster_status(paused, observed_cluster(**RUNNING), LATER)
    said = {c.type: (c.status, c.reason) for c in found.conditions}
    assert (said["Rolling"], said["RollBlocked"]) == (("False", "Paused"), (blocked, "Paused"))


def test_a_cluster_that_nobody_has_seen_is_in_progress() -> None:
    assert kstatus(a_cluster().status, 1) == "InProgress"


def test_the_cluster_id_is_kept_while_it_cannot_be_read() -> None:
    first = cluster_status(a_cluster(), observed_cluster(**RUNNING, cluster_id="abc"), NOW)
    again = a_cluster().model_copy(update={"status": first})
    assert cluster_status(again, observed_cluster(brokers_expected=3, brokers_ready=0), LATER).cluster_id == "abc"


MISSING = RackWait("shop-brokers-1", "NodeLabelMissing", "shop-brokers-1 waits for its rack: node n1 has no label z")
UNBOUND = RackWait("shop-brokers-2", "NotScheduled", "shop-brokers-2 is not scheduled yet", needs_a_person=False)


def test_a_cluster_without_racks_has_no_racks_condition() -> None:
    assert "RacksKnown" not in conditions_of()
    assert "LogsDamaged" not in conditions_of()


def test_racks_are_known_once_every_pod_that_is_on_a_node_was_told() -> None:
    assignment = RackAssignment(RackPod("shop-brokers-2", "u", "n2"), "a")
    assert conditions_of(racks=RacksPlan(3))["RacksKnown"] == ("True", "Told", "3/3 brokers")
    assert conditions_of(racks=RacksPlan(2, (assignment,)))["RacksKnown"] == ("False", "Telling", "2/3 brokers")


def test_a_node_without_its_label_is_said_before_the_roll_that_waits_for_the_broker() -> None:
    waits = WaitForNodes(WaitReason.NODE_NOT_READY, "shop-brokers-1 is not ready")
    found = conditions_of(racks=RacksPlan(2, waiting=(MISSING,)), roll=waits, brokers_ready=2)
    assert found["RacksKnown"] == ("False", "NodeLabelMissing", MISSING.message)
    assert found["Ready"] == ("False", "RackUnknown", MISSING.message)
    assert found["Stalled"][0] == "True"


def test_a_pod_that_the_scheduler_may_still_place_needs_nobody() -> None:
    found = conditions_of(racks=RacksPlan(2, waiting=(UNBOUND,)), brokers_ready=2)
    assert found["RacksKnown"] == ("False", "NotScheduled", UNBOUND.message)
    assert found["Ready"][1] == "BrokersStarting"
    assert found["Stalled"][0] == "False"


def test_a_running_cluster_with_contradictory_replica_numbers_reports_this() -> None:
    seen = observed_cluster(brokers_expected=3, brokers_ready=3)
    status = cluster_status(a_cluster(config={"default.replication.factor": "5"}), seen, NOW)
    told = status.condition("ConfigContradictory")
    assert told is not None
    assert (told.status, told.reason) == ("True", "ReplicaNumbers")
    assert told.message.startswith("spec.config: default.replication.factor is 5, and spec.brokers.replicas is 3")
    assert kstatus(status, 1) == "Current", "its brokers run, and topics may name other numbers"
    assert cluster_status(a_cluster(), seen, NOW).condition("ConfigContradictory") is None
