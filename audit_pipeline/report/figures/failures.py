"""What broke: errors by API, client and topic; steps of the protocol apart."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Scope

FAILURES_MAX = 12

_FAILURES = """
SELECT cluster_id, error, api, coalesce(client_id, '(none)') AS client_id, topic, is_expected,
  sum(failures)::BIGINT AS failures, epoch_us(min(window_start)) AS first_us, epoch_us(max(window_start)) AS last_us
FROM failures
WHERE event_date BETWEEN $from_day AND $to_day AND epoch_us(window_start) >= $from_us
  AND epoch_us(window_start) < $to_us AND NOT is_follower
GROUP BY ALL ORDER BY failures DESC, error, api, client_id, topic, cluster_id
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
    found = [Failure(**row) for row in scope.ask(_FAILURES)]
    broken = [failure for failure in found if not failure.is_expected]
    expected = [failure for failure in found if failure.is_expected]
    return Failures(
        tuple(broken[:FAILURES_MAX]),
        len(broken),
        sum(failure.failures for failure in broken),
        tuple(expected[:FAILURES_MAX]),
        len(expected),
        sum(failure.failures for failure in expected),
    )
