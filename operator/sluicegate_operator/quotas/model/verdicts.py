"""The verdict on each ConnectionQuota: whether its limits are enforced, and the message for its status. Pure."""

from dataclasses import dataclass, replace
from enum import StrEnum

from sluicegate_operator.api.models.connection_quota import ConnectionQuota
from sluicegate_operator.planning.limits.limits import COUNT_PER_IP_OVERRIDES
from sluicegate_operator.planning.status.missing_cluster import cluster_missing_words
from sluicegate_operator.quotas.model.quota_keys import OVERRIDES_BYTES_MAX
from sluicegate_operator.quotas.model.strictest import Winners, limit_of
from sluicegate_operator.quotas.model.targets import LimitField, Limits, QuotaName, TargetKey, TargetKind


class QuotaOutcome(StrEnum):
    """The result for a ConnectionQuota, such as accepted or conflicted; also the reason in its conditions."""

    ACCEPTED = "Accepted"
    CONFLICTED = "Conflicted"
    CLUSTER_MISSING = "ClusterMissing"
    LISTENER_MISSING = "ListenerMissing"
    TOO_MANY_ADDRESSES = "TooManyAddresses"
    EXPIRED = "Expired"
    UNSUPPORTED = "Unsupported"
    PODS_UNKNOWN = "PodsUnknown"


