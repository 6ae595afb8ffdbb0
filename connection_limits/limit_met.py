"""Name the limit that delays or refuses a connection: its key, and its value when the connection met it. Pure."""

from connection_limits import keys
from connection_limits.accept_decision import AcceptDecision, AcceptOutcome
from connection_limits.listener_quota import OF_LISTENER, ListenerQuota, WaitsFor
from connection_limits.quotas import ConnectionQuotas
from connection_limits.rate_limit import RateLimit
from connection_limits.settings import UNLIMITED, LimitReference


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
    """Return how many new connections a second the listener accepts at most; None without a limit.

    A rate that adapts counts as its maximum: each of its moves would be a new limit otherwise.
    """
    listener = quotas.listeners[listener_name]
    rate = listener.rate_limit.highest
    if not listener.protected:
        rate = min(rate, quotas.rate_limit.highest)
    return None if rate >= UNLIMITED else rate


def _of_group(quotas: ConnectionQuotas, name: str, *, by_count: bool) -> LimitReference:
    limits = quotas.addresses.groups.by_name[name].limits
    key, value = (keys.ENTITY_COUNT, limits.max_connections) if by_count else (keys.ENTITY_RATE, limits.rate)
    return LimitReference(key, value, f"{keys.CONNECTION_GROUP}={name}", name if "/" in name else None)


def _count_of_address(quotas: ConnectionQuotas, ip: str) -> LimitReference:
    own = quotas.addresses.counts.overrides.get(ip)
    if own is not None:
        return LimitReference(keys.MAX_CONNECTIONS_PER_IP_OVERRIDES, own, f"ip={ip}")
    return LimitReference(keys.MAX_CONNECTIONS_PER_IP, quotas.settings.max_connections_per_ip)


def _rate_of_address(quotas: ConnectionQuotas, ip: str) -> LimitReference:
    rates = quotas.addresses.rates
    value = rates.limit(ip)
    if rates.has_own(ip):
        return LimitReference(keys.ENTITY_RATE, value, f"ip={ip}")
    if rates.since_ms(None) is not None:
        return LimitReference(keys.ENTITY_RATE, value, f"ip={keys.DEFAULT_ENTITY}")
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
    return LimitReference(keys.of_listener(listener.name, key) if wait.limit in OF_LISTENER else key, value)


def _of_rate(limit: RateLimit) -> tuple[str, int]:
    """Return the key and the value of a rate: of one that adapts, its objective in milliseconds."""
    if limit.adaptive is not None:
        return keys.CONNECTION_QUOTA_ADAPTIVE_P99, limit.adaptive.bounds.objective_ms
    return keys.MAX_CONNECTION_CREATION_RATE, limit.meter.limit
