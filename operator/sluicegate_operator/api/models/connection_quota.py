"""ConnectionQuota: one limit on connections of a cluster, a listener, addresses or pods (KIP-612, KIP-308)."""

import re
from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.models.broker_listener import LISTENER_NAME_MESSAGE, LISTENER_PATTERN, RESERVED_NAMES
from sluicegate_operator.api.models.parts.adaptive_rate import AdaptedRates, AdaptiveRate
from sluicegate_operator.api.models.parts.broker_shares import BrokerShares
from sluicegate_operator.api.models.parts.label_selector import LabelSelector
from sluicegate_operator.api.schema.addresses import has_no_host_bits, is_cidr, is_ip
from sluicegate_operator.api.schema.metadata import (
    CLUSTER_COLUMN,
    CONDITION_COLUMNS,
    INT_MAX,
    ClusterRef,
    PrinterColumn,
    Resource,
    Status,
)
from sluicegate_operator.api.schema.rules import Model, Rule, cluster_ref_stays

MOMENT_PATTERN = (
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?"
    "(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$"
)

AFTER_ALL = datetime.max.replace(tzinfo=UTC)
_MEMBERS = ("broker", "listener", "ip", "defaultIp", "cidr", "workload")


class EmptyTarget(Model):
    """A target of a quota that needs no value: users write {} for it."""


def is_moment(text: str) -> bool:
    """Return whether CEL's timestamp() accepts the text as RFC 3339."""
    if re.fullmatch(MOMENT_PATTERN, text) is None:
        return False
    try:
        return datetime.fromisoformat(text).timestamp() > 0
    except ValueError:
        return False


class Workload(Model):
    """Pods selected by their labels, with the same fields as in a NetworkPolicy."""

    pod_selector: LabelSelector
    """Pods with these labels; {} selects every pod of the namespaces."""
    namespace_selector: LabelSelector | None = None
    """Pods of namespaces with these labels; {} selects every namespace. The quota's own namespace if absent."""


class QuotaTarget(Model):
    """The connections that a ConnectionQuota limits: exactly one of the fields is set."""

    rules: ClassVar = (
        Rule(
            cel="[" + ", ".join(f"has(self.{name})" for name in _MEMBERS) + "].filter(x, x).size() == 1",
            message="target must have exactly one of broker: {}, listener: NAME, ip: ADDRESS, defaultIp: {}, cidr:"
            " RANGE or workload: {podSelector: ...}",
            allows=lambda target: len([part for part in target.parts if part is not None]) == 1,
        ),
        Rule(
            cel=f"!has(self.listener) || self.listener.matches('{LISTENER_PATTERN}')",
            message=f"target.listener {LISTENER_NAME_MESSAGE}; it must be the spec.name of a BrokerListener",
            allows=lambda target: (
                target.listener is None or re.fullmatch(LISTENER_PATTERN, target.listener) is not None
            ),
            field="listener",
        ),
        Rule(
            cel="!has(self.listener) || !(self.listener in ['INTERNAL', 'CONTROLLER', 'REPLICATION'])",
            message="INTERNAL, CONTROLLER and REPLICATION are reserved for the operator and have no limits; name a"
            " listener for clients",
            allows=lambda target: target.listener not in RESERVED_NAMES,
            field="listener",
        ),
        Rule(
            cel="!has(self.ip) || isIP(self.ip)",
            message="target.ip must be one IPv4 or IPv6 address, for example 203.0.113.7; set target.cidr for a range",
            allows=lambda target: target.ip is None or is_ip(target.ip),
            field="ip",
        ),
        Rule(
            cel="!has(self.cidr) || isCIDR(self.cidr)",
            message="target.cidr must be a range of IPv4 or IPv6 addresses, for example 203.0.113.0/24 or"
            " 2001:db8::/32",
            allows=lambda target: target.cidr is None or is_cidr(target.cidr),
            field="cidr",
        ),
        Rule(
            # `in` and not `==`: the API server of Kubernetes 1.31 estimates the cost of == on ranges as unlimited.
            cel="!has(self.cidr) || !isCIDR(self.cidr) || cidr(self.cidr).masked() in [cidr(self.cidr)]",
            message="target.cidr must begin with the first address of its range: every bit after the prefix must be"
            " zero, for example 10.1.0.0/16 (not 10.1.2.3/16)",
            allows=lambda target: target.cidr is None or not is_cidr(target.cidr) or has_no_host_bits(target.cidr),
            field="cidr",
        ),
    )

    broker: EmptyTarget | None = None
    """{}: every broker as a whole, over all its listeners."""
    listener: str | None = Field(default=None, min_length=1, max_length=63)
    """spec.name of a BrokerListener of the same cluster: that listener on every broker."""
    ip: str | None = Field(default=None, min_length=2, max_length=45)
    """One IPv4 or IPv6 address of clients."""
    default_ip: EmptyTarget | None = None
    """{}: every client address that has no quota of its own."""
    cidr: str | None = Field(default=None, min_length=2, max_length=49)
    """A range of IPv4 or IPv6 addresses of clients. If an address is in several ranges, the longest prefix applies."""
    workload: Workload | None = None
    """Pods selected by their labels: the limit applies to their current addresses."""

    @property
    def parts(self) -> tuple[Model | str | None, ...]:
        return (self.broker, self.listener, self.ip, self.default_ip, self.cidr, self.workload)

    @property
    def has_many_addresses(self) -> bool:
        return self.cidr is not None or self.workload is not None

    def describe(self) -> str:
        if self.cidr is not None:
            return f"cidr {self.cidr}"
        if self.workload is not None:
            return "workload"
        if self.listener is not None:
            return f"listener {self.listener}"
        if self.ip is not None:
            return f"ip {self.ip}"
        return "broker" if self.broker is not None else "default ip"


