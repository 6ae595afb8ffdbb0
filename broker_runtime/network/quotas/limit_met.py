"""Name the limit that a connection has met: its configuration key, or its connection group. Pure."""

from broker_runtime.config import BrokerConfig
from broker_runtime.config.keys.broker import LISTENER_PREFIX
from broker_runtime.network.quotas.accept_decision import AcceptDecision, AcceptOutcome
from broker_runtime.network.quotas.listener_quota import OF_LISTENER, WaitsFor
from broker_runtime.network.quotas.quotas import ConnectionQuotas

_GROUP_PREFIX = "connection-group."


def limit_met(quotas: ConnectionQuotas, listener_name: str, decision: AcceptDecision) -> str:
    """Return the configuration key of the limit for which a connection of the listener waits, or is refused.

    For a connection group, return `connection-group.NAME.KEY`, where KEY is that of the group's client quota.
    """
    outcome = decision.outcome
    if decision.group is not None:
        key = "max_connections" if outcome is AcceptOutcome.REFUSE_TOO_MANY else "connection_creation_rate"
        return f"{_GROUP_PREFIX}{decision.group}.{key}"
    if outcome is AcceptOutcome.REFUSE_TOO_MANY:
        return BrokerConfig.max_connections_per_ip.name
    if outcome in (AcceptOutcome.REFUSE_DELAYED, AcceptOutcome.REFUSE_DROPPED):
        return BrokerConfig.max_connection_creation_rate_per_ip.name
    wait = quotas.listeners[listener_name].waiting
    if wait is None:
        raise ValueError(f"listener {listener_name} has no waiting connection")
    by_rate = wait.limit in (WaitsFor.BROKER_RATE, WaitsFor.LISTENER_RATE)
    key = (BrokerConfig.max_connection_creation_rate if by_rate else BrokerConfig.max_connections).name
    return f"{LISTENER_PREFIX}{listener_name.lower()}.{key}" if wait.limit in OF_LISTENER else key
