"""The time range of all figures, and traffic at the grain that fits it."""

from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from audit_pipeline.errors import BadUseError
from audit_pipeline.report.asking import PublishedTables
from audit_pipeline.report.window import DAY_US, MINUTE_US, WINDOW_US, Span, Wanted, Windows, windows
from audit_pipeline.report.words import NAMED_MAX

_COVERED = """
SELECT cluster_id, epoch_us(min(first_ts)) AS from_us, epoch_us(max(last_ts)) + 1 AS to_us,
  count(DISTINCT broker_id) AS brokers
FROM coverage WHERE last_ts IS NOT NULL GROUP BY cluster_id ORDER BY sum(events) DESC, cluster_id
"""

_DAYS = """
SELECT DISTINCT cluster_id, epoch_us(event_date::TIMESTAMP) AS at_us FROM coverage WHERE events > 0
"""

_BY_MINUTES = """
SELECT event_date, minute AS since, cluster_id, is_follower, requests, errors, in_bytes, out_bytes FROM minutes
"""
_BY_WINDOWS = """
SELECT event_date, window_start AS since, cluster_id, is_follower, requests, errors, request_bytes AS in_bytes,
  response_bytes AS out_bytes
FROM traffic WHERE dimension = 'cluster'
"""


def within(time: str) -> str:
    """Return the condition, as SQL for `Scope.ask`, that the time of a row is within the span.

    `time` is the column with the time.
    """
    return f"event_date BETWEEN $from_day AND $to_day AND epoch_us({time}) >= $from_us AND epoch_us({time}) < $to_us"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster of the audit log, from its first event to its last. `days` are the starts of days with events."""

    cluster_id: str
    from_us: int
    to_us: int
    brokers: int
    days: tuple[int, ...]

    def covered_us(self, span: Span) -> int:
        """Return how much of the span is in days with events, in microseconds.

        Nothing is known about other days.
        """
        begin_us, end_us = max(span.from_us, self.from_us), min(span.to_us, self.to_us)
        return sum(max(0, min(end_us, day_us + DAY_US) - max(begin_us, day_us)) for day_us in self.days)


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a report: the tables, the clusters and the times that its queries use.

    The view traffic_by_grain has the traffic of clusters, by ten minutes or by one.
    """

    tables: PublishedTables
    clusters: tuple[Cluster, ...]
    windows: Windows
    wanted: Wanted

    def ask(self, sql: str, span: Span | None = None, **given: Any) -> list[dict[str, Any]]:
        """Run SQL with the limits of the span, by default the span shown.

        These are `$from_us` and `$to_us` (of windows of ten minutes), `$from_day` and `$to_day`. `$since_us` is the
        --from of the report, or 0.
        """
        return self.tables.ask(sql, **{**self._limits(span or self.windows.shown), **given})

    def make(self, sql: str) -> None:
        """Create a view or table with the limits of the span shown."""
        self.tables.make(sql, **self._limits(self.windows.shown))

    def _limits(self, span: Span) -> dict[str, Any]:
        return {
            "from_us": span.from_us - span.from_us % WINDOW_US,
            "to_us": span.to_us,
            "from_day": span.first_day,
            "to_day": span.last_day,
            "since_us": self.wanted.from_us or 0,
            "step_us": self.windows.step_us,
            "coarse_step_us": self.windows.coarse_step_us,
        }


def scope_of(tables: PublishedTables, wanted: Wanted) -> Scope | None:
    """Return the scope of a report; None if the audit log has no event at all.

    Raises BadUseError for a cluster or a time that the audit log does not have.
    """
    if wanted.cluster is not None:
        _restrict(tables, wanted)
    begun: dict[str, list[int]] = defaultdict(list)
    for row in tables.ask(_DAYS):
        begun[row["cluster_id"]].append(row["at_us"])
    clusters = tuple(Cluster(**row, days=tuple(sorted(begun[row["cluster_id"]]))) for row in tables.ask(_COVERED))
    if not clusters:
        return None
    found = windows(min(each.from_us for each in clusters), max(each.to_us for each in clusters) - 1, wanted)
    tables.make(f"CREATE VIEW traffic_by_grain AS {_BY_WINDOWS if found.grain_us > MINUTE_US else _BY_MINUTES}")
    return Scope(tables, clusters, found, wanted)


def _restrict(tables: PublishedTables, wanted: Wanted) -> None:
    known = [row["cluster_id"] for row in tables.ask(_COVERED)]
    chosen = [cluster_id for cluster_id in known if wanted.has_cluster(cluster_id)]
    if known and not chosen:
        more = f", and {len(known) - NAMED_MAX} more" if len(known) > NAMED_MAX else ""
        raise BadUseError(
            f"the results have no cluster {wanted.cluster}: --cluster is one of {', '.join(known[:NAMED_MAX])}{more}, "
            "or the beginning of one and a star"
        )
    tables.restrict(chosen)
