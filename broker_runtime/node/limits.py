"""Convert configuration keys to the network layer's limits. Pure: host names are resolved by the caller."""

from collections.abc import Mapping, Sequence

from broker_runtime.config import BrokerConfig, BrokerSettings
from broker_runtime.config.declaring.addresses import canonical_address, networks, per_ip_overrides
from broker_runtime.config.declaring.quota_names import quota_names
from broker_runtime.config.in_force.effective import EffectiveConfig
from broker_runtime.config.in_force.limit_rules import CLUSTER_SCOPE
from broker_runtime.config.keys.requests import items_overrides
from broker_runtime.errors import ConfigError
from broker_runtime.metadata.areas.connection_groups import CLUSTER_KEY, MAX_CONNECTIONS_KEY, OBSERVE_KEY, SHARED_KEY
from broker_runtime.metadata.areas.quotas import IP_RATE_KEY
from broker_runtime.network.quotas.host_names import HostNames
from broker_runtime.network.settings import ClientLimits, NetworkLimits
from broker_runtime.wire.limits import RequestLimits
from broker_runtime.wire.versions import api_keys
from connection_limits.groups.connection_group import AddressGroupLimits
from connection_limits.settings import UNLIMITED, IpAction, Objective, QuotaSettings, Strategy

_CONTROLLER_RESPONSE_BYTES_MAX = 128 * 1024 * 1024
_FETCH_OVERHEAD_BYTES = 16 * 1024 * 1024
"""Overhead of a follower's fetch response beyond the records: an entry for each of very many partitions."""

Addresses = Mapping[str, Sequence[str]]
"""The addresses of each host name, in canonical spelling."""


def override_hosts(effective: EffectiveConfig) -> list[str]:
    """Return the host names in max.connections.per.ip.overrides."""
    names = per_ip_overrides(effective.config.max_connections_per_ip_overrides)
    return [name for name in names if canonical_address(name) is None]


def quota_settings(settings: BrokerSettings, effective: EffectiveConfig, hosts: Addresses) -> QuotaSettings:
    """Return the connection limits that a broker's configuration sets.

    `hosts` has the addresses of `override_hosts`; overrides of other names are omitted.
    """
    static, in_force = settings.config, effective.config
    return QuotaSettings(
        max_connections=in_force.max_connections,
        max_connection_creation_rate=in_force.max_connection_creation_rate,
        listener_max_connections=effective.per_listener(BrokerConfig.max_connections),
        listener_max_connection_creation_rate=effective.per_listener(BrokerConfig.max_connection_creation_rate),
        objective=_objective(in_force.connection_quota_adaptive_p99_ms, in_force.connection_quota_adaptive_min_rate),
        listener_objectives=_listener_objectives(effective),
        cluster_wide=in_force.connection_quota_scope == CLUSTER_SCOPE,
        cluster_wide_listeners=frozenset(
            listener
            for listener, scope in effective.per_listener(BrokerConfig.connection_quota_scope).items()
            if scope == CLUSTER_SCOPE
        ),
        max_connections_per_ip=in_force.max_connections_per_ip,
        max_connections_per_ip_overrides=_overrides(effective, hosts),
        max_connection_creation_rate_per_ip=in_force.max_connection_creation_rate_per_ip,
        inter_broker_listener=settings.inter_broker_listener,
        quota_window_num=static.quota_window_num,
        quota_window_size_s=static.quota_window_size_seconds,
        strategy=Strategy(static.connection_quota_strategy),
        ip_action=IpAction(static.connection_quota_ip_action),
        max_tracked_ips=static.connection_quota_tracked_ips_max,
        max_delayed_closes=static.connection_quota_delayed_close_max,
        count_abandoned=static.connection_quota_count_abandoned,
        trusted_proxies={
            listener: networks(items)
            for listener, items in effective.per_listener(BrokerConfig.proxy_protocol_trusted).items()
            if items
        },
        quota_names=quota_names(in_force.sluicegate_connection_quota_names),
    )


def _objective(p99_ms: int, min_rate: int) -> Objective | None:
    return Objective(p99_ms, min_rate) if p99_ms else None


def _listener_objectives(effective: EffectiveConfig) -> Mapping[str, Objective]:
    min_rates = effective.per_listener(BrokerConfig.connection_quota_adaptive_min_rate)
    broker_min_rate = effective.config.connection_quota_adaptive_min_rate
    return {
        listener: objective
        for listener, p99_ms in effective.per_listener(BrokerConfig.connection_quota_adaptive_p99_ms).items()
        if (objective := _objective(p99_ms, min_rates.get(listener, broker_min_rate))) is not None
    }


