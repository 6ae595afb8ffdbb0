"""The cost of the days shown, by principal."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from audit_pipeline.report.figures.scope import Scope

PRINCIPALS_MAX = 12

# Floating-point numbers are added in a fixed order: otherwise the last digits of a sum would differ between queries.
_COST = """
SELECT cluster_id, currency, principal,
  {quantities},
  sum(amount ORDER BY amount) AS amount
FROM cost WHERE event_date BETWEEN $from_day AND $to_day
GROUP BY cluster_id, currency, principal
ORDER BY cluster_id, currency, principal IS NULL, amount DESC NULLS LAST, ingress + egress DESC, principal
""".format(
    quantities=",\n  ".join(
        f"sum(if(resource = '{resource}', quantity, 0))::BIGINT AS {column}"
        for resource, column in {
            "ingress": "ingress",
            "egress": "egress",
            "requests": "requests",
            "storage": "storage",
            "partitions": "partitions",
        }.items()
    )
)


@dataclass(frozen=True, slots=True)
class CostLine:
    """`principal` is None in the line for unattributed use, and in the line for the `principals` others together.

    Quantities have the units of the table cost: bytes, requests, byte-hours, partition-hours.
    """

    principal: str | None
    principals: int
    ingress: int
    egress: int
    requests: int
    storage: int
    partitions: int
    amount: float | None
    share: float | None


@dataclass(frozen=True, slots=True)
class Bill:
    """The bill of one cluster: the most expensive principals, all others, and unattributed use. Shares add up to 1."""

    cluster_id: str
    currency: str | None
    amount: float | None
    lines: tuple[CostLine, ...]
    others: CostLine | None
    unattributed: CostLine | None


@dataclass(frozen=True, slots=True)
class Cost:
    bills: tuple[Bill, ...]


def cost(scope: Scope) -> Cost:
    by_bill: dict[tuple[str, str | None], list[dict[str, Any]]] = {}
    for row in scope.ask(_COST):
        by_bill.setdefault((row.pop("cluster_id"), row.pop("currency")), []).append(row)
    return Cost(tuple(_bill(cluster_id, currency, rows) for (cluster_id, currency), rows in by_bill.items()))


def _bill(cluster_id: str, currency: str | None, rows: Sequence[dict[str, Any]]) -> Bill:
    known = [row["amount"] for row in rows if row["amount"] is not None]
    amount = sum(known) if known else None
    lines = [
        CostLine(**row, principals=1, share=row["amount"] / amount if amount and row["amount"] is not None else None)
        for row in rows
    ]
    named = [line for line in lines if line.principal is not None]
    unattributed = next((line for line in lines if line.principal is None), None)
    shown, others = named[:PRINCIPALS_MAX], named[PRINCIPALS_MAX:]
    return Bill(cluster_id, currency, amount, tuple(shown), _together(others) if others else None, unattributed)


def _together(lines: Sequence[CostLine]) -> CostLine:
    added = {
        name: sum(getattr(line, name) for line in lines)
        for name in ("principals", "ingress", "egress", "requests", "storage", "partitions")
    }
    amounts, shares = [line.amount for line in lines], [line.share for line in lines]
    return replace(lines[0], principal=None, **added, amount=_sum(amounts), share=_sum(shares))


def _sum(numbers: Sequence[float | None]) -> float | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
