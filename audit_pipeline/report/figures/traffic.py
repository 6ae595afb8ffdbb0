"""Traffic over time, and rankings of it. Without followers, except for their sum."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Cluster, Scope, within
from audit_pipeline.report.window import SECOND_US, Span
from audit_pipeline.results.tables import is_own_client

CLUSTERS_MAX = 4
"""Maximum number of clusters with a plot: those with most events."""
TOP_MAX = 10

_WITHIN = within("window_start")

STEPS = f"""
SELECT epoch_us(since) // $step_us * $step_us AS at_us, sum(requests)::BIGINT AS requests,
  sum(errors)::BIGINT AS errors, sum(in_bytes)::BIGINT AS in_bytes, sum(out_bytes)::BIGINT AS out_bytes
FROM traffic_by_grain
WHERE {within("since")} AND NOT is_follower AND ($cluster_id IS NULL OR cluster_id = $cluster_id)
GROUP BY at_us ORDER BY at_us
"""
"""SQL of the requests of a cluster in each step of time, or of all clusters if `$cluster_id` is None."""

_FOLLOWERS = f"""
SELECT coalesce(sum(response_bytes), 0)::BIGINT AS bytes
FROM traffic WHERE {_WITHIN} AND dimension = 'cluster' AND is_follower
"""

_RANKED = f"""
SELECT name, cluster_id, sum(requests)::BIGINT AS requests, sum(errors)::BIGINT AS errors,
  sum({{in_bytes}})::BIGINT AS in_bytes, sum({{out_bytes}})::BIGINT AS out_bytes
FROM traffic WHERE {_WITHIN} AND dimension = $dimension AND NOT is_follower
  AND NOT (dimension = 'client_id' AND {is_own_client("name")})
GROUP BY ALL
"""

_TOP = """
WITH ranked AS ({ranked}), placed AS (
  SELECT *, row_number() OVER (ORDER BY {measure} DESC, name, cluster_id) AS place FROM ranked
)
SELECT any_value(name) FILTER (place <= $most) AS name, any_value(cluster_id) FILTER (place <= $most) AS cluster_id,
  count(*) AS names, sum(requests)::BIGINT AS requests, sum(errors)::BIGINT AS errors,
  sum(in_bytes)::BIGINT AS in_bytes, sum(out_bytes)::BIGINT AS out_bytes
FROM placed GROUP BY least(place, $most + 1) ORDER BY min(place)
"""

RANKINGS = {
    "principal": "in_bytes + out_bytes",
    "topic": "in_bytes + out_bytes",
    "client_id": "in_bytes + out_bytes",
    "address_group": "in_bytes + out_bytes",
    "api": "requests",
}
"""The ranked dimensions, each with its measure."""


@dataclass(frozen=True, slots=True)
class Point:
    """The traffic of clients in one step of a plot's time axis.

    The audit log covers `covered_us` of the step: only a part at its ends, 0 in days without events.
    """

    at_us: int
    covered_us: int
    requests: int
    errors: int
    in_bytes: int
    out_bytes: int

    def per_second(self, number: int) -> float | None:
        """Return a number as a rate per second; None if the audit log does not cover the step."""
        return number * SECOND_US / self.covered_us if self.covered_us else None


@dataclass(frozen=True, slots=True)
class ClusterTraffic:
    cluster_id: str
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row of a ranking of clients or topics by traffic.

    `names` is the number of names that the row adds up. `name` and `cluster_id` are None in the last row, which adds up
    the names that have no row.
    """

    name: str | None
    cluster_id: str | None
    names: int
    requests: int
    errors: int
    in_bytes: int
    out_bytes: int


@dataclass(frozen=True, slots=True)
class Ranking:
    dimension: str
    measure: str
    rows: tuple[Ranked, ...]


@dataclass(frozen=True, slots=True)
class Traffic:
    """Traffic over time, and the rankings of the most active names.

    Bytes of topics are the bytes of record batches. All other bytes are the bytes of requests and responses.
    """

    clusters: tuple[ClusterTraffic, ...]
    clusters_left_out: int
    rankings: tuple[Ranking, ...]
    follower_bytes: int


def traffic(scope: Scope) -> Traffic:
    drawn = scope.clusters[:CLUSTERS_MAX]
    (followers,) = scope.ask(_FOLLOWERS)
    return Traffic(
        clusters=tuple(ClusterTraffic(cluster.cluster_id, _points(scope, cluster)) for cluster in drawn),
        clusters_left_out=len(scope.clusters) - len(drawn),
        rankings=tuple(_ranking(scope, dimension, measure) for dimension, measure in RANKINGS.items()),
        follower_bytes=followers["bytes"],
    )


def _points(scope: Scope, cluster: Cluster) -> tuple[Point, ...]:
    """Return each covered step of the time shown, including those without requests."""
    step_us = scope.windows.step_us
    found = {row["at_us"]: row for row in scope.ask(STEPS, cluster_id=cluster.cluster_id)}
    begin_us = max(cluster.from_us, scope.windows.shown.from_us)
    points = []
    for at_us in range(begin_us - begin_us % step_us, cluster.to_us, step_us):
        row = found.get(at_us, {"requests": 0, "errors": 0, "in_bytes": 0, "out_bytes": 0})
        covered_us = cluster.covered_us(Span(max(at_us, begin_us), at_us + step_us))
        points.append(Point(**{"at_us": at_us, **row}, covered_us=covered_us))
    return tuple(points)


def _ranking(scope: Scope, dimension: str, measure: str) -> Ranking:
    is_topic = dimension == "topic"
    bytes_in, bytes_out = ("produced_bytes", "fetched_bytes") if is_topic else ("request_bytes", "response_bytes")
    sql = _TOP.format(ranked=_RANKED.format(in_bytes=bytes_in, out_bytes=bytes_out), measure=measure)
    rows = scope.ask(sql, dimension=dimension, most=TOP_MAX)
    return Ranking(dimension, measure, tuple(Ranked(**row) for row in rows))
