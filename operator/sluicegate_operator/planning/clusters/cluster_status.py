"""The status of a BrokerCluster, derived from its observed nodes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from sluicegate_operator.api.models.broker_cluster import BrokerCluster
from sluicegate_operator.api.models.broker_cluster_status import (
    LISTENERS_MAX,
    BrokerClusterStatus,
    ListenerAddresses,
    RolloutStatus,
)
from sluicegate_operator.api.models.replica_numbers import cluster_contradictions
from sluicegate_operator.api.schema.metadata import Condition
from sluicegate_operator.planning.certificates.cluster_ca_status import (
    CERTIFICATES_CURRENT,
    CertificatesSeen,
    certificates_finding,
    cluster_ca_status,
)
from sluicegate_operator.planning.clusters.cluster_access import broker_selector
from sluicegate_operator.planning.layout.volumes import VolumesSeen
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
from sluicegate_operator.planning.rolls.scale import NEEDS_A_PERSON, ScaleReason, ScaleStep
from sluicegate_operator.planning.rolls.start_failures import NodesNotStarting
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
from sluicegate_operator.planning.status.log_damage import LOGS_DAMAGED, BrokerDamage, damage_finding
from sluicegate_operator.planning.status.unreadable import UNREADABLE

MESSAGE_MAX = 4096
PAUSED = "spec.paused is true: the operator changes nothing until it is false"
CONTROLLERS_READY = "ControllersReady"
"""Type of a condition of a BrokerCluster."""
CONTROLLERS_UNREACHABLE = "ControllersUnreachable"
"""Reason if controller pods are ready, and no active controller has answered the operator for a minute."""
RESTARTING = "Restarting"
"""Reason of status.rollout."""
_NOTHING_UNFINISHED = frozenset({"Done", NO_NODES.reason})
"""Reasons of status.rollout with which no roll is unfinished."""


@dataclass(frozen=True, slots=True)
class ObservedCluster:
    """The input of `cluster_status`.

    - `refusal`: the API server's message if it permanently refuses a child object; empty if all children were applied.
    - `not_applied`: the API server's message if the refusal may pass and has lasted.
    - `not_starting`: what prevents a node from starting, if anything.
    - `name_taken`: which child's name is used by an object that the cluster does not own, and what to do.
    - `claims_taken`: see planning.clusters.claims.
    - `unreadable`: objects that the children depend on and that cannot be read.
    - `followed_generation`: generation of the spec from which `roll`, `scale` and `config_lagging` were derived; None
      is the present one.
    - `roll`, `scale`: the steps of planning.rolls.roll and planning.rolls.scale.
    - `racks`: the plan of planning.registrations.racks, if the cluster has racks.
    - `config_lagging`: brokers without all of the dynamic configuration, with what they lack.
    - `config_refused`: the brokers' message about a value that they refuse.
    - `volumes`: None if they have not been checked.
    - `unreachable`: brokers whose pods are ready and that have not answered for long, with the cause.
    - `broker_pods`: number of broker pods that exist.
    - `listeners`: those that clients can use.
    - `version`: see planning.clusters.cluster_access.version_range; None before a broker has reported it.
    - `away`: a sentence about nodes that are lost, see planning.rolls.lost_nodes.
    """

    brokers_expected: int
    brokers_ready: int
    controllers_expected: int = 0
    controllers_ready: int = 0
    cluster_id: str = ""
    controller_id: int | None = None
    refusal: str = ""
    not_applied: str = ""
    not_starting: NodesNotStarting | None = None
    name_taken: str = ""
    claims_taken: str = ""
    unreadable: str = ""
    followed_generation: int | None = None
    roll: RollStep | None = None
    no_roll: NoRoll | None = None
    """Why the operator planned no roll; None before its first reconcile of the nodes."""
    scale: ScaleStep | None = None
    racks: RacksPlan | None = None
    config_lagging: Mapping[int, str] = field(default_factory=dict)
    config_refused: str = ""
    volumes: VolumesSeen | None = None
    unreachable: Mapping[int, str] = field(default_factory=dict)
    broker_pods: int = 0
    listeners: tuple[ListenerAddresses, ...] = ()
    version: str | None = None
    away: str = ""
    damage: Mapping[int, BrokerDamage] | None = None
    """Damaged offsets by broker id; None before a broker has answered."""
    gate_refused: str = ""
    """Why the readiness gate of a broker's pod is not set, if the API server refuses it for good."""
    certificates: CertificatesSeen | None = None
    """The cluster's own certificates, with spec.clusterCa."""
    silence: str = ""
    """Why the active controller is unknown, after none has answered for a minute; empty otherwise."""


