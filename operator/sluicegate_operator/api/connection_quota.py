"""ConnectionQuota: one limit on connections of a cluster, a listener or an address (KIP-612, KIP-308)."""

import re
from datetime import datetime
from ipaddress import IPv6Address, ip_address
from typing import ClassVar, Literal

from pydantic import Field

from sluicegate_operator.api.broker_listener import LISTENER_NAME_MESSAGE, LISTENER_PATTERN, RESERVED_NAMES
from sluicegate_operator.api.metadata import (
    AGE_COLUMN,
    CLUSTER_COLUMN,
    INT_MAX,
    READY_COLUMN,
    REASON_COLUMN,
    ClusterRef,
    PrinterColumn,
    Resource,
    Status,
)
from sluicegate_operator.api.rules import Model, Rule, cluster_ref_stays


class Whole(Model):
    """Written as {}: nothing more is to be said."""


def is_ip(text: str) -> bool:
    """What CEL's isIP accepts: no zone, no IPv4 address inside an IPv6 one."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not isinstance(address, IPv6Address) or (address.scope_id is None and address.ipv4_mapped is None)


_MEMBERS = ("broker", "listener", "ip", "defaultIp")


class Target(Model):
    rules: ClassVar = (
        Rule(
            cel="[" + ", ".join(f"has(self.{name})" for name in _MEMBERS) + "].filter(x, x).size() == 1",
            message="target must say exactly one of broker: {}, listener: NAME, ip: ADDRESS or defaultIp: {}",
            holds=lambda target: len([part for part in target.parts if part is not None]) == 1,
        ),
        Rule(
            cel=f"!has(self.listener) || self.listener.matches('{LISTENER_PATTERN}')",
            message=f"target.listener {LISTENER_NAME_MESSAGE}; it is spec.name of a BrokerListener",
            holds=lambda target: target.listener is None or re.fullmatch(LISTENER_PATTERN, target.listener) is not None,
            field="listener",
        ),
        Rule(
            cel="!has(self.listener) || !(self.listener in ['INTERNAL', 'CONTROLLER', 'REPLICATION'])",
            message="INTERNAL, CONTROLLER and REPLICATION belong to the operator and have no limits; name a listener of"
            " clients",
            holds=lambda target: target.listener not in RESERVED_NAMES,
            field="listener",
        ),
        Rule(
            cel="!has(self.ip) || isIP(self.ip)",
            message="target.ip must be one IPv4 or IPv6 address, for example 203.0.113.7; not a name and not a range",
            holds=lambda target: target.ip is None or is_ip(target.ip),
            field="ip",
        ),
    )

    broker: Whole | None = None
    """{}: every broker as a whole, over all its listeners."""
    listener: str | None = Field(default=None, min_length=1, max_length=63)
    """spec.name of a BrokerListener of the same cluster: that listener on every broker."""
    ip: str | None = Field(default=None, min_length=2, max_length=45)
    """One IPv4 or IPv6 address of clients."""
    default_ip: Whole | None = None
    """{}: every client address that has no quota of its own."""

    @property
    def parts(self) -> tuple[Whole | str | None, ...]:
        return (self.broker, self.listener, self.ip, self.default_ip)

    def describe(self) -> str:
        if self.listener is not None:
            return f"listener {self.listener}"
        if self.ip is not None:
            return f"ip {self.ip}"
        return "broker" if self.broker is not None else "default ip"


class ConnectionQuotaSpec(Model):
    rules: ClassVar = (
        Rule(
            cel="has(self.maxConnectionCreationRate) || has(self.maxConnections)",
            message="say maxConnectionCreationRate, maxConnections or both; a quota without them limits nothing",
            holds=lambda spec: spec.max_connection_creation_rate is not None or spec.max_connections is not None,
        ),
    )
    transitions: ClassVar = (cluster_ref_stays("delete this ConnectionQuota, with its limit, and make a new one"),)

    cluster_ref: ClusterRef
    """The BrokerCluster that the limit is for."""
    target: Target
    """What is limited: exactly one of broker, listener, ip and defaultIp."""
    max_connection_creation_rate: int | None = Field(default=None, ge=1, le=INT_MAX)
    """New connections a second, on each broker. Over the rate of broker or listener new clients wait; over the rate of
    an address its connections are closed."""
    max_connections: int | None = Field(default=None, ge=1, le=INT_MAX)
    """Connections at a time, on each broker."""


class Effective(Model):
    """What is enforced on the target now; from this quota, or from a stricter one."""

    max_connection_creation_rate: int | None = None
    """New connections a second, on each broker."""
    max_connections: int | None = None
    """Connections at a time, on each broker."""


class ConnectionQuotaStatus(Status):
    target: str = Field(default="", max_length=128)
    """The target in words."""
    brokers: str = Field(default="", max_length=32)
    """Brokers that enforce the limit, read back from each, of those that should: 3/3."""
    enforced_at: datetime | None = None
    """When all brokers were first seen to enforce this generation."""
    apply_seconds: float | None = None
    """Seconds from when the operator learned of this generation to when all brokers enforced it."""
    effective: Effective | None = None
    """What is enforced on the target now."""


class ConnectionQuota(Resource):
    """A limit on connections. A change reaches every broker at once, without a restart."""

    plural: ClassVar = "connectionquotas"
    short_name: ClassVar = "cq"
    columns: ClassVar = (
        CLUSTER_COLUMN,
        PrinterColumn(name="Target", json_path=".status.target"),
        PrinterColumn(name="Rate", json_path=".spec.maxConnectionCreationRate", type="integer"),
        PrinterColumn(name="Max", json_path=".spec.maxConnections", type="integer"),
        PrinterColumn(name="Brokers", json_path=".status.brokers"),
        READY_COLUMN,
        REASON_COLUMN,
        AGE_COLUMN,
    )

    kind: Literal["ConnectionQuota"] = "ConnectionQuota"
    spec: ConnectionQuotaSpec
    """The limit."""
    status: ConnectionQuotaStatus = Field(default_factory=ConnectionQuotaStatus)
    """Where the limit is enforced."""
