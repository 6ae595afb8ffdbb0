"""The status of a ConnectionQuota, from its verdict and from the limits that were read back from each broker."""

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime

from sluicegate_operator.api.models.connection_quota import (
    ConnectionQuota,
    ConnectionQuotaStatus,
    Effective,
    Holding,
    ObservedCounts,
)
from sluicegate_operator.api.models.parts.adaptive_rate import AdaptedRates
from sluicegate_operator.api.models.parts.broker_shares import BrokerShares
from sluicegate_operator.planning.listeners.exposure import HIDDEN, NOT_HIDDEN, Hiding
from sluicegate_operator.planning.status.conditions import (
    Finding,
    Progress,
    conditions,
    observed_generation,
    ready,
    stalled,
    working,
)
from sluicegate_operator.quotas.model.targets import LimitField, Limits, TargetKind
from sluicegate_operator.quotas.model.verdicts import QuotaOutcome, Verdict
from sluicegate_operator.quotas.plan import Ruling
from sluicegate_operator.quotas.share_finding import share_findings

ENFORCED, CONFLICTED, TARGET_FOUND = "Enforced", "Conflicted", "TargetFound"
PODS_LEFT_OUT = "PodsLeftOut"
"""The quota selects pods that have the address of their node, which other pods have too."""
OBSERVING = "Observing"
REFUSED, UNREACHABLE, APPLYING = "Refused", "BrokersUnreachable", "Applying"
WAITING = frozenset({REFUSED, UNREACHABLE, APPLYING})
"""Reasons while some broker was not seen to enforce the limit, or to have lifted it."""
_SEE_PODS = "check that the operator reaches the API server and has the right to list and watch pods and namespaces"
_LISTED_MAX = 10
"""Maximum number of broker ids in a message."""


@dataclass(frozen=True, slots=True)
class Enforcement:
    """The progress of a cluster's brokers with enforcing one ConnectionQuota.

    `expected` brokers should enforce the limit, `lagging` ones do not or did not answer, `unreachable` ones have not
    answered for long. `learned_at` is when the operator first saw this generation; None if that was before it started.
    """

    expected: Collection[int] = ()
    lagging: Collection[int] = ()
    learned_at: datetime | None = field(default=None, compare=False)
    error: str = ""
    """Why brokers lag; empty if that is not known."""
    refused: bool = False
    """Whether brokers refuse the limit itself, so that a retry does not help."""
    unreachable: Collection[int] = ()
    enforced_at: datetime | None = field(default=None, compare=False)
    """Time when the last broker was seen to enforce it; None means now."""
    hiding: Hiding = NOT_HIDDEN
    """Whether listeners of the cluster hide the addresses of clients."""
    host_network_pods: int = 0
    """Number of pods that a workload selects and that have the address of their node."""
    pods_unseen: str = ""
    """The reason why the operator does not see changes of a workload's pods; empty while it sees them."""
    observed: ObservedCounts | None = None
    """The counts of brokers for a quota that only observes; None before any broker was asked."""
    adaptive: AdaptedRates | None = None
    """The rates that brokers have chosen; None for a fixed rate."""
    shares: BrokerShares | None = None
    """The shares of brokers in a rate of the cluster; None for a rate of each broker."""
    holding: Holding | None = None
    """The connections that an enforced quota throttles now; None for none."""
    strategy: str = ""
    """How the brokers measure rates."""

    @property
    def reason(self) -> str:
        """The reason for the quota's conditions Ready and Enforced."""
        if self.complete:
            return "Enforced"
        if self.refused:
            return REFUSED
        return UNREACHABLE if set(self.lagging) & set(self.unreachable) else APPLYING

    @property
    def complete(self) -> bool:
        return bool(self.expected) and not self.lagging

    @property
    def counted(self) -> str:
        return f"{len(self.expected) - len(self.lagging)}/{len(self.expected)}"


