"""Topics by the time since a client last used them."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Scope

TOPICS_MAX = 250
DAY_HOURS, WEEK_HOURS = 24, 7 * 24

_TOPICS = f"""
SELECT cluster_id, topic, partitions, replica_bytes, epoch_us(last_produced) AS last_produced_us,
  epoch_us(last_fetched) AS last_fetched_us, idle_hours, covered_days, incomplete_days, is_spare
FROM idle_topics ORDER BY idle_hours DESC, replica_bytes DESC, topic, cluster_id LIMIT {TOPICS_MAX}
"""

_NUMBERS = f"""
SELECT count(*) AS topics, count(*) FILTER (idle_hours >= {DAY_HOURS}) AS idle_for_a_day,
  count(*) FILTER (idle_hours >= {WEEK_HOURS}) AS idle_for_a_week,
  coalesce(sum(replica_bytes) FILTER (idle_hours >= {DAY_HOURS}), 0)::BIGINT AS idle_for_a_day_bytes,
  coalesce(max(covered_days), 0) AS covered_days, coalesce(max(incomplete_days), 0) AS incomplete_days
FROM idle_topics
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """An idle topic: a row of the table idle_topics."""

    cluster_id: str
    topic: str
    partitions: int
    replica_bytes: int
    last_produced_us: int | None
    last_fetched_us: int | None
    idle_hours: int
    covered_days: int
    incomplete_days: int
    is_spare: bool


@dataclass(frozen=True, slots=True)
class IdleTopics:
    """The idle topics, the longest idle first. The numbers count all `topics`."""

    rows: tuple[Topic, ...]
    topics: int
    idle_for_a_day: int
    idle_for_a_week: int
    idle_for_a_day_bytes: int
    covered_days: int
    incomplete_days: int


def idle_topics(scope: Scope) -> IdleTopics:
    (numbers,) = scope.ask(_NUMBERS)
    return IdleTopics(tuple(Topic(**row) for row in scope.ask(_TOPICS)), **numbers)
