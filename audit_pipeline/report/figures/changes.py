"""Differences to the previous stretch of the same length: traffic, errors, times, new and vanished names."""

from dataclasses import dataclass

from audit_pipeline.report.figures.latency import APIS, p99_by_api
from audit_pipeline.report.figures.scope import Scope, within
from audit_pipeline.report.window import Span

NAMES_MAX = 20

_TOTALS = f"""
SELECT coalesce(sum(requests), 0)::BIGINT AS requests, coalesce(sum(errors), 0)::BIGINT AS errors,
  coalesce(sum(request_bytes), 0)::BIGINT AS in_bytes, coalesce(sum(response_bytes), 0)::BIGINT AS out_bytes
FROM traffic
WHERE {within("window_start")} AND dimension = 'cluster' AND NOT is_follower
"""

_NAMES = """
WITH seen AS (
  SELECT cluster_id, name, sum(requests) AS requests,
    bool_or(epoch_us(window_start) >= $from_us) AS is_in_last, bool_or(epoch_us(window_start) < $from_us) AS is_before
  FROM traffic
  WHERE event_date BETWEEN $before_day AND $to_day AND epoch_us(window_start) >= $before_us
    AND epoch_us(window_start) < $to_us AND (epoch_us(window_start) >= $from_us OR epoch_us(window_start) < $until_us)
    AND dimension = $dimension AND name NOT IN ('(none)', '(unknown)') AND NOT is_follower
  GROUP BY cluster_id, name
)
SELECT cluster_id, name, is_in_last FROM seen WHERE is_in_last <> is_before ORDER BY requests DESC, name, cluster_id
"""


@dataclass(frozen=True, slots=True)
class Totals:
    requests: int
    errors: int
    in_bytes: int
    out_bytes: int

    @property
    def error_share(self) -> float:
        return self.errors / self.requests if self.requests else 0.0


@dataclass(frozen=True, slots=True)
class P99:
    api: str
    last_us: int | None
    before_us: int | None


@dataclass(frozen=True, slots=True)
class Named:
    cluster_id: str
    name: str


@dataclass(frozen=True, slots=True)
class Comings:
    """The names of one dimension, such as clients, that are in only one of the two compared periods.

    `new` names are in the last period only, `vanished` names in the one before. Each list begins with the names that
    have most requests, and the totals count the names beyond the list, too.
    """

    dimension: str
    new: tuple[Named, ...]
    new_total: int
    vanished: tuple[Named, ...]
    vanished_total: int


@dataclass(frozen=True, slots=True)
class Changes:
    last: Span
    before: Span
    totals: Totals
    totals_before: Totals
    p99: tuple[P99, ...]
    comings: tuple[Comings, ...]


def changes(scope: Scope) -> Changes | None:
    """Compare the last period with the one before; None if the audit log is too short for that."""
    last, before = scope.windows.last, scope.windows.before
    if last is None or before is None:
        return None
    p99, p99_before = p99_by_api(scope, last), p99_by_api(scope, before)
    return Changes(
        last,
        before,
        _totals(scope, last),
        _totals(scope, before),
        tuple(P99(api, p99.get(api), p99_before.get(api)) for api in APIS if api in p99 or api in p99_before),
        tuple(_comings(scope, dimension, last, before) for dimension in ("principal", "topic")),
    )


def _totals(scope: Scope, span: Span) -> Totals:
    (row,) = scope.ask(_TOTALS, span)
    return Totals(**row)


def _comings(scope: Scope, dimension: str, last: Span, before: Span) -> Comings:
    given = {"before_us": before.from_us, "until_us": before.to_us, "before_day": before.first_day}
    rows = scope.ask(_NAMES, last, dimension=dimension, **given)
    new = [Named(row["cluster_id"], row["name"]) for row in rows if row["is_in_last"]]
    vanished = [Named(row["cluster_id"], row["name"]) for row in rows if not row["is_in_last"]]
    return Comings(dimension, tuple(new[:NAMES_MAX]), len(new), tuple(vanished[:NAMES_MAX]), len(vanished))
