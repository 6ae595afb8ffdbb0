"""The limits on connections of one broker, as frozen values; the defaults are those of the configuration keys. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Network, IPv6Network

from connection_limits.keys import CONNECTION_GROUP

UNLIMITED = 2**31 - 1
"""Kafka's INT_MAX: a rate or count this large means no limit, and is not compared."""


class Strategy(Enum):
    """Algorithm that judges a rate: connection.quota.strategy."""

    WINDOWED = "windowed"
    TOKEN_BUCKET = "token-bucket"


class IpAction(Enum):
    """Action for a connection over its address's rate: connection.quota.ip.action."""

    DELAY = "delay"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class LimitReference:
    """A limit that delays or refuses a connection.

    - `key`: a configuration key, or the key of a client quota of `entity`, such as ip=10.0.0.1.
    - `value`: the limit when the connection met it, in connections per second or in connections.
    - `quota`: NAMESPACE/NAME of the ConnectionQuota whose connection group has the limit; None for other limits. The
      operator gives a connection group the name of its ConnectionQuota.
    """

    key: str
    value: int
    entity: str | None = None
    quota: str | None = None

    @property
    def name(self) -> str:
        """Return the limit in one word: its key, for a connection group `connection-group.NAME.KEY`."""
        kind, _, group = (self.entity or "").partition("=")
        return f"{CONNECTION_GROUP}.{group}.{self.key}" if kind == CONNECTION_GROUP else self.key


@dataclass(frozen=True, slots=True)
class Objective:
    """The objective of an adaptive rate: a p99 of the time that a ready request waits for the event loop."""

    p99_ms: int
    """The largest p99, in milliseconds, at least 1."""
    min_rate: int
    """New connections a second that are always allowed."""


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """KIP-308, KIP-402 and KIP-612 limits. Listener maps are keyed by the listener's name; absent means inherited.

    `max_connection_creation_rate_per_ip` is the KIP-612 draft's key. A rate of the `ip` quota entity
    (`AddressQuotas.update_rate`), default entity included, overrides it.
    """

    max_connections: int = UNLIMITED
    max_connection_creation_rate: int = UNLIMITED
    listener_max_connections: Mapping[str, int] = field(default_factory=dict)
    listener_max_connection_creation_rate: Mapping[str, int] = field(default_factory=dict)
    objective: Objective | None = None
    """With it, the broker's rate adapts: max_connection_creation_rate is its upper bound."""
    listener_objectives: Mapping[str, Objective] = field(default_factory=dict)
    """Listeners whose own rate adapts. A listener does not inherit the broker's objective."""
    max_connections_per_ip: int = UNLIMITED
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate_per_ip: int = UNLIMITED
    inter_broker_listener: str = ""
    quota_window_num: int = 11
    quota_window_size_s: int = 1
    strategy: Strategy = Strategy.WINDOWED
    ip_action: IpAction = IpAction.DELAY
    max_tracked_ips: int = 100_000
    max_delayed_closes: int = 10_000
    count_abandoned: bool = False
    """Whether connections that were closed before they are accepted count in every rate, as in Kafka."""
    trusted_proxies: Mapping[str, Sequence[IPv4Network | IPv6Network]] = field(default_factory=dict)
    """Networks of trusted proxies, by the name of a listener for proxies only.

    The header then defines the client's address.
    """

    def max_connections_of(self, listener: str, *, protected: bool) -> int:
        """Return the listener's limit: its own, else the broker's, as in Kafka.

        `protected`: the listener is for brokers and the operator, beside others. No limit for clients applies to it, so
        only its own does. (In Kafka it inherits, and a small number locks out brokers and administrators.)
        """
        return self.listener_max_connections.get(listener, UNLIMITED if protected else self.max_connections)

    def creation_rate_of(self, listener: str, *, protected: bool) -> int:
        inherited = UNLIMITED if protected else self.max_connection_creation_rate
        return self.listener_max_connection_creation_rate.get(listener, inherited)

    def objective_of(self, listener: str, *, protected: bool) -> Objective | None:
        return None if protected else self.listener_objectives.get(listener)

    @property
    def window_ms(self) -> int:
        return self.quota_window_size_s * 1000
