"""What broke: errors by API, client and topic; steps of the protocol apart."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Scope, within

FAILURES_MAX = 12

_FAILURES = f"""
SELECT cluster_id, error, api, coalesce(client_id, '(none)') AS client_id, topic, is_expected,
  sum(failures)::BIGINT AS failures, epoch_us(min(window_start)) AS first_us, epoch_us(max(window_start)) AS last_us,
  count(*) OVER kind AS all_rows, sum(sum(failures)) OVER kind::BIGINT AS all_failures
FROM failures
WHERE {within("window_start")} AND NOT is_follower
GROUP BY cluster_id, error, api, client_id, topic, is_expected
WINDOW kind AS (PARTITION BY is_expected)
QUALIFY row_number() OVER (
  PARTITION BY is_expected ORDER BY sum(failures) DESC, error, api, client_id, topic, cluster_id
) <= {FAILURES_MAX}
ORDER BY sum(failures) DESC, error, api, client_id, topic, cluster_id
"""


@dataclass(frozen=True, slots=True)
class Failure:
    """An error of a client; `topic` is None if it belongs to none. Times are windows of ten minutes."""

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
    """Failures and steps of the protocol, the most frequent first; totals count all of them."""

    broken: tuple[Failure, ...]
    broken_rows: int
    broken_total: int
    expected: tuple[Failure, ...]
    expected_rows: int
    expected_total: int


def failures(scope: Scope) -> Failures:
    found: dict[bool, list[Failure]] = {False: [], True: []}
    totals = {False: (0, 0), True: (0, 0)}
    for row in scope.ask(_FAILURES):
        of_kind = row.pop("all_rows"), row.pop("all_failures")
        totals[row["is_expected"]] = of_kind
        found[row["is_expected"]].append(Failure(**row))
    return Failures(tuple(found[False]), *totals[False], tuple(found[True]), *totals[True])
