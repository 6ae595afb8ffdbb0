"""The targets and limits of ConnectionQuotas: which object a quota limits, and by which numbers. Pure."""

from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address

from sluicegate_operator.api.models.connection_quota import ConnectionQuota, QuotaTarget
from sluicegate_operator.api.models.parts.adaptive_rate import AdaptiveRate
from sluicegate_operator.planning.limits.connection_groups import canonical_member

QuotaName = str
"""The metadata.name of a ConnectionQuota. It identifies the quota within its cluster: both are in one namespace.

A quota that is deleted and created again has the same name and another uid. Whatever was known of the earlier object is
forgotten then, except its selected pods (`KnownQuota.of`).
"""


class TargetKind(StrEnum):
    """The kind of object that a ConnectionQuota limits, such as a listener or an address."""

    BROKER = "broker"
    LISTENER = "listener"
    IP = "ip"
    DEFAULT_IP = "defaultIp"
    CIDR = "cidr"
    WORKLOAD = "workload"


class LimitField(StrEnum):
    """The fields of a ConnectionQuota that limit something."""

    RATE = "maxConnectionCreationRate"
    COUNT = "maxConnections"


@dataclass(frozen=True, slots=True, order=True)
class TargetKey:
    """The target that limits of ConnectionQuotas apply to, such as a listener or an address.

    `name` is the listener, the address or range in its canonical form, or the quota of a workload; else empty. `apart`
    distinguishes limits that apply in addition to others on the same name: limits that the addresses of a range share,
    limits of all brokers together, and limits that a quota only observes.
    """

    kind: TargetKind
    name: str = ""
    apart: str = ""

    @classmethod
    def of(cls, target: QuotaTarget) -> "TargetKey":
        if target.listener is not None:
            return cls(TargetKind.LISTENER, target.listener)
        if target.ip is not None:
            return cls(TargetKind.IP, str(ip_address(target.ip)))
        return cls(TargetKind.BROKER if target.broker is not None else TargetKind.DEFAULT_IP)

    @classmethod
    def of_quota(cls, quota: ConnectionQuota) -> "TargetKey":
        spec, target = quota.spec, quota.spec.target
        if target.workload is not None:
            return cls(TargetKind.WORKLOAD, quota.name)
        # Kafka's quota of an address applies on each broker. A quota that observes, or has scope Cluster, is a group.
        if target.cidr is None and (target.ip is None or not (spec.is_observing or spec.is_of_cluster)):
            return cls.of(target)
        apart = "shared" if spec.is_shared else ""
        if spec.is_of_cluster:
            apart = "of the cluster"
        if spec.is_observing:
            apart = f"observed by {quota.name}"
        return cls(TargetKind.CIDR, canonical_member(target.cidr or target.ip or ""), apart)

    @property
    def is_group(self) -> bool:
        """Whether brokers have the limits of this target as connection groups, one for each quota."""
        return self.kind in (TargetKind.CIDR, TargetKind.WORKLOAD)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits that brokers enforce on one target of ConnectionQuotas; None means no limit.

    `rate` is the highest rate of `adaptive`. With `of_cluster` it is that of all brokers together.
    """

    rate: int | None = None
    count: int | None = None
    adaptive: AdaptiveRate | None = None
    of_cluster: bool = False
