"""What people want to know about limits: for each target the limit in force, the rate now, the share of time blocked.

Pure: from the effective configuration, the `ip` quotas and the metrics of each broker to rows. Limits are each
broker's own, as in Kafka: a listener limit of 50 on three brokers admits 150 a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

UNLIMITED = 2_147_483_647
RATE_KEY = "max.connection.creation.rate"
COUNT_KEY = "max.connections"
DEFAULT_IP_RATE_KEY = "max.connection.creation.rate.per.ip"

_SERVER = "kafka_server_socket_server_"
BROKER_RATE = _SERVER + "broker_connection_accept_rate"
LISTENER_RATE = _SERVER + "connection_accept_rate"
IP_RATE = _SERVER + "ip_connection_accept_rate"
BLOCKED = "kafka_network_acceptor_blocked_percent"
BROKER_COUNT = _SERVER + "broker_connection_count"
LISTENER_COUNT = _SERVER + "connection_count"

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Metrics:
    """One scrape; a series that is not there is None."""

    values: Mapping[tuple[str, Labels], float]

    def value(self, name: str, **labels: str) -> float | None:
        return self.values.get((name, tuple(sorted(labels.items()))))

    def series(self, name: str) -> dict[Labels, float]:
        return {labels: value for (other, labels), value in self.values.items() if other == name}


def parse_metrics(text: str) -> Metrics:
    """Raises ValueError when the text is not in the Prometheus exposition format."""
    return Metrics(
        {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
    )


@dataclass(frozen=True, slots=True)
class BrokerQuotas:
    """What one broker says: the effective values of `quota_keys`, and the ip rates with None for the default."""

    broker_id: int
    listeners: tuple[str, ...]
    configs: Mapping[str, str | None]
    ip_rates: Mapping[str | None, float]
    metrics: Metrics


def quota_keys(listeners: tuple[str, ...]) -> tuple[str, ...]:
    prefixed = (f"listener.name.{name.lower()}.{key}" for name in listeners for key in (RATE_KEY, COUNT_KEY))
    return (RATE_KEY, COUNT_KEY, DEFAULT_IP_RATE_KEY, *prefixed)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """`target` as in ConnectionQuota: `broker`, `listener EXTERNAL`, `ip 127.0.1.7`, `defaultIp`. None is no limit,
    or a figure that the broker does not give (an address that has not come yet, a target without an acceptor).
    """

    broker_id: int
    target: str
    max_rate: float | None
    max_connections: int | None = None
    accept_rate: float | None = None
    connections: int | None = None
    blocked_share: float | None = None


def quota_rows(broker: BrokerQuotas) -> list[QuotaRow]:
    metrics = broker.metrics
    rows = [
        QuotaRow(
            broker.broker_id,
            "broker",
            _limit(broker.configs.get(RATE_KEY)),
            _count(broker.configs.get(COUNT_KEY)),
            metrics.value(BROKER_RATE),
            _whole(metrics.value(BROKER_COUNT)),
        )
    ]
    for name in broker.listeners:
        prefix = f"listener.name.{name.lower()}."
        rows.append(
            QuotaRow(
                broker.broker_id,
                f"listener {name}",
                _limit(broker.configs.get(prefix + RATE_KEY) or broker.configs.get(RATE_KEY)),
                _count(broker.configs.get(prefix + COUNT_KEY) or broker.configs.get(COUNT_KEY)),
                metrics.value(LISTENER_RATE, listener=name),
                _whole(metrics.value(LISTENER_COUNT, listener=name)),
                metrics.value(BLOCKED, listener=name),
            )
        )
    default = broker.ip_rates.get(None) or _limit(broker.configs.get(DEFAULT_IP_RATE_KEY))
    if default is not None:
        rows.append(QuotaRow(broker.broker_id, "defaultIp", default))
    for ip, rate in sorted((ip, rate) for ip, rate in broker.ip_rates.items() if ip is not None):
        rows.append(QuotaRow(broker.broker_id, f"ip {ip}", rate, accept_rate=metrics.value(IP_RATE, ip=ip)))
    return rows


def _limit(text: str | None) -> float | None:
    return None if text is None or float(text) >= UNLIMITED else float(text)


def _count(text: str | None) -> int | None:
    return None if text is None or int(text) >= UNLIMITED else int(text)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