@dataclass(frozen=True, slots=True)
class Conflict:
    """A limit of a ConnectionQuota that is not enforced, because another quota limits the same target.

    The quota `winner` has the stricter `value`, or the same and is older.
    """

    field: LimitField
    winner: str
    value: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision whether a ConnectionQuota's limits are enforced, with the message for its status.

    Conflicted means that every field lost; a quota of which only some fields lost is Accepted and has conflicts.
    """

    quota: QuotaName
    target: TargetKey
    outcome: QuotaOutcome
    message: str = ""
    conflicts: tuple[Conflict, ...] = ()

    @property
    def target_found(self) -> bool:
        return self.outcome not in _WITHOUT_LIMITS

    @property
    def has_expired(self) -> bool:
        return self.outcome is QuotaOutcome.EXPIRED

    @property
    def needs_a_person(self) -> bool:
        """Whether the quota with this verdict cannot be enforced before a user changes something."""
        return self.outcome not in (QuotaOutcome.ACCEPTED, QuotaOutcome.EXPIRED, QuotaOutcome.PODS_UNKNOWN)


_WITHOUT_LIMITS = (
    QuotaOutcome.CLUSTER_MISSING,
    QuotaOutcome.LISTENER_MISSING,
    QuotaOutcome.EXPIRED,
    QuotaOutcome.UNSUPPORTED,
    QuotaOutcome.PODS_UNKNOWN,
)


def cluster_missing(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    return Verdict(quota.name, target, QuotaOutcome.CLUSTER_MISSING, cluster_missing_words(quota))


def no_clients(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    """Return the verdict on a quota in a cluster without a listener for clients.

    A limit would apply to brokers and to the operator, which could not connect again to lift it.
    """
    message = (
        f"cluster {quota.spec.cluster_ref.name} has no BrokerListener, so clients cannot connect; create a"
        " BrokerListener"
    )
    return Verdict(quota.name, target, QuotaOutcome.LISTENER_MISSING, message)


def listener_missing(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    message = (
        f"no BrokerListener of cluster {quota.spec.cluster_ref.name} has spec.name {target.name}; create it or"
        " correct target.listener"
    )
    return Verdict(quota.name, target, QuotaOutcome.LISTENER_MISSING, message)


def expired(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    message = (
        f"the limit expired at expiresAt, {quota.spec.expires_at}; change expiresAt to apply it again, or delete"
        " the quota"
    )
    return Verdict(quota.name, target, QuotaOutcome.EXPIRED, message)


def pods_unknown(quota: ConnectionQuota, target: TargetKey) -> Verdict:
    message = "the selected pods are not known yet: the operator waits for the API server to list them"
    return Verdict(quota.name, target, QuotaOutcome.PODS_UNKNOWN, message)


def selects_elsewhere(quota: ConnectionQuota, target: TargetKey) -> Verdict | None:
    """Return the verdict on a quota that selects pods of other namespaces than the only one that the operator watches.

    None if the quota selects no such pods.
    """
    workload = quota.spec.target.workload
    if workload is None or workload.namespace_selector is None:
        return None
    message = (
        "this operator watches only one namespace: remove namespaceSelector, or install the operator for all namespaces"
    )
    return Verdict(quota.name, target, QuotaOutcome.UNSUPPORTED, message)


def unsupported(quota: ConnectionQuota, target: TargetKey) -> Verdict | None:
    """Return the verdict on a quota that asks for something that Apache Kafka does not support.

    None if Kafka supports all that the quota asks for.
    """
    lacks = ""
    if quota.spec.is_of_cluster:
        lacks = "has no rates of all brokers together; remove scope, and set maxConnectionCreationRate for each broker"
    elif quota.spec.adaptive is not None:
        lacks = "has no adaptive rates; set maxConnectionCreationRate"
    elif quota.spec.is_observing:
        lacks = "cannot observe a limit without enforcing it; set mode Enforce"
    elif target.kind is TargetKind.CIDR:
        lacks = "has no quotas on ranges of addresses; set target.ip for each address, or defaultIp"
    elif target.kind is TargetKind.WORKLOAD:
        lacks = "has no quotas on the addresses of pods; set target.ip for each address, or defaultIp"
    if not lacks:
        return None
    message = f"cluster {quota.spec.cluster_ref.name} has runtime External, and Apache Kafka {lacks}"
    return Verdict(quota.name, target, QuotaOutcome.UNSUPPORTED, message)


def too_many_addresses(verdict: Verdict) -> Verdict:
    """Return the verdict on a quota whose count of connections does not fit into the value that addresses share.

    The rate, if there is one, is enforced.
    """
    message = (
        f"maxConnections of {verdict.target.name} is not enforced: Kafka stores the counts of all addresses of"
        f" a cluster in one value ({COUNT_PER_IP_OVERRIDES}) of at most {OVERRIDES_BYTES_MAX} bytes, and older"
        " ConnectionQuotas fill it; set maxConnectionCreationRate instead, limit all addresses by defaultIp,"
        " or delete other quotas"
    )
    return replace(verdict, outcome=QuotaOutcome.TOO_MANY_ADDRESSES, message=message)


def verdict_of(quota: ConnectionQuota, target: TargetKey, winners: Winners, limits: Limits) -> Verdict:
    """Return the verdict on a quota: which of its limits are enforced on its target, and which lose to `winners`."""
    stated = [limit for limit in LimitField if limit_of(quota, limit) is not None]
    conflicts = []
    for limit in stated:
        value, winner = winners[limit]
        if winner != quota.name and value is not None:
            conflicts.append(Conflict(limit, winner, value))
    if not conflicts:
        return Verdict(quota.name, target, QuotaOutcome.ACCEPTED)
    names = {limit: limit.value for limit in LimitField}
    if limits.adaptive is not None:
        names[LimitField.RATE] = "adaptive.maxRate"
    elif limits.of_cluster:
        names[LimitField.RATE] = "the cluster's maxConnectionCreationRate"
    details = ", ".join(f"{names[lost.field]} {lost.value} of ConnectionQuota {lost.winner}" for lost in conflicts)
    message = (
        f"other quotas have the same target, and these are enforced instead: {details}; delete one of the quotas"
        " or change its target"
    )
    outcome = QuotaOutcome.CONFLICTED if len(conflicts) == len(stated) else QuotaOutcome.ACCEPTED
    return Verdict(quota.name, target, outcome, message, tuple(conflicts))
