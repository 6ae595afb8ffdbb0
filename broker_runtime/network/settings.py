"""Every limit of the network layer, as frozen values; the defaults are Apache Kafka's. Pure.

`broker_runtime.config` maps server.properties and dynamic configuration to these; nothing here parses text.
A change of limits is a new object handed to `SocketServer.update_limits`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

UNLIMITED = 2_147_483_647
"""Kafka's INT_MAX: a rate or count that large is no limit, and is not even compared with."""


class Strategy(Enum):
    """How a rate is judged: connection.quota.strategy."""

    WINDOWED = "windowed"
    TOKEN_BUCKET = "token-bucket"


class IpAction(Enum):
    """What becomes of a connection over its address's rate: connection.quota.ip.action."""

    DELAY = "delay"
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """KIP-308, KIP-402 and KIP-612 limits. Listener maps are keyed by the listener's name; absent means inherited.

    `max_connection_creation_rate_per_ip` is the KIP-612 draft's key; a rate set for the `ip` quota entity
    (`ConnectionQuotas.update_ip_rate`), default entity included, wins over it.
    """

    max_connections: int = UNLIMITED
    max_connection_creation_rate: int = UNLIMITED
    listener_max_connections: Mapping[str, int] = field(default_factory=dict)
    listener_max_connection_creation_rate: Mapping[str, int] = field(default_factory=dict)
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

    def max_connections_of(self, listener: str, *, protected: bool) -> int:
        """A listener without a value of its own inherits the broker's number as its own limit, as in Kafka.

        `protected`: it is the one that brokers and the operator use, beside others. No limit for clients reaches it, so
        it has none but its own. (In Kafka it inherits, and a small number locks brokers and administrators out.)
        """
        return self.listener_max_connections.get(listener, UNLIMITED if protected else self.max_connections)

    def creation_rate_of(self, listener: str, *, protected: bool) -> int:
        inherited = UNLIMITED if protected else self.max_connection_creation_rate
        return self.listener_max_connection_creation_rate.get(listener, inherited)

    @property
    def window_ms(self) -> int:
        return self.quota_window_size_s * 1000


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Limits of sockets and frames; a buffer size of -1 leaves the choice to the kernel."""

    quotas: QuotaSettings = field(default_factory=QuotaSettings)
    listen_backlog: int = 50
    connections_max_idle_ms: int = 600_000
    max_request_bytes: int = 104_857_600
    max_buffered_bytes: int = 536_870_912
    receive_buffer_bytes: int = -1
    send_buffer_bytes: int = -1
    frame_receive_timeout_s: float = 30.0
    connection_turn_requests: int = 100
    connection_turn_s: float = 0.001
    """After so many requests, or so long, the other connections have their turn."""
    turn_s: float = 0.0015
    """After so long the loop serves whatever else it has to do."""
    accepts_per_wakeup: int = 8
    """New connections served before the existing ones have their turn: 16 is 2 % faster, and makes them wait longer."""
    accept_yield_s: float = 0.002
    """Pause of an acceptor after each turn while established clients are at work: a storm then takes a bounded share of
    the loop and of the machine, and their requests do not queue behind it (the aim of KIP-402, part 1)."""
    established_after_s: float = 1.0
    """A connection that old counts as established."""
    accept_error_pause_s: float = 0.1
    log_interval_s: float = 10.0
