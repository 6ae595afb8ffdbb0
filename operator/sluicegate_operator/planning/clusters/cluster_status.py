"""The status of a BrokerCluster, derived from its observed nodes."""

from collections.abc import Sequence
from datetime import datetime

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.parts.broker_cluster_status import (
    LISTENERS_MAX,
    BrokerClusterStatus,
    RolloutStatus,
)
from sluicegate_operator.api.models.replica_numbers import cluster_contradictions
from sluicegate_operator.api.release import own_release
from sluicegate_operator.api.schema.metadata import Condition
from sluicegate_operator.planning.certificates.cluster_ca_status import (
    CERTIFICATES_CURRENT,
    certificates_finding,
    cluster_ca_status,
)
from sluicegate_operator.planning.clusters.cluster_access import broker_selector
from sluicegate_operator.planning.clusters.observed_cluster import ObservedCluster, PodsSeen
from sluicegate_operator.planning.registrations.racks import RacksPlan
from sluicegate_operator.planning.rolls.lost_nodes import NODE_NOT_READY
from sluicegate_operator.planning.rolls.roll import (
    NO_NODES,
    Done,
    Fence,
    NoRoll,
    Restart,
    RollStep,
    WaitForNodes,
    WaitReason,
)
from sluicegate_operator.planning.rolls.scale import NEEDS_A_PERSON, ScaleReason
from sluicegate_operator.planning.status.conditions import (
    CLAIMS_TAKEN,
    NAME_TAKEN,
    NOT_APPLIED,
    REFUSED,
    Finding,
    Progress,
    conditions,
    not_applied_words,
    observed_generation,
    ready,
    stalled,
    working,
)
from sluicegate_operator.planning.status.log_damage import LOGS_DAMAGED, damage_finding
from sluicegate_operator.planning.status.unreadable import UNREADABLE

MESSAGE_MAX = 4096
PAUSED = "spec.paused is true: the operator changes nothing until it is false"
CONTROLLERS_READY = "ControllersReady"
"""Type of the condition of a BrokerCluster about its controllers."""
CONTROLLERS_UNREACHABLE = "ControllersUnreachable"
"""Reason if controller pods are ready, and no active controller has answered the operator for a minute."""
RESTARTING = "Restarting"
"""Reason of status.rollout while nodes restart."""
_NOTHING_UNFINISHED = frozenset({"Done", NO_NODES.reason})
"""Reasons of status.rollout with which no roll is unfinished."""


def cluster_status(cluster: BrokerCluster, seen: ObservedCluster, now: datetime) -> BrokerClusterStatus:
    """Return the status of a BrokerCluster without dynamicConfigKeys, which is written separately."""
    old = cluster.status
    progress = _cluster_progress(cluster, seen)
    brokers = seen.nodes.brokers
    own = (
        Finding("BrokersReady", _has_all_brokers(seen.nodes), "Counted", brokers),
        _controllers_ready(seen),
        _paused(cluster, seen),
        *_rolling(cluster, seen),
        *((_racks_known(seen.steps.racks),) if seen.steps.racks is not None else ()),
        *_contradictions(cluster),
        *((damage_finding(seen.damage),) if seen.damage else ()),
        *((certificates_finding(seen.certificates),) if seen.certificates else ()),
    )
    found = conditions(cluster, old, (*progress.findings, *own), now)
    return BrokerClusterStatus(
        observed_generation=observed_generation(cluster, old, progress),
        conditions=(*found, *_not_looked_at(cluster, found)),
        brokers=brokers,
        ready_brokers=seen.nodes.brokers_ready,
        replicas=seen.nodes.broker_pods,
        selector=broker_selector(cluster.name),
        version=seen.access.version or old.version,
        bootstrap_servers=seen.access.listeners[0].bootstrap_servers if seen.access.listeners else "",
        listeners=seen.access.listeners[:LISTENERS_MAX],
        cluster_id=seen.access.cluster_id or old.cluster_id,
        controller_id=cluster.status.controller_id if seen.access.controller_id is None else seen.access.controller_id,
        rollout=_rollout(old, seen),
        volumes=old.volumes if seen.volumes is None else seen.volumes.status,
        cluster_ca=old.cluster_ca if seen.certificates is None else cluster_ca_status(seen.certificates),
        operator_version=own_release(),
    )


def _controllers_ready(seen: ObservedCluster) -> Finding:
    """Return ControllersReady; unknown while all controller pods are ready and none answers the operator."""
    all_ready = seen.nodes.controllers_are_ready
    if all_ready and seen.access.silence:
        return Finding(CONTROLLERS_READY, None, CONTROLLERS_UNREACHABLE, seen.access.silence)
    return Finding(CONTROLLERS_READY, all_ready, "Counted", seen.nodes.controllers)


