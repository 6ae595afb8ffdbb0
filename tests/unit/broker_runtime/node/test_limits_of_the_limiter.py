"""The names and defaults of `connection_limits` are those of the broker's configuration keys."""

import pytest

from broker_runtime.config import BrokerConfig
from broker_runtime.config.keys.broker import LISTENER_PREFIX
from broker_runtime.metadata.areas.connection_groups import MAX_CONNECTIONS_KEY, OBSERVE_KEY, SHARED_KEY
from broker_runtime.metadata.areas.quotas import IP_RATE_KEY
from connection_limits import keys
from connection_limits.settings import UNLIMITED, IpAction, QuotaSettings, Strategy


@pytest.mark.parametrize(
    ("name", "key"),
    [
        (keys.MAX_CONNECTIONS, BrokerConfig.max_connections),
        (keys.MAX_CONNECTION_CREATION_RATE, BrokerConfig.max_connection_creation_rate),
        (keys.MAX_CONNECTIONS_PER_IP, BrokerConfig.max_connections_per_ip),
        (keys.MAX_CONNECTIONS_PER_IP_OVERRIDES, BrokerConfig.max_connections_per_ip_overrides),
        (keys.MAX_CONNECTION_CREATION_RATE_PER_IP, BrokerConfig.max_connection_creation_rate_per_ip),
        (keys.INTER_BROKER_LISTENER_NAME, BrokerConfig.inter_broker_listener_name),
        (keys.QUOTA_WINDOW_NUM, BrokerConfig.quota_window_num),
        (keys.QUOTA_WINDOW_SIZE_SECONDS, BrokerConfig.quota_window_size_seconds),
        (keys.CONNECTION_QUOTA_STRATEGY, BrokerConfig.connection_quota_strategy),
        (keys.CONNECTION_QUOTA_IP_ACTION, BrokerConfig.connection_quota_ip_action),
        (keys.CONNECTION_QUOTA_ADAPTIVE_P99, BrokerConfig.connection_quota_adaptive_p99_ms),
        (keys.CONNECTION_QUOTA_ADAPTIVE_MIN_RATE, BrokerConfig.connection_quota_adaptive_min_rate),
        (keys.TRACKED_IPS_MAX, BrokerConfig.connection_quota_tracked_ips_max),
        (keys.COUNT_ABANDONED, BrokerConfig.connection_quota_count_abandoned),
    ],
)
def test_a_key_has_its_name(name: str, key: object) -> None:
    assert name == key.name  # type: ignore[attr-defined]


def test_names_of_client_quotas_and_of_listeners_limits() -> None:
    assert (keys.ENTITY_RATE, keys.ENTITY_COUNT) == (IP_RATE_KEY, MAX_CONNECTIONS_KEY)
    assert (keys.SHARED, keys.OBSERVE) == (SHARED_KEY, OBSERVE_KEY)
    assert keys.of_listener("EXTERNAL", keys.MAX_CONNECTIONS) == f"{LISTENER_PREFIX}external.max.connections"


def test_the_defaults_are_those_of_the_keys() -> None:
    config = BrokerConfig
    assert QuotaSettings() == QuotaSettings(
        max_connections=config.max_connections.default,
        max_connection_creation_rate=config.max_connection_creation_rate.default,
        max_connections_per_ip=config.max_connections_per_ip.default,
        max_connection_creation_rate_per_ip=config.max_connection_creation_rate_per_ip.default,
        quota_window_num=config.quota_window_num.default,
        quota_window_size_s=config.quota_window_size_seconds.default,
        strategy=Strategy(config.connection_quota_strategy.default),
        ip_action=IpAction(config.connection_quota_ip_action.default),
        max_tracked_ips=config.connection_quota_tracked_ips_max.default,
        max_delayed_closes=config.connection_quota_delayed_close_max.default,
        count_abandoned=config.connection_quota_count_abandoned.default,
    )
    assert config.max_connections.default == UNLIMITED
