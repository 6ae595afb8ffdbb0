"""Which client moved how much on which topic, and when."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Scope, within
from audit_pipeline.results.tables import is_own_client

PAIRS_MAX = 20

_PAIRS = f"""
WITH pairs AS (
  SELECT cluster_id, coalesce(client_id, '(none)') AS client_id, topic, window_start,
    sum(in_bytes) AS produced, sum(out_bytes) AS fetched, sum(records) AS records,
    sum(requests) AS requests, sum(errors) AS errors
  FROM usage
  WHERE {within("window_start")} AND topic IS NOT NULL AND NOT is_follower AND NOT {is_own_client("usage.client_id")}
  GROUP BY cluster_id, client_id, topic, window_start
)
SELECT cluster_id, client_id, topic, sum(produced)::BIGINT AS produced_bytes,
  sum(fetched)::BIGINT AS fetched_bytes, sum(records)::BIGINT AS records, sum(requests)::BIGINT AS requests,
  sum(errors)::BIGINT AS errors, epoch_us(min(window_start)) AS first_us, epoch_us(max(window_start)) AS last_us,
  epoch_us(arg_max(window_start, (produced + fetched, window_start))) AS busiest_us,
  count(*) OVER () AS all_pairs, sum(sum(produced) + sum(fetched)) OVER ()::BIGINT AS all_bytes
FROM pairs GROUP BY cluster_id, client_id, topic
ORDER BY produced_bytes + fetched_bytes DESC, client_id, topic, cluster_id LIMIT {PAIRS_MAX}
"""


@dataclass(frozen=True, slots=True)
class Pair:
    """The use of a topic by a client.

    Times are the first, last and busiest window of ten minutes. `records` is None if unknown.
    """

    cluster_id: str
    client_id: str
    topic: str
    produced_bytes: int
    fetched_bytes: int
    records: int | None
    requests: int
    errors: int
    first_us: int
    last_us: int
    busiest_us: int

    @property
    def moved_bytes(self) -> int:
        return self.produced_bytes + self.fetched_bytes


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of topics by clients, those that moved most first.

    `total` is the number of all pairs, `moved_bytes` the bytes of all.
    """

    pairs: tuple[Pair, ...]
    total: int
    moved_bytes: int


def usage(scope: Scope) -> Usage:
    total = moved_bytes = 0
    pairs = []
    for row in scope.ask(_PAIRS):
        total, moved_bytes = row.pop("all_pairs"), row.pop("all_bytes")
        pairs.append(Pair(**row))
    return Usage(tuple(pairs), total, moved_bytes)