class ConnectionQuotaSpec(Model):
    """A limit on new connections, on open connections, or on both, of one target in a cluster."""

    rules: ClassVar = (
        Rule(
            cel="has(self.maxConnectionCreationRate) || has(self.maxConnections) || has(self.adaptive)",
            message="set maxConnectionCreationRate, adaptive or maxConnections; a quota without them limits nothing",
            allows=lambda spec: (
                spec.max_connection_creation_rate is not None
                or spec.max_connections is not None
                or spec.adaptive is not None
            ),
        ),
        Rule(
            cel="!has(self.adaptive) || !has(self.maxConnectionCreationRate)",
            message="set maxConnectionCreationRate or adaptive, not both: adaptive.maxRate is the highest rate",
            allows=lambda spec: spec.adaptive is None or spec.max_connection_creation_rate is None,
            field="adaptive",
        ),
        Rule(
            cel="!has(self.adaptive) || has(self.target.listener) || has(self.target.broker)",
            message="adaptive is only for target.listener and target.broker; for addresses, set"
            " maxConnectionCreationRate",
            allows=lambda spec: (
                spec.adaptive is None or spec.target.listener is not None or spec.target.broker is not None
            ),
            field="adaptive",
        ),
        Rule(
            cel="self.scope != 'Cluster' || has(self.maxConnectionCreationRate) || has(self.adaptive)",
            message="scope Cluster needs maxConnectionCreationRate, the rate of all brokers together; maxConnections is"
            " always a limit of each broker",
            allows=lambda spec: (
                not spec.is_of_cluster or spec.max_connection_creation_rate is not None or spec.adaptive is not None
            ),
            field="scope",
        ),
        Rule(
            cel="self.scope != 'Cluster' || !has(self.adaptive)",
            message="set scope Cluster or adaptive, not both: an adaptive rate follows the load of each broker",
            allows=lambda spec: not spec.is_of_cluster or spec.adaptive is None,
            field="scope",
        ),
        Rule(
            cel="self.scope != 'Cluster' || !has(self.target.defaultIp)",
            message="scope Cluster is not for target.defaultIp, which gives each address its own limit; to limit all"
            " IPv4 addresses together, set target.cidr to 0.0.0.0/0 and limitIs to Shared",
            allows=lambda spec: not spec.is_of_cluster or spec.target.default_ip is None,
            field="scope",
        ),
        Rule(
            cel="self.scope != 'Cluster' || !(has(self.target.cidr) || has(self.target.workload))"
            " || (has(self.limitIs) && self.limitIs == 'Shared')",
            message="scope Cluster with target.cidr or target.workload needs limitIs Shared: brokers share one rate for"
            " all addresses, not one for each address",
            allows=lambda spec: (
                not spec.is_of_cluster or not spec.target.has_many_addresses or spec.limit_is == "Shared"
            ),
            field="scope",
        ),
        Rule(
            cel="!has(self.limitIs) || has(self.target.cidr) || has(self.target.workload)",
            message="limitIs is only for target.cidr and target.workload, which have several addresses; remove it",
            allows=lambda spec: spec.limit_is is None or spec.target.has_many_addresses,
            field="limitIs",
        ),
        Rule(
            cel="self.mode != 'Observe' || has(self.target.cidr) || has(self.target.workload) || has(self.target.ip)",
            message="mode Observe is only for target.cidr, target.workload and target.ip; to observe all addresses,"
            " create one quota with cidr 0.0.0.0/0 and one with cidr ::/0",
            allows=lambda spec: spec.mode != "Observe" or spec.target.has_many_addresses or spec.target.ip is not None,
            field="mode",
        ),
        Rule(
            cel=f"!has(self.expiresAt) || (self.expiresAt.matches('{MOMENT_PATTERN}')"
            " && timestamp(self.expiresAt) > timestamp('1970-01-01T00:00:00Z'))",
            message="expiresAt must be a time with a time zone as in RFC 3339, for example 2030-01-31T18:00:00Z",
            allows=lambda spec: spec.expires_at is None or is_moment(spec.expires_at),
            field="expiresAt",
        ),
    )
    transitions: ClassVar = (
        cluster_ref_stays("delete this ConnectionQuota, which removes its limit, and create a new one"),
    )

    cluster_ref: ClusterRef
    """The BrokerCluster to which the limit applies."""
    target: QuotaTarget
    """What is limited: exactly one of broker, listener, ip, defaultIp, cidr and workload."""
    max_connection_creation_rate: int | None = Field(default=None, ge=1, le=INT_MAX)
    """New connections per second, on each broker, or on all brokers together with scope Cluster. Over the rate of a
    broker or listener, new clients wait; over the rate of an address, its connections are closed."""
    scope: Literal["Broker", "Cluster"] = "Broker"
    """Broker: each broker has the rate. Cluster: all brokers of the cluster share one rate, by demand; for broker,
    listener and ip, and for cidr and workload with limitIs Shared."""
    adaptive: AdaptiveRate | None = None
    """In place of maxConnectionCreationRate, for listener and broker: each broker moves the rate between two bounds, so
    that requests of established clients do not wait longer than the objective."""
    max_connections: int | None = Field(default=None, ge=1, le=INT_MAX)
    """Open connections, on each broker; scope does not apply to it."""
    limit_is: Literal["Shared", "PerAddress"] | None = None
    """For cidr and workload: whether all addresses share the limit (Shared) or each has its own (PerAddress, the
    default)."""
    mode: Literal["Enforce", "Observe"] = "Enforce"
    """Observe enforces nothing: brokers count the connections that the limit would have delayed or refused. For cidr,
    workload and ip only."""
    expires_at: str | None = Field(default=None, min_length=1, max_length=40)
    """Time from which the limit is lifted (RFC 3339, by the operator's clock); the object stays."""

    @property
    def highest_rate(self) -> int | None:
        """The highest rate of new connections that the quota allows; None if it limits no rate."""
        return self.max_connection_creation_rate if self.adaptive is None else self.adaptive.max_rate

    @property
    def is_shared(self) -> bool:
        return self.limit_is == "Shared"

    @property
    def is_of_cluster(self) -> bool:
        """Whether the rate is that of all brokers together."""
        return self.scope == "Cluster"

    @property
    def is_observing(self) -> bool:
        return self.mode == "Observe"

    @property
    def expires(self) -> datetime:
        """The time at which the limits end; AFTER_ALL for limits without an end."""
        return AFTER_ALL if self.expires_at is None else datetime.fromisoformat(self.expires_at)


