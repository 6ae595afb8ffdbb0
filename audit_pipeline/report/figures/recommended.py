"""Recommended limits on connections, and what they would have done to clients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit_pipeline.report.figures.scope import Scope
from audit_pipeline.results.arrivals.targets import BESIDE, STORM, USUAL

LIMITS_MAX = 40
CLIENTS_MAX = 20

_LIMITS = f"""
SELECT cluster_id, kind, target, limit_is, from_date::VARCHAR AS from_date, to_date::VARCHAR AS to_date,
  incomplete_windows, connections, rate_p50, rate_p99, rate_p999, burst, epoch_us(burst_at) AS burst_at_us, storms,
  storm_most, storm_least, rate, strategy, is_holding, waiting_connections, tried_connections, why
FROM recommended_limits
ORDER BY cluster_id, kind <> 'listener', limit_is IS DISTINCT FROM 'PerAddress', kind, storm_connections DESC, target
LIMIT {LIMITS_MAX}
"""

_PARTS = """
SELECT cluster_id, kind, target, part, sum(connections)::BIGINT AS connections, sum(accepted)::BIGINT AS accepted,
  sum("delayed")::BIGINT AS "delayed", max(delay_max_us) AS delay_max_us, sum(rejected)::BIGINT AS rejected
FROM tried_limits GROUP BY ALL
"""

_CLIENTS = f"""
SELECT cluster_id, kind, target, part, client_ip, client_id, connections, accepted, "delayed", delay_p99_us,
  delay_max_us, rejected, was_accepted, was_rejected
FROM tried_limits WHERE "delayed" + rejected > 0
ORDER BY part <> 'usual', "delayed" + rejected DESC, cluster_id, kind, target, part, client_ip LIMIT {CLIENTS_MAX}
"""

_NUMBERS = """
SELECT (SELECT count(*) FROM recommended_limits) AS limits_total,
  (SELECT count(*) FROM tried_limits WHERE "delayed" + rejected > 0) AS clients_total
"""


@dataclass(frozen=True, slots=True)
class TriedPart:
    """The outcomes of a limit for its usual connections, for those of storms, or for those beside storms."""

    connections: int = 0
    accepted: int = 0
    delayed: int = 0
    delay_max_us: int | None = None
    rejected: int = 0


NOT_TRIED = TriedPart()


@dataclass(frozen=True, slots=True)
class RecommendedLimit:
    """A row of the table recommended_limits, with the sums of tried_limits by part."""

    cluster_id: str
    kind: str
    target: str
    limit_is: str | None
    from_date: str
    to_date: str
    incomplete_windows: int
    connections: int
    rate_p50: int | None
    rate_p99: int | None
    rate_p999: int | None
    burst: int
    burst_at_us: int | None
    storms: int
    storm_most: int | None
    storm_least: int | None
    rate: int
    strategy: str
    is_holding: bool
    waiting_connections: int
    tried_connections: int
    why: str
    usual: TriedPart
    storm: TriedPart
    beside: TriedPart


@dataclass(frozen=True, slots=True)
class TriedClient:
    """A row of the table tried_limits with connections that the limit would have delayed or rejected."""

    cluster_id: str
    kind: str
    target: str
    part: str
    client_ip: str | None
    client_id: str | None
    connections: int
    accepted: int
    delayed: int
    delay_p99_us: int | None
    delay_max_us: int | None
    rejected: int
    was_accepted: int
    was_rejected: int


@dataclass(frozen=True, slots=True)
class RecommendedLimits:
    """The limits of all days that they were made from, whatever days are shown, and the clients that they concern."""

    limits: tuple[RecommendedLimit, ...]
    limits_total: int
    clients: tuple[TriedClient, ...]
    clients_total: int


def recommended_limits(scope: Scope) -> RecommendedLimits:
    parts = {
        tuple(row.pop(name) for name in ("cluster_id", "kind", "target", "part")): TriedPart(**row)
        for row in scope.ask(_PARTS)
    }

    def part(row: Mapping[str, Any], name: str) -> TriedPart:
        return parts.get((row["cluster_id"], row["kind"], row["target"], name), NOT_TRIED)

    limits = tuple(
        RecommendedLimit(**row, usual=part(row, USUAL), storm=part(row, STORM), beside=part(row, BESIDE))
        for row in scope.ask(_LIMITS)
    )
    (numbers,) = scope.ask(_NUMBERS)
    return RecommendedLimits(
        limits,
        numbers["limits_total"],
        tuple(TriedClient(**row) for row in scope.ask(_CLIENTS)),
        numbers["clients_total"],
    )