def _overrides(effective: EffectiveConfig, hosts: Addresses) -> Mapping[str, int]:
    """Return the overrides by address. A listed address takes precedence over a name that resolves to it."""
    given = per_ip_overrides(effective.config.max_connections_per_ip_overrides)
    named = {address: count for host, count in given.items() for address in hosts.get(host, ())}
    return named | {host: count for host, count in given.items() if canonical_address(host) is not None}


def group_limits(keys: Mapping[str, float]) -> AddressGroupLimits:
    """Return the limits of a connection group from its client quotas."""
    return AddressGroupLimits(
        int(keys.get(IP_RATE_KEY, UNLIMITED)),
        int(keys.get(MAX_CONNECTIONS_KEY, UNLIMITED)),
        shared=keys.get(SHARED_KEY) == 1,
        observe=keys.get(OBSERVE_KEY) == 1,
        # A controller that does not know the key may have stored it without the other one.
        cluster_wide=keys.get(CLUSTER_KEY) == 1 and keys.get(SHARED_KEY) == 1,
    )


def host_names(settings: BrokerSettings) -> HostNames:
    config = settings.config
    return HostNames(config.sluicegate_host_resolution_timeout_ms / 1000, config.sluicegate_host_resolution_threads_max)


def network_limits(settings: BrokerSettings, quotas: QuotaSettings) -> NetworkLimits:
    config = settings.config
    return NetworkLimits(
        quotas=quotas,
        listen_backlog=config.socket_listen_backlog_size,
        connections_max_idle_ms=config.connections_max_idle_ms,
        max_request_bytes=config.socket_request_max_bytes,
        max_buffered_bytes=config.queued_max_request_bytes,
        receive_buffer_bytes=config.socket_receive_buffer_bytes,
        send_buffer_bytes=config.socket_send_buffer_bytes,
        proxy_header_max_bytes=config.sluicegate_proxy_header_max_bytes,
        proxy_header_timeout_s=config.sluicegate_proxy_header_timeout_ms / 1000,
        tls_handshakes_max=config.sluicegate_tls_handshakes_max,
        tls_handshake_timeout_s=config.sluicegate_tls_handshake_timeout_ms / 1000,
        frame_receive_timeout_s=config.sluicegate_frame_receive_timeout_ms / 1000,
        connection_turn_requests=config.sluicegate_connection_turn_requests_max,
        connection_turn_s=config.sluicegate_connection_turn_max_us / 1_000_000,
        turn_s=config.sluicegate_network_turn_max_us / 1_000_000,
        push_max_bytes=config.sluicegate_connection_push_max_bytes,
        closed_observers_max=config.sluicegate_connection_observers_max,
    )


def request_limits(settings: BrokerSettings) -> RequestLimits:
    """Return the limits of requests. Raises ConfigError for a limit of an unknown API."""
    config = settings.config
    return RequestLimits(
        items_max=config.sluicegate_request_items_max,
        items_max_of=_by_api_key(config.sluicegate_request_items_max_overrides),
        tagged_fields_max=config.sluicegate_request_tagged_fields_max,
        tagged_bytes_max=config.sluicegate_request_tagged_bytes_max,
        bytes_max=config.sluicegate_request_max_bytes,
        response_bytes_max=config.sluicegate_response_max_bytes,
        queued_response_bytes_max=config.sluicegate_queued_max_response_bytes,
    )


def _by_api_key(overrides: tuple[str, ...]) -> Mapping[int, int]:
    keys, given = api_keys(), items_overrides(overrides)
    unknown = sorted(given.keys() - keys.keys())
    if unknown:
        name = BrokerConfig.sluicegate_request_items_max_overrides.name
        raise ConfigError(f"{name}: API {unknown[0]} does not exist; the APIs are {', '.join(sorted(keys))}")
    return {keys[api]: count for api, count in given.items()}


def limits_to_controllers(settings: BrokerSettings) -> ClientLimits:
    config = settings.config
    timeout_s = config.sluicegate_controller_connection_setup_timeout_ms / 1000
    return ClientLimits(_CONTROLLER_RESPONSE_BYTES_MAX, config.controller_request_queue_max, timeout_s)


def limits_to_brokers(settings: BrokerSettings) -> ClientLimits:
    """Return the limits of links to other brokers, which have one request in flight at a time.

    The first batch of a response may be larger than every limit (KIP-74).
    """
    config = settings.config
    largest = max(config.replica_fetch_response_max_bytes, config.socket_request_max_bytes)
    return ClientLimits(largest + _FETCH_OVERHEAD_BYTES, 1, config.socket_connection_setup_timeout_ms / 1000)
