"""Name the limit that a connection has met: where it is set, and its value at that time. Pure."""

from broker_runtime.config import BrokerConfig
from broker_runtime.config.keys.broker import LISTENER_PREFIX
from broker_runtime.network.quotas.accept_decision import AcceptDecision, AcceptOutcome
from broker_runtime.network.quotas.listener_quota import OF_LISTENER, ListenerQuota, WaitsFor
from broker_runtime.network.quotas.quotas import ConnectionQuotas
from broker_runtime.network.settings import GROUP, UNLIMITED, LimitReference

_RATE, _COUNT = "connection_creation_rate", "max_connections"
"""Keys of client quotas."""
_DEFAULT = "<default>"
"""Kafka's name of the default entity."""


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
    """Return how many new connections a second the listener accepts at most; None without a limit."""
    rate = quotas.listeners[listener_name].rate_under(quotas.broker_meter.limit)
    return None if rate >= UNLIMITED else rate


def _of_group(quotas: ConnectionQuotas, name: str, *, by_count: bool) -> LimitReference:
    limits = quotas.addresses.groups.by_name[name].limits
    key, value = (_COUNT, limits.max_connections) if by_count else (_RATE, limits.rate)
    return LimitReference(key, value, f"{GROUP}={name}", name if "/" in name else None)


def _count_of_address(quotas: ConnectionQuotas, ip: str) -> LimitReference:
    own = quotas.addresses.counts.overrides.get(ip)
    if own is not None:
        return LimitReference(BrokerConfig.max_connections_per_ip_overrides.name, own, f"ip={ip}")
    return LimitReference(BrokerConfig.max_connections_per_ip.name, quotas.settings.max_connections_per_ip)


def _rate_of_address(quotas: ConnectionQuotas, ip: str) -> LimitReference:
    rates = quotas.addresses.rates
    value = rates.limit(ip)
    if rates.has_own(ip):
        return LimitReference(_RATE, value, f"ip={ip}")
    if rates.since_ms(None) is not None:
        return LimitReference(_RATE, value, f"ip={_DEFAULT}")
    return LimitReference(BrokerConfig.max_connection_creation_rate_per_ip.name, value)


def _of_wait(quotas: ConnectionQuotas, listener: ListenerQuota) -> LimitReference:
    wait = listener.waiting
    if wait is None:
        raise ValueError(f"listener {listener.name} has no waiting connection")
    key, value = {
        WaitsFor.BROKER_RATE: (BrokerConfig.max_connection_creation_rate.name, quotas.broker_meter.limit),
        WaitsFor.LISTENER_RATE: (BrokerConfig.max_connection_creation_rate.name, listener.meter.limit),
        WaitsFor.BROKER_CONNECTIONS: (BrokerConfig.max_connections.name, quotas.settings.max_connections),
        WaitsFor.LISTENER_CONNECTIONS: (BrokerConfig.max_connections.name, listener.max_connections),
    }[wait.limit]
    return LimitReference(
        f"{LISTENER_PREFIX}{listener.name.lower()}.{key}" if wait.limit in OF_LISTENER else key, value
    )