class Effective(Model):
    """The limits that are enforced on the target now, from this quota or from a stricter one."""

    max_connection_creation_rate: int | None = None
    """New connections per second, on each broker, or on all brokers together if scope is Cluster."""
    scope: str | None = Field(default=None, max_length=32)
    """Cluster if maxConnectionCreationRate is the rate of all brokers together; absent if it is that of each broker."""
    max_connections: int | None = None
    """Open connections, on each broker."""


class ObservedCounts(Model):
    """The connections that a quota of mode Observe would have limited, on all brokers since they began to observe.

    A broker that restarts begins at zero.
    """

    would_hold: int = 0
    """Connections that the limits would have delayed or refused."""
    by_rate: int = 0
    """Number of the connections of wouldHold that were over maxConnectionCreationRate."""
    by_count: int = 0
    """Number of the connections of wouldHold that were over maxConnections."""
    brokers: str = Field(default="", max_length=32)
    """Brokers that answered, of those that were asked: 3/3."""
    at: datetime | None = None
    """Time when the figures last changed."""


class Holding(Model):
    """The connections that the limit delays or refuses now, on all brokers together.

    Figures are rounded, and written when they change much.
    """

    summary: str = Field(default="", max_length=64)
    """The figure in short: 85% of time for a listener or a broker, 12/s for addresses."""
    blocked_percent: int | None = None
    """For listener and broker: percentage of the time that new connections wait for the limit, on the broker where they
    wait most."""
    held_per_second: float = 0.0
    """Connections per second that wait for the limit (listener, broker) or are refused by it (addresses)."""
    brokers: str = Field(default="", max_length=32)
    """Brokers that answered, of those that were asked: 3/3."""
    since: datetime | None = None
    """Time when the operator first saw that the limit delays or refuses connections."""