def cluster_status(cluster: BrokerCluster, seen: ObservedCluster, now: datetime) -> BrokerClusterStatus:
    """Return the status without dynamicConfigKeys, which is written separately."""
    old = cluster.status
    progress = _cluster_progress(cluster, seen)
    brokers = f"{seen.brokers_ready}/{seen.brokers_expected}"
    own = (
        Finding("BrokersReady", _all(seen.brokers_ready, seen.brokers_expected), "Counted", brokers),
        _controllers_ready(seen),
        _paused(cluster, seen),
        *_rolling(cluster, seen),
        *((_racks_known(seen.racks),) if seen.racks is not None else ()),
        *_contradictions(cluster),
        *((damage_finding(seen.damage),) if seen.damage else ()),
        *((certificates_finding(seen.certificates),) if seen.certificates else ()),
    )
    found = conditions(cluster, old, (*progress.findings, *own), now)
    return BrokerClusterStatus(
        observed_generation=observed_generation(cluster, old, progress),
        conditions=(*found, *_not_looked_at(cluster, found)),
        brokers=brokers,
        ready_brokers=seen.brokers_ready,
        replicas=seen.broker_pods,
        selector=broker_selector(cluster.name),
        version=seen.version or old.version,
        bootstrap_servers=seen.listeners[0].bootstrap_servers if seen.listeners else "",
        listeners=seen.listeners[:LISTENERS_MAX],
        cluster_id=seen.cluster_id or old.cluster_id,
        controller_id=cluster.status.controller_id if seen.controller_id is None else seen.controller_id,
        rollout=_rollout(old, seen),
        volumes=old.volumes if seen.volumes is None else seen.volumes.status,
        cluster_ca=old.cluster_ca if seen.certificates is None else cluster_ca_status(seen.certificates),
    )


def _controllers_ready(seen: ObservedCluster) -> Finding:
    """Return ControllersReady; unknown while all controller pods are ready and none answers the operator."""
    all_ready = seen.controllers_ready >= seen.controllers_expected
    if all_ready and seen.silence:
        return Finding(CONTROLLERS_READY, None, CONTROLLERS_UNREACHABLE, seen.silence)
    return Finding(CONTROLLERS_READY, all_ready, "Counted", f"{seen.controllers_ready}/{seen.controllers_expected}")


def _rolling(cluster: BrokerCluster, seen: ObservedCluster) -> tuple[Finding, ...]:
    """Return Rolling and RollBlocked; empty until this operator has checked the nodes."""
    if seen.roll is not None:
        return roll_findings(seen.roll)
    none = NoRoll("Paused", PAUSED, holds=True) if cluster.spec.paused else seen.no_roll
    if none is None:
        return ()
    rollout = cluster.status.rollout
    unfinished = none.holds and rollout is not None and rollout.reason not in _NOTHING_UNFINISHED
    return (
        Finding("Rolling", False, none.reason, none.message),
        Finding("RollBlocked", unfinished, none.reason, none.message if unfinished else ""),
    )


def _rollout(old: BrokerClusterStatus, seen: ObservedCluster) -> RolloutStatus | None:
    if seen.roll is not None:
        return rollout_status(seen.roll)
    if seen.no_roll is None or seen.no_roll.holds:
        return old.rollout
    return RolloutStatus(reason=seen.no_roll.reason, message=seen.no_roll.message)


