"""Name the limit that delays or refuses a connection: its key, and its value when the connection met it. Pure."""

from connection_limits import keys
from connection_limits.accept_decision import AcceptDecision, AcceptOutcome
from connection_limits.listener_quota import OF_LISTENER, ListenerQuota, WaitsFor
from connection_limits.quotas import ConnectionQuotas
from connection_limits.rate_limit import RateLimit
from connection_limits.settings import UNLIMITED, LimitReference, QuotaSettings


def limit_met(quotas: ConnectionQuotas, listener_name: str, decision: AcceptDecision, ip: str) -> LimitReference:
    """Return the limit for which a connection of this address waits, or by which it is refused."""
    if decision.group is not None:
        return _of_group(quotas, decision.group, by_count=decision.outcome is AcceptOutcome.REFUSE_TOO_MANY)
    if decision.outcome is AcceptOutcome.REFUSE_TOO_MANY:
        return _count_of_address(quotas, ip)
    if decision.outcome in (AcceptOutcome.REFUSE_DELAYED, AcceptOutcome.REFUSE_DROPPED):
        return _rate_of_address(quotas, ip)
    return _of_wait(quotas, quotas.listeners[listener_name])


def rate_in_force(quotas: ConnectionQuotas, listener_name: str) -> int | None:
    """Return the highest rate at which the listener accepts new connections, per second; None without a limit.

    An adaptive rate counts as its maximum, and a share as the rate of the cluster. Otherwise each of their changes
    would be reported as another limit.
    """
    listener = quotas.listeners[listener_name]
    rate = listener.rate_limit.highest
    if not listener.protected:
        rate = min(rate, quotas.rate_limit.highest)
    return None if rate >= UNLIMITED else rate


def _of_group(quotas: ConnectionQuotas, name: str, *, by_count: bool) -> LimitReference:
    limits = quotas.addresses.groups.by_name[name].limits
    rate_key = keys.of_cluster(keys.ENTITY_RATE) if limits.cluster_wide else keys.ENTITY_RATE
    key, value = (keys.ENTITY_COUNT, limits.max_connections) if by_count else (rate_key, limits.rate)
    return LimitReference(key, value, f"{keys.CONNECTION_GROUP}={name}", name if "/" in name else None)


def _count_of_address(quotas: ConnectionQuotas, ip: str) -> LimitReference:
    own = quotas.addresses.counts.overrides.get(ip)
    if own is not None:
        return LimitReference(keys.MAX_CONNECTIONS_PER_IP_OVERRIDES, own, f"ip={ip}")
    name = quotas.settings.quota_names.get(keys.MAX_CONNECTIONS_PER_IP)
    return LimitReference(keys.MAX_CONNECTIONS_PER_IP, quotas.settings.max_connections_per_ip, quota=name)


def _rate_of_address(quotas: ConnectionQuotas, ip: str) -> LimitReference:
    rates = quotas.addresses.rates
    value = rates.limit(ip)
    if rates.has_own(ip):
        return LimitReference(keys.ENTITY_RATE, value, f"ip={ip}")
    if rates.since_ms(None) is not None:
        name = quotas.settings.quota_names.get(keys.ENTITY_RATE)
        return LimitReference(keys.ENTITY_RATE, value, f"ip={keys.DEFAULT_ENTITY}", name)
    return LimitReference(keys.MAX_CONNECTION_CREATION_RATE_PER_IP, value)


def _of_wait(quotas: ConnectionQuotas, listener: ListenerQuota) -> LimitReference:
    wait = listener.waiting
    if wait is None:
        raise ValueError(f"listener {listener.name} has no waiting connection")
    key, value = {
        WaitsFor.BROKER_RATE: _of_rate(quotas.rate_limit),
        WaitsFor.LISTENER_RATE: _of_rate(listener.rate_limit),
        WaitsFor.BROKER_CONNECTIONS: (keys.MAX_CONNECTIONS, quotas.settings.max_connections),
        WaitsFor.LISTENER_CONNECTIONS: (keys.MAX_CONNECTIONS, listener.max_connections),
    }[wait.limit]
    is_of_listener = wait.limit in OF_LISTENER
    name = _quota_of(quotas.settings, listener.name if is_of_listener else None, keys.as_configured(key))
    return LimitReference(keys.of_listener(listener.name, key) if is_of_listener else key, value, quota=name)


def _quota_of(settings: QuotaSettings, listener_name: str | None, key: str) -> str | None:
    """Return the ConnectionQuota of a listener's or the broker's limit; a listener without its own has the broker's."""
    counts, rates = settings.listener_max_connections, settings.listener_max_connection_creation_rate
    if listener_name is not None and listener_name in (counts if key == keys.MAX_CONNECTIONS else rates):
        key = keys.of_listener(listener_name, key)
    return settings.quota_names.get(key)


def _of_rate(limit: RateLimit) -> tuple[str, int]:
    """Return the key and the value of a rate: of one that adapts, its objective in milliseconds.

    The value of a rate of the cluster is that of all brokers together.
    """
    if limit.adaptive is not None:
        return keys.CONNECTION_QUOTA_ADAPTIVE_P99, limit.adaptive.bounds.objective_ms
    key = keys.MAX_CONNECTION_CREATION_RATE
    return key if limit.share is None else keys.of_cluster(key), limit.meter.limit