def quota_status(
    quota: ConnectionQuota, ruling: Ruling, enforcement: Enforcement, now: datetime
) -> ConnectionQuotaStatus:
    """Return the status of a ConnectionQuota, from the decision on it and the progress of brokers.

    Compare the result with quota.status before it is written.
    """
    verdict = ruling.verdicts[quota.name]
    members = ruling.members.get(quota.name)
    old = quota.status
    progress = _progress(quota, verdict, members or 0, enforcement)
    limits = None if quota.spec.is_observing or verdict.has_expired else ruling.limits
    newly = _newly_enforced(quota, verdict, enforcement)
    enforced_at, apply_seconds = old.enforced_at, old.apply_seconds
    if newly:
        enforced_at = enforcement.enforced_at or now
        apply_seconds = _seconds(enforcement, enforced_at)
    own = (_own_findings(quota, verdict, enforcement), _hidden(verdict, enforcement.hiding))
    shares = enforcement.shares if has_shares(quota, verdict) else None
    findings = (*progress.findings, *own[0], *own[1], *_left_out(verdict, enforcement), *share_findings(shares))
    return ConnectionQuotaStatus(
        observed_generation=observed_generation(quota, old, progress),
        conditions=conditions(quota, old, findings, now),
        target=quota.spec.target.describe(),
        brokers=enforcement.counted if verdict.target_found else "",
        enforced_at=enforced_at if verdict.target_found else None,
        apply_seconds=apply_seconds if verdict.target_found else None,
        effective=_effective(limits),
        members=members,
        host_network_pods=enforcement.host_network_pods if verdict.target.kind is TargetKind.WORKLOAD else None,
        observed=enforcement.observed if quota.spec.is_observing and verdict.target_found else None,
        holding=enforcement.holding if is_throttled_by(quota, verdict) else None,
        adaptive=enforcement.adaptive if quota.spec.adaptive and is_throttled_by(quota, verdict) else None,
        shares=shares,
        strategy=enforcement.strategy or None,
    )


def is_throttled_by(quota: ConnectionQuota, verdict: Verdict) -> bool:
    """Return whether brokers throttle connections for the quota."""
    return verdict.outcome is QuotaOutcome.ACCEPTED and not quota.spec.is_observing


def has_shares(quota: ConnectionQuota, verdict: Verdict) -> bool:
    """Return whether brokers divide the quota's rate: its scope is Cluster, and no stricter quota replaces it.

    Brokers divide the rate of a quota that only observes, too, and count the connections over their share.
    """
    lost = any(conflict.field is LimitField.RATE for conflict in verdict.conflicts)
    return quota.spec.is_of_cluster and verdict.outcome is QuotaOutcome.ACCEPTED and not lost


def _newly_enforced(quota: ConnectionQuota, verdict: Verdict, enforcement: Enforcement) -> bool:
    """Return whether this generation is seen on all brokers for the first time; repaired drift does not count again."""
    if verdict.outcome is not QuotaOutcome.ACCEPTED or not enforcement.complete or enforcement.pods_unseen:
        return False
    before = quota.status.condition(ENFORCED)
    return (
        quota.status.enforced_at is None
        or before is None
        or quota.status.observed_generation != quota.metadata.generation
    )


def _seconds(enforcement: Enforcement, enforced_at: datetime) -> float | None:
    if enforcement.learned_at is None:
        return None
    return round(max(0.0, (enforced_at - enforcement.learned_at).total_seconds()), 3)


def _progress(quota: ConnectionQuota, verdict: Verdict, members: int, enforcement: Enforcement) -> Progress:
    if verdict.has_expired and not enforcement.lagging:
        # The limit is lifted, as expiresAt asks for, so no step is left for brokers or users.
        return ready(verdict.outcome, verdict.message)
    if verdict.needs_a_person:
        return stalled(verdict.outcome, verdict.message)
    if verdict.outcome is QuotaOutcome.PODS_UNKNOWN:
        why = f"; {enforcement.pods_unseen}; {_SEE_PODS}" if enforcement.pods_unseen else ""
        return working(verdict.outcome, verdict.message + why)
    if not enforcement.complete:
        say = stalled if enforcement.refused else working
        return say(enforcement.reason, _lag(verdict, enforcement))
    if enforcement.pods_unseen:
        return working(QuotaOutcome.PODS_UNKNOWN, _unseen(members, enforcement))
    if quota.spec.is_observing:
        return ready(
            OBSERVING, f"observed by all {len(enforcement.expected)} brokers; no connection is delayed or rejected"
        )
    return ready("Enforced", verdict.message or _enforced_by_all(members, verdict, enforcement))


