"""The limits on connections of one broker, as frozen values; the defaults are those of the configuration keys. Pure."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Network, IPv6Network

from connection_limits.keys import CONNECTION_GROUP

UNLIMITED = 2**31 - 1
"""Limit that stands for no limit: Kafka's INT_MAX. A rate or count this large is not compared."""


class Strategy(Enum):
    """The algorithm that measures and limits a rate of connections: connection.quota.strategy."""

    WINDOWED = "windowed"
    TOKEN_BUCKET = "token-bucket"


class IpAction(Enum):
    """The action for a connection over its address's rate: connection.quota.ip.action."""

    DELAY = "delay"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class LimitReference:
    """A limit that delays or refuses a connection.

    - `key`: a configuration key, or the key of a client quota of `entity`, such as ip=10.0.0.1.
    - `value`: the limit when the connection met it, in connections per second or in connections.
    - `quota`: NAMESPACE/NAME of the ConnectionQuota that has set the limit; None if it is not known. The operator gives
      a connection group the name of its ConnectionQuota, and QuotaSettings.quota_names has those of other limits.
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
    """The limits of KIP-308, KIP-402 and KIP-612.

    Listener maps are keyed by the listener's name; absent means inherited. `max_connection_creation_rate_per_ip` is the
    KIP-612 draft's key. A rate of the `ip` quota entity (`AddressQuotas.update_rate`), default entity included,
    overrides it.
    """

    max_connections: int = UNLIMITED
    max_connection_creation_rate: int = UNLIMITED
    listener_max_connections: Mapping[str, int] = field(default_factory=dict)
    listener_max_connection_creation_rate: Mapping[str, int] = field(default_factory=dict)
    objective: Objective | None = None
    """The objective by which the broker's rate adapts; max_connection_creation_rate is its upper bound.

    None: a fixed rate.
    """
    listener_objectives: Mapping[str, Objective] = field(default_factory=dict)
    """The objectives of listeners whose own rate adapts. A listener does not inherit the broker's objective."""
    cluster_wide: bool = False
    """Whether the broker's rate is that of all brokers of the cluster together."""
    cluster_wide_listeners: AbstractSet[str] = frozenset()
    """Listeners whose own rate is that of all brokers together. A listener does not inherit the broker's scope."""
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
    quota_names: Mapping[str, str] = field(default_factory=dict)
    """NAMESPACE/NAME of the ConnectionQuota that has set a limit, by the limit's key. They change no decision."""

    def max_connections_of(self, listener: str, *, protected: bool) -> int:
        """Return the listener's maximum number of connections: its own, else the broker's, as in Kafka.

        `protected`: brokers and the operator use the listener, perhaps with clients. The broker's maximum does not
        apply to such a listener, only its own. (In Kafka it inherits, and a small number locks out brokers and
        administrators.)
        """
        return self.listener_max_connections.get(listener, UNLIMITED if protected else self.max_connections)

    def creation_rate_of(self, listener: str, *, protected: bool) -> int:
        inherited = UNLIMITED if protected else self.max_connection_creation_rate
        return self.listener_max_connection_creation_rate.get(listener, inherited)

    def objective_of(self, listener: str, *, protected: bool) -> Objective | None:
        return None if protected else self.listener_objectives.get(listener)

    def is_cluster_wide(self, listener: str, *, protected: bool) -> bool:
        """Return whether the listener's own rate is that of all brokers together."""
        has_own = listener in self.listener_max_connection_creation_rate
        return has_own and not protected and listener in self.cluster_wide_listeners

    @property
    def window_ms(self) -> int:
        return self.quota_window_size_s * 1000
