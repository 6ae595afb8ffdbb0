"""The limits of each broker as rows: the limit in force, the rate now, the share of time blocked, and what was held.

Pure: from the answers to GET /connection-limits and GET /connection-quotas. A limit applies to each broker separately,
as in Kafka: a listener limit of 50 on three brokers admits 150 connections a second.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.planning.layout.cluster_layout import INTERNAL

Json = Mapping[str, Any]
TARGET_ORDER = ("broker", "listener", "group", "defaultIp", "ip")


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """The answers of one broker, with all pages.

    `limits` has those of the broker and its listeners with the default of all addresses; `ips` and `groups` are by
    name.
    """

    broker_id: int
    limits: Json
    ips: Json = field(default_factory=dict)
    groups: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One limit on one broker.

    `target` is as in ConnectionQuota: `broker`, `listener EXTERNAL`, `ip 127.0.1.7`, `defaultIp`, and `group
    NAMESPACE/NAME` for the connection group of a quota. `held`: connections that waited for the limit (broker,
    listener) or were refused by it, since the broker started. None means no limit, or a figure that the broker does not
    report.
    """

    broker_id: int
    target: str
    max_rate: float | None
    max_connections: int | None = None
    accept_rate: float | None = None
    connections: int | None = None
    blocked_share: float | None = None
    held: int | None = None
    bounds: str = ""
    """For a rate that adapts, its minimum and maximum; `max_rate` is the rate now."""


def quota_rows(brokers: Iterable[BrokerLimits]) -> list[QuotaRow]:
    """Return all rows, those of one target together. Raises ValueError if an answer lacks fields."""
    try:
        rows = [row for broker in brokers for row in _rows(broker)]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"the response has no limits: {error!r}") from error
    return sorted(rows, key=lambda row: (TARGET_ORDER.index(row.target.split()[0]), row.target, row.broker_id))


def _rows(broker: BrokerLimits) -> Iterator[QuotaRow]:
    limits = broker.limits
    yield _row(broker.broker_id, "broker", limits["broker"])
    for name, listener in limits["listeners"].items():
        if name != INTERNAL:
            yield _row(broker.broker_id, f"listener {name}", listener)
    if any(limits["default_ip"][key] is not None for key in ("connection_creation_rate", "max_connections")):
        yield _row(broker.broker_id, "defaultIp", limits["default_ip"])
    for ip, limit in broker.ips.items():
        yield _row(broker.broker_id, f"ip {ip}", limit)
    for name, group in broker.groups.items():
        if group["mode"] == "Enforce":
            yield _row(broker.broker_id, f"group {name}", group)


def _row(broker_id: int, target: str, limit: Json) -> QuotaRow:
    return QuotaRow(
        broker_id,
        target,
        limit["connection_creation_rate"],
        limit["max_connections"],
        limit.get("rate"),
        limit.get("connections"),
        limit.get("blocked_share"),
        sum(limit["held"].values()),
        _bounds(limit.get("adaptive")),
    )


def _bounds(adaptive: Json | None) -> str:
    if adaptive is None:
        return ""
    most = "unlimited" if adaptive["max_rate"] is None else adaptive["max_rate"]
    return f"{adaptive['min_rate']} to {most}"
