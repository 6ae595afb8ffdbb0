"""Decide which changes of connection quotas a running broker accepts. Pure."""

from collections.abc import Mapping

from broker_runtime.config import BrokerConfig
from broker_runtime.errors import ConfigError
from broker_runtime.network.settings import QuotaSettings


def check_change(old: QuotaSettings, settings: QuotaSettings, listeners: Mapping[str, bool]) -> None:
    """Reject changes that need a restart, and enforce Kafka's rule that a listener's limits are above 0.

    An unchanged limit is not checked: a broker may have been started with 0. `listeners` are the open ones, by name,
    and whether they are protected. Raises ConfigError.
    """
    for key, before, after in (
        (BrokerConfig.quota_window_num.name, old.quota_window_num, settings.quota_window_num),
        (BrokerConfig.quota_window_size_seconds.name, old.quota_window_size_s, settings.quota_window_size_s),
        (BrokerConfig.connection_quota_strategy.name, old.strategy, settings.strategy),
        (BrokerConfig.inter_broker_listener_name.name, old.inter_broker_listener, settings.inter_broker_listener),
    ):
        if before != after:
            raise ConfigError(f"{key}: cannot change while the broker runs; restart it")
    if settings.max_connections_per_ip < 0:
        raise ConfigError("max.connections.per.ip: must be 0 or more")
    for name, protected in listeners.items():
        _check_listener(
            name,
            BrokerConfig.max_connections.name,
            old.max_connections_of(name, protected=protected),
            settings.max_connections_of(name, protected=protected),
        )
        _check_listener(
            name,
            BrokerConfig.max_connection_creation_rate.name,
            old.creation_rate_of(name, protected=protected),
            settings.creation_rate_of(name, protected=protected),
        )


def _check_listener(name: str, key: str, before: int, after: int) -> None:
    if after <= 0 and after != before:
        raise ConfigError(
            f"listener.name.{name.lower()}.{key}: {after} must be 1 or more (without a value of its own the "
            f"listener has the broker's {key})"
        )