def _not_looked_at(cluster: BrokerCluster, found: Sequence[Condition]) -> tuple[Condition, ...]:
    """Return the old conditions of rolls, racks and damaged logs that this leader has not evaluated yet.

    A roll does not end because another operator becomes leader.
    """
    types = {"Rolling", "RollBlocked"} | ({"RacksKnown"} if cluster.spec.topology_key else set())
    types |= {LOGS_DAMAGED} if cluster.spec.brokers is not None else set()
    types |= {CERTIFICATES_CURRENT} if cluster.spec.cluster_ca is not None else set()
    types -= {condition.type for condition in found}
    return tuple(condition for condition in cluster.status.conditions if condition.type in types)


def _all(ready_nodes: int, expected: int) -> bool:
    return expected > 0 and ready_nodes >= expected


def _cluster_progress(cluster: BrokerCluster, seen: ObservedCluster) -> Progress:
    if stuck := _stuck(cluster, seen):
        return stuck
    pause = _paused(cluster, seen)
    if pause.holds:
        return _as_nodes_are(seen, pause)
    if seen.not_applied:
        return working(NOT_APPLIED, not_applied_words(seen.not_applied)[:MESSAGE_MAX])
    return _moving(seen) or _settled(cluster, seen)


def _paused(cluster: BrokerCluster, seen: ObservedCluster) -> Finding:
    """Return the condition Paused, which is not a failure. A pause requested by an earlier spec no longer counts."""
    if cluster.spec.paused:
        return Finding("Paused", holds=True, reason="Paused", message=PAUSED)
    step = seen.roll
    if isinstance(step, WaitForNodes) and step.reason is WaitReason.PAUSED and _is_followed(cluster, seen):
        return Finding("Paused", holds=True, reason="RolloutPaused", message=step.message[:MESSAGE_MAX])
    return Finding("Paused", holds=False, reason="NotPaused")


def _as_nodes_are(seen: ObservedCluster, pause: Finding) -> Progress:
    """Return the progress of a paused cluster from its nodes.

    Running nodes continue to serve, and Kubernetes restarts them: a pause stops only the operator's changes.
    """
    say = ready if _missing(seen) is None else working
    counted = f"{seen.brokers_ready}/{seen.brokers_expected} brokers ready"
    return say(pause.reason, f"{pause.message}; {counted}")


def _stuck(cluster: BrokerCluster, seen: ObservedCluster) -> Progress | None:
    """Return the progress if everything waits for an action of a user, else None."""
    if seen.unreadable:
        return stalled(UNREADABLE, f"{seen.unreadable}; nodes and Services stay unchanged until then")
    if seen.name_taken:
        return stalled(NAME_TAKEN, seen.name_taken)
    if seen.claims_taken:
        return stalled(CLAIMS_TAKEN, seen.claims_taken)
    if seen.refusal:
        return stalled(REFUSED, seen.refusal)
    if seen.certificates is not None and seen.certificates.problem and not seen.certificates.usable:
        return stalled(seen.certificates.reason, seen.certificates.problem[:MESSAGE_MAX])
    if stuck := [wait for wait in seen.racks.waiting if wait.needs_a_person] if seen.racks else []:
        return stalled("RackUnknown", stuck[0].message)
    if seen.gate_refused:
        return stalled(REFUSED, seen.gate_refused[:MESSAGE_MAX])
    failing = seen.not_starting
    if failing is not None and failing.needs_a_person and not isinstance(seen.roll, Restart):
        return stalled(failing.node.failure.reason, failing.node.sentence)
    if (
        isinstance(seen.roll, WaitForNodes)
        and seen.roll.reason is WaitReason.RESTART_REFUSED
        and _is_followed(cluster, seen)
    ):
        return stalled(seen.roll.reason.value, seen.roll.message[:MESSAGE_MAX])
    return None


