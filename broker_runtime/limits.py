"""From configuration keys to the network layer's limits. Pure: host names come resolved."""

from collections.abc import Mapping
from ipaddress import ip_address

from broker_runtime.config import BrokerSettings, Value
from broker_runtime.config.effective import EffectiveConfig
from broker_runtime.errors import ConfigError
from broker_runtime.network.settings import IpAction, NetworkLimits, QuotaSettings, Strategy


def quota_settings(settings: BrokerSettings, effective: EffectiveConfig, hosts: Mapping[str, str]) -> QuotaSettings:
    """`hosts` maps host names of max.connections.per.ip.overrides to addresses; unknown names are left out."""
    return QuotaSettings(
        max_connections=effective.integer("max.connections"),
        max_connection_creation_rate=effective.integer("max.connection.creation.rate"),
        listener_max_connections=effective.per_listener("max.connections"),
        listener_max_connection_creation_rate=effective.per_listener("max.connection.creation.rate"),
        max_connections_per_ip=effective.integer("max.connections.per.ip"),
        max_connections_per_ip_overrides={
            hosts.get(host, host): count
            for host, count in per_ip_overrides(effective.values["max.connections.per.ip.overrides"]).items()
            if host in hosts or is_address(host)
        },
        max_connection_creation_rate_per_ip=effective.integer("max.connection.creation.rate.per.ip"),
        inter_broker_listener=settings.inter_broker_listener,
        quota_window_num=settings.integer("quota.window.num"),
        quota_window_size_s=settings.integer("quota.window.size.seconds"),
        strategy=Strategy(settings.text("connection.quota.strategy")),
        ip_action=IpAction(settings.text("connection.quota.ip.action")),
        max_tracked_ips=settings.integer("connection.quota.tracked.ips.max"),
        max_delayed_closes=settings.integer("connection.quota.delayed.close.max"),
    )


def network_limits(settings: BrokerSettings, quotas: QuotaSettings) -> NetworkLimits:
    return NetworkLimits(
        quotas=quotas,
        listen_backlog=settings.integer("socket.listen.backlog.size"),
        connections_max_idle_ms=settings.integer("connections.max.idle.ms"),
        max_request_bytes=settings.integer("socket.request.max.bytes"),
        max_buffered_bytes=settings.integer("queued.max.request.bytes"),
        receive_buffer_bytes=settings.integer("socket.receive.buffer.bytes"),
        send_buffer_bytes=settings.integer("socket.send.buffer.bytes"),
        frame_receive_timeout_s=settings.integer("sluicegate.frame.receive.timeout.ms") / 1000,
        connection_turn_requests=settings.integer("sluicegate.connection.turn.requests.max"),
        connection_turn_s=settings.integer("sluicegate.connection.turn.max.us") / 1_000_000,
        turn_s=settings.integer("sluicegate.network.turn.max.us") / 1_000_000,
    )


def per_ip_overrides(value: Value) -> dict[str, int]:
    """`host:count,host:count`; raises ConfigError for anything else."""
    found = {}
    for item in str(value or "").split(","):
        if not item.strip():
            continue
        host, _, count = item.strip().rpartition(":")
        if not host or not count.isdigit():
            raise ConfigError(f"max.connections.per.ip.overrides: {item.strip()!r} must be host:count")
        found[host.removeprefix("[").removesuffix("]")] = int(count)
    return found


def is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True
