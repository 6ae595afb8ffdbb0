"""Decide which changes of connection quotas a running broker accepts. Pure."""

from collections.abc import Mapping

from connection_limits import keys
from connection_limits.errors import InvalidLimitError
from connection_limits.settings import QuotaSettings


def check_change(old: QuotaSettings, settings: QuotaSettings, listeners: Mapping[str, bool]) -> None:
    """Check a change of the quotas: reject changes that need a restart, and listener limits that are not above 0.

    An unchanged limit is not checked: a broker may have been started with 0. `listeners` are the open ones, by name,
    and whether they are protected. Raises InvalidLimitError.
    """
    for key, before, after in (
        (keys.QUOTA_WINDOW_NUM, old.quota_window_num, settings.quota_window_num),
        (keys.QUOTA_WINDOW_SIZE_SECONDS, old.quota_window_size_s, settings.quota_window_size_s),
        (keys.CONNECTION_QUOTA_STRATEGY, old.strategy, settings.strategy),
        (keys.INTER_BROKER_LISTENER_NAME, old.inter_broker_listener, settings.inter_broker_listener),
    ):
        if before != after:
            raise InvalidLimitError(f"{key}: cannot change while the broker runs; restart it")
    if settings.max_connections_per_ip < 0:
        raise InvalidLimitError(f"{keys.MAX_CONNECTIONS_PER_IP}: must be 0 or more")
    for name, protected in listeners.items():
        _check_listener(
            name,
            keys.MAX_CONNECTIONS,
            old.max_connections_of(name, protected=protected),
            settings.max_connections_of(name, protected=protected),
        )
        _check_listener(
            name,
            keys.MAX_CONNECTION_CREATION_RATE,
            old.creation_rate_of(name, protected=protected),
            settings.creation_rate_of(name, protected=protected),
        )


def _check_listener(name: str, key: str, before: int, after: int) -> None:
    if after <= 0 and after != before:
        raise InvalidLimitError(
            f"{keys.of_listener(name, key)}: {after} must be 1 or more (without a value of its own the "
            f"listener has the broker's {key})"
        )
