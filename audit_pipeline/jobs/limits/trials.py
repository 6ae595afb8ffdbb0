"""Replays recorded connections under the suggested limits, in Spark's tasks: one start of a broker and span each."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import chain, groupby
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from audit_pipeline.reading.recorded_connections import COLUMNS
from audit_pipeline.recommend.trial import Counted, Limits, StormSeconds, tried
from audit_pipeline.results.arrivals.targets import RESERVED
from audit_pipeline.results.arrivals.waits import LEAD_S
from audit_pipeline.results.frames import as_table
from audit_pipeline.results.histogram import percentiles
from audit_pipeline.sources.local_frame import local_frame
from audit_pipeline.what_if.attempts import Outcome, RecordedEvent
from audit_pipeline.what_if.recording import Recording, recording_of

CLIENTS_MAX: Final = 100
"""Addresses of a target and part that have rows of their own; one more row has the others together."""
_SUMS: Final = (
    "connections", "accepted", "delayed", "rejected", "left", "waiting", "was_accepted", "was_delayed", "was_rejected",
)  # fmt: skip
_MOST: Final = ("delay_max_us", "was_delay_max_us")
_ROW: Final = (
    "cluster_id string, kind string, target string, part string, client_ip string, client_id string, "
    + ", ".join(f"{name} bigint" for name in (*_SUMS, *_MOST))
    + ", latency map<smallint,bigint>"
)
_TARGET: Final = ("cluster_id", "kind", "target", "part")
_ADDRESS: Final = (*_TARGET, "client_ip")
_PERCENTS: Final = {"delay_p50_us": 50, "delay_p99_us": 99}
_ALL: Final = ""
"""The kind of rows that count all connections of a span, whatever limits apply to them."""
_US: Final = 1_000_000
_GROUP: Final = ("cluster_id", "broker_id", "boot_id", "span")
_SPAN: Final = (
    StructType()
    .add("span", IntegerType(), nullable=False)
    .add("cluster_id", StringType(), nullable=False)
    .add("broker_id", IntegerType(), nullable=False)
    .add("from_s", LongType(), nullable=False)
    .add("to_s", LongType(), nullable=False)
)
TRIED_MAX: Final = 500_000
"""Connections that a build replays, which takes it about a minute of processor time."""

Counts = tuple[Any, ...]
"""A row of _ROW, or its last columns."""
LimitsOf = Mapping[str, Limits]
"""Suggested limits by cluster."""
StormRuns = Mapping[tuple[str, str], Sequence[tuple[int, int]]]
"""Stretches of seconds that belong to storms, by cluster and listener, in order; the last second is included."""


class WaitSpan(NamedTuple):
    """A time on a broker, in seconds since 1970; `to_s` is excluded."""

    cluster_id: str
    broker_id: int
    from_s: int
    to_s: int


def chosen_spans(counted: Iterable[Row]) -> list[WaitSpan]:
    """Return the spans to replay: those with most connections first, up to TRIED_MAX connections together.

    `counted` are the rows of counted_spans.
    """
    left, chosen = TRIED_MAX, []
    for row in sorted(
        counted, key=lambda row: (-row["connections"], row["cluster_id"], row["broker_id"], row["from_s"])
    ):
        if 0 < row["tried"] <= left:
            left -= row["tried"]
            chosen.append(WaitSpan(row["cluster_id"], row["broker_id"], row["from_s"], row["until_s"]))
    return sorted(chosen)


def replayed(
    spark: SparkSession, connection: DataFrame, spans: Sequence[WaitSpan], limits: LimitsOf, storms: StormRuns
) -> DataFrame:
    """Return the counts of each start of a broker and span, for `tried_limits` and `tried_connections`.

    Events before version 1.3 have no times of decisions, and are left out.
    """
    wanted = local_frame(spark, _SPAN, [(number, *span) for number, span in enumerate(spans)])
    ts = F.unix_seconds("ts")
    is_near = (ts >= F.col("from_s") - LEAD_S) & (ts < F.col("to_s") + LEAD_S)
    known = connection.where(F.col("decided_us").isNotNull() & ~F.col("listener").isin(*RESERVED))
    near = known.join(F.broadcast(wanted), ["cluster_id", "broker_id"]).where(is_near)
    events = near.select(*_GROUP, "from_s", "to_s", F.unix_micros("ts").alias("wall_us"), *COLUMNS)
    # A row is an event, in the order in which RecordedEvent has it: tasks need no package beside this one.
    ordered = events.repartition(*_GROUP).sortWithinPartitions(*_GROUP, "seq")
    return spark.createDataFrame(ordered.rdd.mapPartitions(_replay(limits, storms)), _ROW, verifySchema=False)


def tried_connections(found: DataFrame) -> dict[str, int]:
    """Return how many connections were replayed, by cluster."""
    rows = found.where(F.col("kind") == _ALL).groupBy("cluster_id").agg(F.sum("connections").alias("n")).collect()
    return {row.cluster_id: row.n for row in rows}


def tried_limits(found: DataFrame) -> DataFrame:
    """Return the counts by target, part and client: the table tried_limits."""
    rows = found.where(F.col("kind") != _ALL)
    order = (F.desc(F.sum("delayed") + F.sum("rejected")), F.desc(F.sum("connections")), F.col("client_ip"))
    place = F.row_number().over(Window.partitionBy(*_TARGET).orderBy(*order))
    places = rows.groupBy(*_ADDRESS).agg(place.alias("place"))
    is_shown = F.col("place") <= CLIENTS_MAX
    shown = rows.join(places, [*_ADDRESS]).withColumns(
        {name: F.when(is_shown, F.col(name)) for name in ("client_ip", "client_id")}
    )
    counted = shown.groupBy(*_ADDRESS).agg(
        F.max_by("client_id", F.struct("connections", "client_id")).alias("client_id"),
        *(F.sum(name).alias(name) for name in _SUMS),
        *(F.nullif(F.max(name), F.lit(0)).alias(name) for name in _MOST),
    )
    delays = percentiles(shown, _ADDRESS, _PERCENTS).drop("requests").alias("delays")
    is_same = reduce(
        Column.__and__, (F.col(f"counted.{name}").eqNullSafe(F.col(f"delays.{name}")) for name in _ADDRESS)
    )
    joined = counted.alias("counted").join(delays, is_same, how="left")
    return as_table(joined.select("counted.*", *(f"delays.{name}" for name in _PERCENTS)), "tried_limits")


def _replay(limits: LimitsOf, storms: StormRuns) -> Callable[[Iterable[Row]], Iterator[Counts]]:
    limits, storms = dict(limits), dict(storms)

    def replay(rows: Iterable[Row]) -> Iterator[Counts]:
        for _, group in groupby(rows, key=lambda row: tuple(row[name] for name in _GROUP)):
            yield from of_group(group)

    def of_group(group: Iterator[Row]) -> Iterator[Counts]:
        first = next(group)
        cluster_id, span_us = first["cluster_id"], (first["from_s"] * _US, first["to_s"] * _US)
        recording = recording_of(map(_event, chain((first,), group)))
        here = {listener: runs for (cluster, listener), runs in storms.items() if cluster == cluster_id}
        yield (cluster_id, *_all_connections(recording, *span_us))
        for found in tried(recording, limits.get(cluster_id, {}), _in_runs(here), *span_us):
            yield (cluster_id, *found[:5], *_counts(found.replayed, found.recorded))

    return replay


def _event(row: Row) -> RecordedEvent:
    return RecordedEvent._make((*(row[name] for name in COLUMNS), row["wall_us"]))


def _all_connections(recording: Recording, from_us: int, to_us: int) -> Counts:
    """Return the row that counts the connections of the span."""
    count = sum(
        from_us <= attempt.wall_us < to_us and attempt.recorded.outcome in (Outcome.ACCEPTED, Outcome.REJECTED)
        for attempt in recording.attempts
    )
    _, *others = _counts(Counted(), Counted())
    return (_ALL, _ALL, _ALL, "", None, count, *others)


def _in_runs(runs: Mapping[str, Sequence[tuple[int, int]]]) -> StormSeconds:
    starts = {listener: [first for first, _ in found] for listener, found in runs.items()}

    def is_storm(listener: str, second: int) -> bool:
        place = bisect_right(starts.get(listener, ()), second)
        return place > 0 and second <= runs[listener][place - 1][1]

    return is_storm


def _counts(replayed: Counted, recorded: Counted) -> Counts:
    """Return the columns of _SUMS and _MOST, and the histogram of the delays in the replay."""
    outcomes, was = replayed.outcomes, recorded.outcomes
    return (
        sum(outcomes.values()),
        outcomes[Outcome.ACCEPTED],
        sum(replayed.delays.values()),
        outcomes[Outcome.REJECTED],
        outcomes[Outcome.LEFT],
        outcomes[Outcome.WAITING],
        was[Outcome.ACCEPTED],
        sum(recorded.delays.values()),
        was[Outcome.REJECTED],
        replayed.delay_max_us,
        recorded.delay_max_us,
        replayed.delays,
    )
