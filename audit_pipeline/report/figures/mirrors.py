"""Whether mirrors have everything that was produced: by mirror and topic, and where records are lost."""

from dataclasses import dataclass

from audit_pipeline.report.figures.scope import Scope

TOPICS_MAX = 40
LOSSES_MAX = 20

_TOPICS = """
SELECT mirror, topic, count(*) AS buckets, count(*) FILTER (status = 'complete') AS complete,
  count(*) FILTER (status = 'lagging') AS lagging, count(*) FILTER (status = 'loss') AS loss,
  count(*) FILTER (status = 'surplus') AS surplus, count(*) FILTER (NOT is_certain) AS uncertain,
  sum(produced_ending)::BIGINT AS produced, sum(mirrored_ending)::BIGINT AS mirrored,
  coalesce(sum(missing) FILTER (status = 'loss'), 0)::BIGINT AS lost,
  coalesce(sum(missing) FILTER (status = 'lagging'), 0)::BIGINT AS behind
FROM correctness WHERE epoch_us(bucket) < $to_us AND bucket >= $from_day::DATE
GROUP BY mirror, topic ORDER BY lost DESC, behind DESC, loss DESC, surplus DESC, produced DESC, mirror, topic
"""

_LOSSES = """
SELECT mirror, topic, epoch_us(bucket) AS bucket_us, produced_min, mirrored_max, missing, is_certain
FROM correctness WHERE status = 'loss' AND epoch_us(bucket) < $to_us AND bucket >= $from_day::DATE
ORDER BY missing DESC, bucket DESC, mirror, topic
"""


@dataclass(frozen=True, slots=True)
class MirroredTopic:
    """A topic that a mirror copies.

    It has numbers of ten-minute buckets by status, and of records; `lost` and `behind` are lower bounds.
    """

    mirror: str
    topic: str
    buckets: int
    complete: int
    lagging: int
    loss: int
    surplus: int
    uncertain: int
    produced: int
    mirrored: int
    lost: int
    behind: int


@dataclass(frozen=True, slots=True)
class Loss:
    mirror: str
    topic: str
    bucket_us: int
    produced_min: int
    mirrored_max: int
    missing: int
    is_certain: bool


@dataclass(frozen=True, slots=True)
class Mirrors:
    """The mirrored topics and the losses, the worst first."""

    topics: tuple[MirroredTopic, ...]
    topics_total: int
    losses: tuple[Loss, ...]
    losses_total: int
    lost: int
    behind: int


def mirrors(scope: Scope) -> Mirrors:
    topics = [MirroredTopic(**row) for row in scope.ask(_TOPICS)]
    losses = scope.ask(_LOSSES)
    return Mirrors(
        tuple(topics[:TOPICS_MAX]),
        len(topics),
        tuple(Loss(**row) for row in losses[:LOSSES_MAX]),
        len(losses),
        sum(topic.lost for topic in topics),
        sum(topic.behind for topic in topics),
    )