def _rolling(cluster: BrokerCluster, seen: ObservedCluster) -> tuple[Finding, ...]:
    """Return Rolling and RollBlocked; empty until this operator has checked the nodes."""
    if seen.steps.roll is not None:
        return roll_findings(seen.steps.roll)
    none = NoRoll("Paused", PAUSED, pauses=True) if cluster.spec.paused else seen.steps.no_roll
    if none is None:
        return ()
    rollout = cluster.status.rollout
    unfinished = none.pauses and rollout is not None and rollout.reason not in _NOTHING_UNFINISHED
    return (
        Finding("Rolling", False, none.reason, none.message),
        Finding("RollBlocked", unfinished, none.reason, none.message if unfinished else ""),
    )


def _rollout(old: BrokerClusterStatus, seen: ObservedCluster) -> RolloutStatus | None:
    if seen.steps.roll is not None:
        return rollout_status(seen.steps.roll)
    if seen.steps.no_roll is None or seen.steps.no_roll.pauses:
        return old.rollout
    return RolloutStatus(reason=seen.steps.no_roll.reason, message=seen.steps.no_roll.message)


def _not_looked_at(cluster: BrokerCluster, found: Sequence[Condition]) -> tuple[Condition, ...]:
    """Return the old conditions of rolls, racks and damaged logs that this leader has not evaluated yet.

    A roll does not end because another operator becomes leader.
    """
    types = {"Rolling", "RollBlocked"} | ({"RacksKnown"} if cluster.spec.topology_key else set())
    types |= {LOGS_DAMAGED} if cluster.spec.brokers is not None else set()
    types |= {CERTIFICATES_CURRENT} if cluster.spec.cluster_ca is not None else set()
    types -= {condition.type for condition in found}
    return tuple(condition for condition in cluster.status.conditions if condition.type in types)


def _has_all_brokers(nodes: PodsSeen) -> bool:
    return nodes.brokers_expected > 0 and nodes.brokers_are_ready


def _cluster_progress(cluster: BrokerCluster, seen: ObservedCluster) -> Progress:
    if stuck := _stuck(cluster, seen):
        return stuck
    pause = _paused(cluster, seen)
    if pause.is_true:
        return _as_nodes_are(seen, pause)
    if seen.obstacles.not_applied:
        return working(NOT_APPLIED, not_applied_words(seen.obstacles.not_applied)[:MESSAGE_MAX])
    return _moving(seen) or _settled(cluster, seen)


def _paused(cluster: BrokerCluster, seen: ObservedCluster) -> Finding:
    """Return the condition Paused, which is not a failure. A pause requested by an earlier spec no longer counts."""
    if cluster.spec.paused:
        return Finding("Paused", is_true=True, reason="Paused", message=PAUSED)
    step = seen.steps.roll
    if isinstance(step, WaitForNodes) and step.reason is WaitReason.PAUSED and _is_followed(cluster, seen):
        return Finding("Paused", is_true=True, reason="RolloutPaused", message=step.message[:MESSAGE_MAX])
    return Finding("Paused", is_true=False, reason="NotPaused")


def _as_nodes_are(seen: ObservedCluster, pause: Finding) -> Progress:
    """Return the progress of a paused cluster from its nodes.

    Running nodes continue to serve, and Kubernetes restarts them: a pause stops only the operator's changes.
    """
    say = ready if _missing(seen) is None else working
    counted = f"{seen.nodes.brokers} brokers ready"
    return say(pause.reason, f"{pause.message}; {counted}")


def _stuck(cluster: BrokerCluster, seen: ObservedCluster) -> Progress | None:
    """Return the progress if everything waits for an action of a user, else None."""
    if seen.obstacles.unreadable:
        return stalled(UNREADABLE, f"{seen.obstacles.unreadable}; nodes and Services stay unchanged until then")
    if seen.obstacles.name_taken:
        return stalled(NAME_TAKEN, seen.obstacles.name_taken)
    if seen.obstacles.claims_taken:
        return stalled(CLAIMS_TAKEN, seen.obstacles.claims_taken)
    if seen.obstacles.refusal:
        return stalled(REFUSED, seen.obstacles.refusal)
    if seen.certificates is not None and seen.certificates.problem and not seen.certificates.usable:
        return stalled(seen.certificates.reason, seen.certificates.problem[:MESSAGE_MAX])
    if stuck := [wait for wait in seen.steps.racks.waiting if wait.needs_a_person] if seen.steps.racks else []:
        return stalled("RackUnknown", stuck[0].message)
    if seen.obstacles.gate_refused:
        return stalled(REFUSED, seen.obstacles.gate_refused[:MESSAGE_MAX])
    failing = seen.nodes.not_starting
    if failing is not None and failing.needs_a_person and not isinstance(seen.steps.roll, Restart):
        return stalled(failing.node.failure.reason, failing.node.sentence)
    if (
        isinstance(seen.steps.roll, WaitForNodes)
        and seen.steps.roll.reason is WaitReason.RESTART_REFUSED
        and _is_followed(cluster, seen)
    ):
        return stalled(seen.steps.roll.reason.value, seen.steps.roll.message[:MESSAGE_MAX])
    return None