def _is_followed(cluster: BrokerCluster, seen: ObservedCluster) -> bool:
    """Return whether the observed steps follow from the present spec.

    An operator that has just started has not planned yet, and uses the observedGeneration that its predecessor wrote.
    """
    generation = cluster.metadata.generation
    return seen.followed_generation is None or generation in (
        seen.followed_generation,
        cluster.status.observed_generation,
    )


def _moving(seen: ObservedCluster) -> Progress | None:
    """Return the progress if nodes are being restarted or started, else None."""
    if isinstance(seen.roll, Restart | WaitForNodes):
        message = rollout_status(seen.roll).message
        return working("Rolling", f"{message}; {seen.away}"[:MESSAGE_MAX] if seen.away else message)
    return _missing(seen)


def _missing(seen: ObservedCluster) -> Progress | None:
    if seen.away:
        return working(NODE_NOT_READY, seen.away[:MESSAGE_MAX])
    if failing := seen.not_starting:
        return working(failing.node.failure.reason, failing.node.sentence)
    if seen.controllers_ready < seen.controllers_expected:
        return working("ControllersStarting", f"{seen.controllers_ready}/{seen.controllers_expected} controllers ready")
    if seen.silence:
        message = f"{seen.silence[:MESSAGE_MAX]}; check the controllers' logs and the network from the operator to them"
        return working(CONTROLLERS_UNREACHABLE, message)
    if not _all(seen.brokers_ready, seen.brokers_expected):
        return working("BrokersStarting", f"{seen.brokers_ready}/{seen.brokers_expected} brokers ready")
    return None


def _settled(cluster: BrokerCluster, seen: ObservedCluster) -> Progress:
    """Return the progress of a cluster whose nodes all run."""
    if seen.unreachable:
        named = "; ".join(f"broker {broker_id}: {why}" for broker_id, why in sorted(seen.unreachable.items()))
        message = f"{len(seen.unreachable)}/{seen.brokers_expected} brokers do not answer the operator: {named}"
        return working("BrokersUnreachable", message[:MESSAGE_MAX])
    if not _is_followed(cluster, seen):
        return working("SpecChanged", "the changed spec is being compared with the nodes")
    if seen.scale is not None and seen.scale.reason is not ScaleReason.SCALED:
        say = stalled if seen.scale.reason in NEEDS_A_PERSON else working
        return say(seen.scale.reason.value, seen.scale.message)
    if seen.config_refused:
        return stalled("ConfigRefused", seen.config_refused)
    if seen.volumes is not None and seen.volumes.refused:
        return stalled("VolumesRefused", seen.volumes.refused)
    if seen.volumes is not None and seen.volumes.status.growing:
        return working("VolumesGrowing", "; ".join(seen.volumes.status.growing)[:MESSAGE_MAX])
    if seen.config_lagging:
        broker_id, what = min(seen.config_lagging.items())
        return working(
            "ConfigApplying",
            f"{len(seen.config_lagging)} brokers do not have the configuration yet, for example broker"
            f" {broker_id}: {what}",
        )
    return ready("Running", f"{seen.brokers_ready}/{seen.brokers_expected} brokers ready")


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
    if isinstance(step, Done):
        return RolloutStatus(reason="Done")
    if isinstance(step, Fence):
        return RolloutStatus(reason="Fencing", message="; ".join(order.why for order in step.orders)[:MESSAGE_MAX])
    if isinstance(step, WaitForNodes):
        return RolloutStatus(reason=step.reason.value, message=step.message[:MESSAGE_MAX], waiting=step.waiting)
    message = "; ".join(node.sentence for node in step.nodes)
    return RolloutStatus(reason=RESTARTING, message=message[:MESSAGE_MAX], waiting=step.waiting)


def roll_findings(step: RollStep) -> tuple[Finding, ...]:
    """Return the conditions Rolling and RollBlocked of a step."""
    status = rollout_status(step)
    under_way = isinstance(step, Restart | WaitForNodes)
    blocked = isinstance(step, WaitForNodes) and step.blocked
    return (
        Finding("Rolling", under_way, status.reason, status.message),
        Finding("RollBlocked", blocked, status.reason, status.message if blocked else ""),
    )
