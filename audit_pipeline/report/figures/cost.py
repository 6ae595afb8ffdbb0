"""The cost of the days shown, by principal or client ID, and by topic."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit_pipeline.report.figures.scope import Scope
from audit_pipeline.results.tables import is_own_client, own_principals

NAMES_MAX = 12

_OWN = own_principals("event_date BETWEEN $from_day AND $to_day")
# Floating-point numbers are added in a fixed order: otherwise the last digits of a sum would differ between queries.
_COST = """
SELECT cluster_id, currency, dimension, name,
  coalesce(CASE dimension
    WHEN 'client_id' THEN {is_own}
    WHEN 'principal' THEN (cluster_id, name) IN ({own})
  END, false) AS is_own,
  {quantities},
  sum(amount ORDER BY amount) AS amount
FROM cost WHERE event_date BETWEEN $from_day AND $to_day
GROUP BY cluster_id, currency, dimension, name
ORDER BY cluster_id, currency, dimension, name IS NULL, amount DESC NULLS LAST, ingress + egress DESC, name
""".format(
    is_own=is_own_client("name"),
    own=_OWN,
    quantities=",\n  ".join(
        f"sum(if(resource = '{resource}', quantity, 0))::BIGINT AS {column}"
        for resource, column in {
            "ingress": "ingress",
            "egress": "egress",
            "requests": "requests",
            "storage": "storage",
            "partitions": "partitions",
        }.items()
    ),
)


@dataclass(frozen=True, slots=True)
class CostLine:
    """A line of a bill.

    `names` is the number of names that the line adds up. `name` is None in lines that add up other lines, and in the
    line for unattributed use.

    Quantities have the units of the table cost: bytes, requests, byte-hours, partition-hours.
    """

    name: str | None
    names: int
    ingress: int
    egress: int
    requests: int
    storage: int
    partitions: int
    amount: float | None
    share: float | None


@dataclass(frozen=True, slots=True)
class Bill:
    """The bill of one cluster in one dimension: principal, client_id or topic.

    It has the most expensive names, all others, Sluicegate's own names together, and unattributed use. Shares of these
    add up to 1. `own_lines` are the most expensive own names.
    """

    cluster_id: str
    dimension: str
    currency: str | None
    amount: float | None
    lines: tuple[CostLine, ...]
    others: CostLine | None
    own: CostLine | None
    own_lines: tuple[CostLine, ...]
    unattributed: CostLine | None


@dataclass(frozen=True, slots=True)
class Cost:
    """The bills of all clusters.

    There is a bill by principal, or by client ID if clients have no more than one principal, and a bill by topic.
    """

    bills: tuple[Bill, ...]


def cost(scope: Scope) -> Cost:
    by_cluster: dict[tuple[str, str | None], dict[str, list[dict[str, Any]]]] = {}
    for row in scope.ask(_COST):
        dimensions = by_cluster.setdefault((row.pop("cluster_id"), row.pop("currency")), {})
        dimensions.setdefault(row.pop("dimension"), []).append(row)
    bills = []
    for (cluster_id, currency), dimensions in by_cluster.items():
        principals = sum(row["name"] is not None and not row["is_own"] for row in dimensions.get("principal", ()))
        for dimension in ("principal" if principals > 1 else "client_id", "topic"):
            if rows := dimensions.get(dimension):
                bills.append(_bill(cluster_id, dimension, currency, rows))
    return Cost(tuple(bills))


def _bill(cluster_id: str, dimension: str, currency: str | None, rows: Sequence[dict[str, Any]]) -> Bill:
    known = [row["amount"] for row in rows if row["amount"] is not None]
    amount = sum(known) if known else None
    is_own = [row.pop("is_own") for row in rows]
    lines = [
        CostLine(**row, names=1, share=row["amount"] / amount if amount and row["amount"] is not None else None)
        for row in rows
    ]
    named = [line for line, own in zip(lines, is_own, strict=True) if line.name is not None and not own]
    own = [line for line, is_one in zip(lines, is_own, strict=True) if is_one]
    unattributed = next((line for line in lines if line.name is None), None)
    shown, others = named[:NAMES_MAX], named[NAMES_MAX:]
    return Bill(
        cluster_id,
        dimension,
        currency,
        amount,
        tuple(shown),
        _together(others),
        _together(own),
        tuple(own[:NAMES_MAX]),
        unattributed,
    )


def _together(lines: Sequence[CostLine]) -> CostLine | None:
    if not lines:
        return None
    added = {
        name: sum(getattr(line, name) for line in lines)
        for name in ("names", "ingress", "egress", "requests", "storage", "partitions")
    }
    amounts, shares = [line.amount for line in lines], [line.share for line in lines]
    return replace(lines[0], name=None, **added, amount=_sum(amounts), share=_sum(shares))


def _sum(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
