"""What broke: errors by API, client and topic; steps of the protocol apart."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Scope, within
from audit_pipeline.results.tables import is_own_client, own_principals

FAILURES_MAX = 40

_IS_OWN = f"""(
  {is_own_client("client_id")} OR (cluster_id, principal) IN ({own_principals(within("window_start"))})
)"""
_FAILURES = f"""
WITH told AS (
  SELECT *, CASE WHEN {_IS_OWN} THEN 'own' WHEN is_expected THEN 'expected' ELSE 'broken' END AS kind
  FROM failures WHERE {within("window_start")} AND NOT is_follower
)
SELECT cluster_id, error, api, coalesce(client_id, '(none)') AS client_id, topic, is_expected, kind,
  sum(failures)::BIGINT AS failures, epoch_us(min(window_start)) AS first_us, epoch_us(max(window_start)) AS last_us,
  count(*) OVER same AS all_rows, sum(sum(failures)) OVER same::BIGINT AS all_failures
FROM told
GROUP BY cluster_id, error, api, client_id, topic, is_expected, kind
WINDOW same AS (PARTITION BY kind)
QUALIFY row_number() OVER (
  PARTITION BY kind ORDER BY sum(failures) DESC, error, api, client_id, topic, cluster_id
) <= {FAILURES_MAX}
ORDER BY sum(failures) DESC, error, api, client_id, topic, cluster_id
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a client. `topic` is None if the error belongs to no topic. Times are windows of ten minutes."""

    cluster_id: str
    error: str
    api: str
    client_id: str
    topic: str | None
    is_expected: bool
    failures: int
    first_us: int
    last_us: int


@dataclass(frozen=True, slots=True)
class Failures:
    """Failures, and errors that are steps of the protocol, the most frequent first; totals count all of them.

    `own` are both kinds of errors of Sluicegate's own clients, which the other numbers leave out.
    """

    broken: tuple[Failure, ...]
    broken_rows: int
    broken_total: int
    expected: tuple[Failure, ...]
    expected_rows: int
    expected_total: int
    own: tuple[Failure, ...]
    own_rows: int
    own_total: int


def failures(scope: Scope) -> Failures:
    found: dict[str, list[Failure]] = {"broken": [], "expected": [], "own": []}
    totals = dict.fromkeys(found, (0, 0))
    for row in scope.ask(_FAILURES):
        kind = row.pop("kind")
        totals[kind] = row.pop("all_rows"), row.pop("all_failures")
        found[kind].append(Failure(**row))
    broken, expected, own = (tuple(rows) for rows in found.values())
    return Failures(broken, *totals["broken"], expected, *totals["expected"], own, *totals["own"])
