"""Every limit of the network layer, as frozen values; the defaults are those of the configuration keys. Pure.

`broker_runtime.node.limits` derives these from server.properties and dynamic configuration; nothing here parses text.
To change limits, pass a new object to `SocketServer.update_limits`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from broker_runtime.config import INT_MAX, BrokerConfig
from broker_runtime.config.declaring.addresses import Network

HEAVY_S = 0.00025
"""A connection that blocked the event loop for this long is heavy.

Its next request waits in a queue with those of other heavy connections: connections with short requests are served
before them.
"""
UNLIMITED = INT_MAX
"""Kafka's INT_MAX: a rate or count this large means no limit, and is not compared."""


class Strategy(Enum):
    """Algorithm that judges a rate: connection.quota.strategy."""

    WINDOWED = "windowed"
    TOKEN_BUCKET = "token-bucket"


class IpAction(Enum):
    """Action for a connection over its address's rate: connection.quota.ip.action."""

    DELAY = "delay"
    DROP = "drop"


_STRATEGY = Strategy(BrokerConfig.connection_quota_strategy.default)
_IP_ACTION = IpAction(BrokerConfig.connection_quota_ip_action.default)
GROUP = "connection-group"
"""Type of the client quota entity of a connection group."""


@dataclass(frozen=True, slots=True)
class LimitReference:
    """A limit: `key` is a configuration key, or the key of a client quota of `entity`, such as ip=10.0.0.1.

    `quota` is NAMESPACE/NAME of its ConnectionQuota: the operator gives connection groups this name. It is None for
    other limits. `value` is the limit at that time: connections per second, or connections.
    """

    key: str
    value: int
    entity: str | None = None
    quota: str | None = None

    @property
    def name(self) -> str:
        """Return the limit in one word: its key, for a connection group `connection-group.NAME.KEY`."""
        kind, _, group = (self.entity or "").partition("=")
        return f"{GROUP}.{group}.{self.key}" if kind == GROUP else self.key


@dataclass(frozen=True, slots=True)
class QuotaSettings:
    """KIP-308, KIP-402 and KIP-612 limits. Listener maps are keyed by the listener's name; absent means inherited.

    `max_connection_creation_rate_per_ip` is the KIP-612 draft's key. A rate of the `ip` quota entity
    (`AddressQuotas.update_rate`), default entity included, overrides it.
    """

    max_connections: int = BrokerConfig.max_connections.default
    max_connection_creation_rate: int = BrokerConfig.max_connection_creation_rate.default
    listener_max_connections: Mapping[str, int] = field(default_factory=dict)
    listener_max_connection_creation_rate: Mapping[str, int] = field(default_factory=dict)
    max_connections_per_ip: int = BrokerConfig.max_connections_per_ip.default
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate_per_ip: int = BrokerConfig.max_connection_creation_rate_per_ip.default
    inter_broker_listener: str = ""
    quota_window_num: int = BrokerConfig.quota_window_num.default
    quota_window_size_s: int = BrokerConfig.quota_window_size_seconds.default
    strategy: Strategy = _STRATEGY
    ip_action: IpAction = _IP_ACTION
    max_tracked_ips: int = BrokerConfig.connection_quota_tracked_ips_max.default
    max_delayed_closes: int = BrokerConfig.connection_quota_delayed_close_max.default
    count_abandoned: bool = BrokerConfig.connection_quota_count_abandoned.default
    """Whether connections that were closed before they are accepted count in every rate, as in Kafka."""
    trusted_proxies: Mapping[str, Sequence[Network]] = field(default_factory=dict)
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

    @property
    def window_ms(self) -> int:
        return self.quota_window_size_s * 1000


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Limits of sockets and frames; a buffer size of -1 leaves the choice to the kernel."""

    quotas: QuotaSettings = field(default_factory=QuotaSettings)
    listen_backlog: int = BrokerConfig.socket_listen_backlog_size.default
    connections_max_idle_ms: int = BrokerConfig.connections_max_idle_ms.default
    max_request_bytes: int = BrokerConfig.socket_request_max_bytes.default
    max_buffered_bytes: int = BrokerConfig.queued_max_request_bytes.default
    receive_buffer_bytes: int = BrokerConfig.socket_receive_buffer_bytes.default
    send_buffer_bytes: int = BrokerConfig.socket_send_buffer_bytes.default
    proxy_header_max_bytes: int = BrokerConfig.sluicegate_proxy_header_max_bytes.default
    proxy_header_timeout_s: float = BrokerConfig.sluicegate_proxy_header_timeout_ms.default / 1000
    tls_handshakes_max: int = BrokerConfig.sluicegate_tls_handshakes_max.default
    tls_handshake_timeout_s: float = BrokerConfig.sluicegate_tls_handshake_timeout_ms.default / 1000
    frame_receive_timeout_s: float = BrokerConfig.sluicegate_frame_receive_timeout_ms.default / 1000
    connection_turn_requests: int = BrokerConfig.sluicegate_connection_turn_requests_max.default
    connection_turn_s: float = BrokerConfig.sluicegate_connection_turn_max_us.default / 1_000_000
    """After this many requests, or this time, other connections are served."""
    turn_s: float = BrokerConfig.sluicegate_network_turn_max_us.default / 1_000_000
    """After this time the event loop does its other work."""
    push_max_bytes: int = BrokerConfig.sluicegate_connection_push_max_bytes.default
    closed_observers_max: int = BrokerConfig.sluicegate_connection_observers_max.default
    accepts_per_wakeup: int = 8
    """New connections accepted before the existing ones are served: 16 is 2 % faster, but makes them wait longer."""
    accept_yield_s: float = 0.002
    """Pause of an acceptor after each pass while established clients are busy.

    A storm then takes a bounded share of the loop and of the machine, and their requests do not queue behind it (the
    aim of KIP-402, part 1).
    """
    established_after_s: float = 1.0
    """Age from which a connection counts as established."""
    accept_error_pause_s: float = 0.1
    log_interval_s: float = 10.0


@dataclass(frozen=True, slots=True)
class ClientLimits:
    """Limits of one outgoing connection: bytes of a response, pending requests, seconds for connecting."""

    response_bytes_max: int
    in_flight_max: int
    connect_timeout_s: float
