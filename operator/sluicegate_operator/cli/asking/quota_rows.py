"""The limits of each broker as rows: the limit in force, the rate now, the share of time blocked, and what was held.

Pure: from the answers to GET /connection-limits and GET /connection-quotas. A limit applies to each broker separately,
as in Kafka: a listener limit of 50 on three brokers admits 150 connections a second. A limit with scope Cluster admits
50, and its rows have the share of each broker.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sluicegate_operator.planning.layout.cluster_layout import INTERNAL
from sluicegate_operator.quotas.observing.shares import ReportedShare

Json = Mapping[str, Any]
TARGET_ORDER = ("broker", "listener", "group", "defaultIp", "ip")


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """The limits of one broker, from its answers with all their pages.

    `limits` has those of the broker and its listeners with the default of all addresses; `ips` and `groups` are by
    name. `rows` are further rows of this broker, which were read from an earlier answer.
    """

    broker_id: int
    limits: Json
    ips: Json = field(default_factory=dict)
    groups: Json = field(default_factory=dict)
    rows: Sequence["QuotaRow"] = ()


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One connection limit on one broker, as a row of a table for users.

    `target` is as in ConnectionQuota: `broker`, `listener EXTERNAL`, `ip 127.0.1.7`, `defaultIp`, and `group
    NAMESPACE/NAME` for the connection group of a quota. `held`: connections that waited for the limit (broker,
    listener) or were refused by it, since the broker started. None means no limit, or a number that the broker does not
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
    """The minimum and maximum of a rate that adapts; then `max_rate` is the present rate."""
    share: ReportedShare | None = None
    """The broker's share of a rate of the cluster; then `max_rate` is the rate of all brokers together."""


def quota_rows(brokers: Iterable[BrokerLimits]) -> list[QuotaRow]:
    """Return a row for each limit, those of one target together. Raises ValueError if an answer lacks fields."""
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
    yield from broker.rows


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
        ReportedShare.of(limit),
    )


def _bounds(adaptive: Json | None) -> str:
    if adaptive is None:
        return ""
    most = "unlimited" if adaptive["max_rate"] is None else adaptive["max_rate"]
    return f"{adaptive['min_rate']} to {most}"


def share_words(share: ReportedShare) -> str:
    """Describe a share, its state and the age of the controller's last answer: `133.4 of 400 (granted 1s ago)`."""
    age = "" if share.age_s is None else f" {share.age_s:.0f}s ago"
    return f"{share.share:.1f} of {share.rate:.0f} ({share.state}{age})"