class ConnectionQuotaStatus(Status):
    target: str = Field(default="", max_length=128)
    """The target in words."""
    brokers: str = Field(default="", max_length=32)
    """Brokers that enforce the limit, read back from each, of those that should: 3/3."""
    enforced_at: datetime | None = None
    """Time when all brokers were first seen to enforce this generation."""
    apply_seconds: float | None = None
    """Seconds from when the operator first saw this generation until all brokers enforced it."""
    effective: Effective | None = None
    """The limits that are enforced on the target now."""
    members: int | None = None
    """For cidr and workload: number of addresses, or ranges, to which the limit applies now."""
    host_network_pods: int | None = None
    """For workload: number of selected pods that have their node's address, to which the limit does not apply."""
    observed: ObservedCounts | None = None
    """For mode Observe: the connections that would have been delayed or refused."""
    holding: Holding | None = None
    """For mode Enforce: the connections that the limit delays or refuses now; absent if there are none. Brokers of
    runtime External do not report it."""
    adaptive: AdaptedRates | None = None
    """For adaptive: the rate that each broker allows now."""
    shares: BrokerShares | None = None
    """For scope Cluster: the part of the rate that each broker may use now."""
    strategy: str | None = Field(default=None, max_length=32)
    """How brokers measure the rate: windowed or token-bucket, from connectionQuota.strategy of the BrokerCluster."""


class ConnectionQuota(Resource):
    """A limit on connections. A change reaches every broker at once, without a restart."""

    plural: ClassVar = "connectionquotas"
    short_name: ClassVar = "cq"
    columns: ClassVar = (
        CLUSTER_COLUMN,
        PrinterColumn(name="Target", json_path=".status.target"),
        PrinterColumn(name="Rate", json_path=".spec.maxConnectionCreationRate", type="integer"),
        PrinterColumn(name="Max", json_path=".spec.maxConnections", type="integer"),
        PrinterColumn(name="Scope", json_path=".spec.scope", priority=1),
        PrinterColumn(name="Shares", json_path=".status.shares.summary", priority=1),
        PrinterColumn(name="Adaptive", json_path=".status.adaptive.summary", priority=1),
        PrinterColumn(name="Mode", json_path=".spec.mode", priority=1),
        PrinterColumn(name="Members", json_path=".status.members", type="integer", priority=1),
        PrinterColumn(name="Would-Hold", json_path=".status.observed.wouldHold", type="integer", priority=1),
        PrinterColumn(name="Brokers", json_path=".status.brokers"),
        PrinterColumn(name="Holding", json_path=".status.holding.summary"),
        PrinterColumn(name="Strategy", json_path=".status.strategy", priority=1),
        PrinterColumn(name="Expires", json_path=".spec.expiresAt", priority=1),
        *CONDITION_COLUMNS,
    )

    kind: Literal["ConnectionQuota"] = "ConnectionQuota"
    spec: ConnectionQuotaSpec
    """The limit."""
    status: ConnectionQuotaStatus = Field(default_factory=ConnectionQuotaStatus)
    """Where the limit is enforced."""
