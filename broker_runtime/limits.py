"""From configuration keys to the network layer's limits. Pure: host names come resolved."""

from collections.abc import Mapping, Sequence

from broker_runtime.config import BrokerSettings
from broker_runtime.config.addresses import canonical_address, per_ip_overrides
from broker_runtime.config.effective import EffectiveConfig
from broker_runtime.network.host_names import HostNames
from broker_runtime.network.settings import IpAction, NetworkLimits, QuotaSettings, Strategy

Addresses = Mapping[str, Sequence[str]]
"""Host name -> all its addresses, in their canonical spelling."""


def override_hosts(effective: EffectiveConfig) -> list[str]:
    """The names in max.connections.per.ip.overrides that are no addresses."""
    names = per_ip_overrides(effective.values["max.connections.per.ip.overrides"])
    return [name for name in names if canonical_address(name) is None]


def quota_settings(settings: BrokerSettings, effective: EffectiveConfig, hosts: Addresses) -> QuotaSettings:
    """`hosts` has the addresses of `override_hosts`; overrides of names that are not in it are left out."""
    return QuotaSettings(
        max_connections=effective.integer("max.connections"),
        max_connection_creation_rate=effective.integer("max.connection.creation.rate"),
        listener_max_connections=effective.per_listener("max.connections"),
        listener_max_connection_creation_rate=effective.per_listener("max.connection.creation.rate"),
        max_connections_per_ip=effective.integer("max.connections.per.ip"),
        max_connections_per_ip_overrides=_overrides(effective, hosts),
        max_connection_creation_rate_per_ip=effective.integer("max.connection.creation.rate.per.ip"),
        inter_broker_listener=settings.inter_broker_listener,
        quota_window_num=settings.integer("quota.window.num"),
        quota_window_size_s=settings.integer("quota.window.size.seconds"),
        strategy=Strategy(settings.text("connection.quota.strategy")),
        ip_action=IpAction(settings.text("connection.quota.ip.action")),
        max_tracked_ips=settings.integer("connection.quota.tracked.ips.max"),
        max_delayed_closes=settings.integer("connection.quota.delayed.close.max"),
    )


def _overrides(effective: EffectiveConfig, hosts: Addresses) -> Mapping[str, int]:
    """An address that stands there itself wins over a name that has it."""
    given = per_ip_overrides(effective.values["max.connections.per.ip.overrides"])
    named = {address: count for host, count in given.items() for address in hosts.get(host, ())}
    return named | {host: count for host, count in given.items() if canonical_address(host) is not None}


def host_names(settings: BrokerSettings) -> HostNames:
    timeout_s = settings.integer("sluicegate.host.resolution.timeout.ms") / 1000
    return HostNames(timeout_s, settings.integer("sluicegate.host.resolution.threads.max"))


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