def _enforced_by_all(members: int, verdict: Verdict, enforcement: Enforcement) -> str:
    by_all = f"enforced by all {len(enforcement.expected)} brokers"
    if verdict.target.kind is not TargetKind.WORKLOAD:
        return by_all
    return f"{by_all} for {members} addresses of pods" if members else f"{by_all}; no selected pod has an address"


def _unseen(members: int, enforcement: Enforcement) -> str:
    return (
        f"changes of pods cannot be watched: {enforcement.pods_unseen}; brokers keep the limits of the"
        f" {members} known addresses; {_SEE_PODS}"
    )


def _lag(verdict: Verdict, enforcement: Enforcement) -> str:
    if not enforcement.expected:
        return "the cluster has no brokers yet"
    ids = sorted(enforcement.lagging)
    named = ", ".join(str(broker_id) for broker_id in ids[:_LISTED_MAX]) + (", ..." if len(ids) > _LISTED_MAX else "")
    why = f": {enforcement.error}" if enforcement.error else ""
    done = "lifted" if verdict.has_expired else "enforced"
    return f"{done} by {enforcement.counted} brokers; waiting for {named}{why}"


def _own_findings(quota: ConnectionQuota, verdict: Verdict, enforcement: Enforcement) -> tuple[Finding, ...]:
    if verdict.has_expired:
        still = enforcement.reason, _lag(verdict, enforcement)
        reason, message = still if enforcement.lagging else (verdict.outcome, verdict.message)
        return (
            Finding(TARGET_FOUND, True, "Found"),
            Finding(ENFORCED, bool(enforcement.lagging), reason, message),
            Finding(CONFLICTED, False, "NoConflict"),
        )
    if not verdict.target_found:
        return (
            Finding(TARGET_FOUND, False, verdict.outcome, verdict.message),
            Finding(ENFORCED, False, verdict.outcome, verdict.message),
            Finding(CONFLICTED, False, verdict.outcome),
        )
    lost = bool(verdict.conflicts)
    if verdict.needs_a_person:
        enforced = Finding(ENFORCED, False, verdict.outcome, verdict.message)
    elif quota.spec.is_observing and enforcement.complete:
        enforced = Finding(
            ENFORCED, False, OBSERVING, "mode is Observe: brokers count the connections that they would delay or reject"
        )
    elif enforcement.pods_unseen and enforcement.complete:
        enforced = Finding(ENFORCED, None, QuotaOutcome.PODS_UNKNOWN, "brokers may not limit new pods yet")
    else:
        enforced = Finding(
            ENFORCED,
            enforcement.complete,
            enforcement.reason,
            "" if enforcement.complete else _lag(verdict, enforcement),
        )
    return (
        Finding(TARGET_FOUND, True, "Found"),
        enforced,
        Finding(CONFLICTED, lost, "StricterQuota" if lost else "NoConflict", verdict.message if lost else ""),
    )


def _left_out(verdict: Verdict, enforcement: Enforcement) -> tuple[Finding, ...]:
    if verdict.target.kind is not TargetKind.WORKLOAD:
        return ()
    number = enforcement.host_network_pods
    message = (
        f"{number} of the selected pods use hostNetwork and have their node's address; the limit does not"
        " include them, because it would also limit all other clients on the node"
    )
    return (Finding(PODS_LEFT_OUT, number > 0, "HostNetwork" if number else "None", message if number else ""),)


def _hidden(verdict: Verdict, hiding: Hiding) -> tuple[Finding, ...]:
    """Return the finding for limits of addresses: if a listener hides the client's address, a proxy is limited."""
    if verdict.target.kind not in (TargetKind.IP, TargetKind.DEFAULT_IP, TargetKind.CIDR, TargetKind.WORKLOAD):
        return ()
    return (Finding(HIDDEN, hiding.hidden, hiding.reason, hiding.message),)


def _effective(limits: Limits | None) -> Effective | None:
    if limits is None:
        return None
    scope = "Cluster" if limits.of_cluster else None
    return Effective(max_connection_creation_rate=limits.rate, scope=scope, max_connections=limits.count)
