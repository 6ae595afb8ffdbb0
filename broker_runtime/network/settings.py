"""Every limit of the network layer, as frozen values; the defaults are those of the configuration keys. Pure.

`broker_runtime.node.limits` derives these from server.properties and dynamic configuration; nothing here parses text.
To change limits, pass a new object to `SocketServer.update_limits`.
"""

from dataclasses import dataclass, field

from broker_runtime.config import BrokerConfig
from connection_limits.settings import QuotaSettings

HEAVY_S = 0.00025
"""Seconds of blocking the event loop after which a connection counts as heavy.

The next request of a heavy connection waits in a queue with those of other heavy connections: connections with short
requests are served before them.
"""


@dataclass(frozen=True, slots=True)
class NetworkLimits:
    """Limits of sockets and frames. A buffer size of -1 leaves the choice to the kernel."""

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
    """Seconds, or after `connection_turn_requests` requests, after which other connections are served."""
    turn_s: float = BrokerConfig.sluicegate_network_turn_max_us.default / 1_000_000
    """Seconds of a pass of connections, after which the event loop does its other work."""
    push_max_bytes: int = BrokerConfig.sluicegate_connection_push_max_bytes.default
    closed_observers_max: int = BrokerConfig.sluicegate_connection_observers_max.default
    accepts_per_wakeup: int = 8
    """Number of new connections accepted before the existing ones are served.

    16 is 2 % faster, but makes them wait longer.
    """
    accept_yield_s: float = 0.002
    """Pause of an acceptor after each pass while established clients are busy, in seconds.

    A storm then takes a bounded share of the loop and of the machine, and requests of established clients do not queue
    behind it (the aim of KIP-402, part 1).
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
