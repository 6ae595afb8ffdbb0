"""Which limit a connection has met: the name of its configuration key, or the connection group that has it. Pure."""

from broker_runtime.config import BrokerConfig
from broker_runtime.config.broker import LISTENER_PREFIX
from broker_runtime.network.quotas import AcceptDecision, ConnectionQuotas, Outcome

_GROUP_PREFIX = "connection-group."


def limit_met(quotas: ConnectionQuotas, listener_name: str, decision: AcceptDecision, now_ms: int) -> str:
    """The configuration key of the limit for which a connection of the listener waits, or is refused.

    Of a connection group it is `connection-group.NAME.KEY`, as the group's client quota has the key.
    """
    outcome = decision.outcome
    if decision.group is not None:
        key = "max_connections" if outcome is Outcome.REFUSE_TOO_MANY else "connection_creation_rate"
        return f"{_GROUP_PREFIX}{decision.group}.{key}"
    if outcome is Outcome.REFUSE_TOO_MANY:
        return BrokerConfig.max_connections_per_ip.name
    if outcome in (Outcome.REFUSE_DELAYED, Outcome.REFUSE_DROPPED):
        return BrokerConfig.max_connection_creation_rate_per_ip.name
    listener, settings = quotas.listeners[listener_name], quotas.settings
    own = f"{LISTENER_PREFIX}{listener_name.lower()}."
    if outcome is Outcome.WAIT_FOR_SLOT:
        key = BrokerConfig.max_connections.name
        is_own = listener_name in settings.listener_max_connections and listener.count >= listener.max_connections
    else:
        key = BrokerConfig.max_connection_creation_rate.name
        of_broker = 0 if listener.protected else quotas.broker_meter.throttle_ms(now_ms)
        is_own = (
            listener_name in settings.listener_max_connection_creation_rate
            and listener.meter.throttle_ms(now_ms) >= of_broker
        )
    return own + key if is_own else key