def _is_followed(cluster: BrokerCluster, seen: ObservedCluster) -> bool:
    """Return whether the observed steps follow from the present spec.

    An operator that has just started has not planned yet, and uses the observedGeneration that its predecessor wrote.
    """
    generation = cluster.metadata.generation
    return seen.steps.followed_generation is None or generation in (
        seen.steps.followed_generation,
        cluster.status.observed_generation,
    )


def _moving(seen: ObservedCluster) -> Progress | None:
    """Return the progress if nodes are being restarted or started, else None."""
    if isinstance(seen.steps.roll, Restart | WaitForNodes):
        message = rollout_status(seen.steps.roll).message
        return working("Rolling", f"{message}; {seen.nodes.away}"[:MESSAGE_MAX] if seen.nodes.away else message)
    return _missing(seen)


def _missing(seen: ObservedCluster) -> Progress | None:
    if seen.nodes.away:
        return working(NODE_NOT_READY, seen.nodes.away[:MESSAGE_MAX])
    if failing := seen.nodes.not_starting:
        return working(failing.node.failure.reason, failing.node.sentence)
    if not seen.nodes.controllers_are_ready:
        return working("ControllersStarting", f"{seen.nodes.controllers} controllers ready")
    if seen.access.silence:
        silence = seen.access.silence[:MESSAGE_MAX]
        message = f"{silence}; check the controllers' logs and the network from the operator to them"
        return working(CONTROLLERS_UNREACHABLE, message)
    if not _has_all_brokers(seen.nodes):
        return working("BrokersStarting", f"{seen.nodes.brokers} brokers ready")
    return None


def _settled(cluster: BrokerCluster, seen: ObservedCluster) -> Progress:
    """Return the progress of a cluster whose nodes all run."""
    if seen.access.unreachable:
        named = "; ".join(f"broker {broker_id}: {why}" for broker_id, why in sorted(seen.access.unreachable.items()))
        message = (
            f"{len(seen.access.unreachable)}/{seen.nodes.brokers_expected} brokers do not answer the operator: {named}"
        )
        return working("BrokersUnreachable", message[:MESSAGE_MAX])
    if not _is_followed(cluster, seen):
        return working("SpecChanged", "the changed spec is being compared with the nodes")
    if seen.steps.scale is not None and seen.steps.scale.reason is not ScaleReason.SCALED:
        say = stalled if seen.steps.scale.reason in NEEDS_A_PERSON else working
        return say(seen.steps.scale.reason.value, seen.steps.scale.message)
    if seen.settings.config_refused:
        return stalled("ConfigRefused", seen.settings.config_refused)
    if seen.volumes is not None and seen.volumes.refused:
        return stalled("VolumesRefused", seen.volumes.refused)
    if seen.volumes is not None and seen.volumes.status.growing:
        return working("VolumesGrowing", "; ".join(seen.volumes.status.growing)[:MESSAGE_MAX])
    if seen.settings.config_lagging:
        broker_id, what = min(seen.settings.config_lagging.items())
        return working(
            "ConfigApplying",
            f"{len(seen.settings.config_lagging)} brokers do not have the configuration yet, for example broker"
            f" {broker_id}: {what}",
        )
    return ready("Running", f"{seen.nodes.brokers} brokers ready")


def _contradictions(cluster: BrokerCluster) -> tuple[Finding, ...]:
    """Return ConfigContradictory only while it is true: brokers run, but requests that depend on the config fail."""
    problems = cluster_contradictions(cluster)
    message = "; ".join(map(str, problems))[:MESSAGE_MAX]
    return (Finding("ConfigContradictory", True, "ReplicaNumbers", message),) if problems else ()


def _racks_known(racks: RacksPlan) -> Finding:
    if racks.waiting:
        message = "; ".join(wait.message for wait in racks.waiting)
        return Finding("RacksKnown", False, racks.waiting[0].reason, message)
    return Finding(
        "RacksKnown",
        not racks.assign,
        "Telling" if racks.assign else "Told",
        f"{racks.known}/{racks.known + len(racks.assign)} brokers",
    )


def rollout_status(step: RollStep) -> RolloutStatus:
    """Return the field status.rollout of a BrokerCluster for the present step of its roll."""
    if isinstance(step, Done):
        return RolloutStatus(reason="Done")
    if isinstance(step, Fence):
        return RolloutStatus(reason="Fencing", message="; ".join(order.why for order in step.orders)[:MESSAGE_MAX])
    if isinstance(step, WaitForNodes):
        return RolloutStatus(reason=step.reason.value, message=step.message[:MESSAGE_MAX], waiting=step.waiting)
    message = "; ".join(node.sentence for node in step.nodes)
    return RolloutStatus(reason=RESTARTING, message=message[:MESSAGE_MAX], waiting=step.waiting)


def roll_findings(step: RollStep) -> tuple[Finding, ...]:
    """Return the conditions Rolling and RollBlocked for a step of a roll."""
    status = rollout_status(step)
    under_way = isinstance(step, Restart | WaitForNodes)
    blocked = isinstance(step, WaitForNodes) and step.blocked
    return (
        Finding("Rolling", under_way, status.reason, status.message),
        Finding("RollBlocked", blocked, status.reason, status.message if blocked else ""),
    )
