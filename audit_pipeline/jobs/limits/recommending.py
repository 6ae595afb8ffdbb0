"""The step of a build that recommends limits: the tables recommended_limits and tried_limits. Shell.

    connections by second, storms -> parts -> demand of each target on each broker -> suggestions
    -> times at which a connection may wait under them -> replay of these times -> counts by client

The suggestions are few, and the driver has them. The replay reads events again, but only those of these times.
"""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.sql.types import LongType, StringType, StructType

from audit_pipeline.jobs.computing import Frames
from audit_pipeline.jobs.limits.series_demands import demands_of
from audit_pipeline.jobs.limits.trials import chosen_spans, replayed, tried_connections, tried_limits
from audit_pipeline.recommend.demand import Demand
from audit_pipeline.recommend.suggestion import STRATEGY, LimitTarget, SeenStorms, Suggestion, suggested
from audit_pipeline.results.arrivals.arrival_parts import arrival_parts, recent_days, storm_runs, storm_seconds
from audit_pipeline.results.arrivals.target_seconds import (
    by_address,
    demands_of_every_address,
    every_address,
    storm_tens,
    target_seconds,
)
from audit_pipeline.results.arrivals.targets import CIDR, EVERY, PER_ADDRESS, SHARED
from audit_pipeline.results.arrivals.waits import counted_spans, wait_spans, waiting_seconds
from audit_pipeline.results.frames import result_schema
from audit_pipeline.results.tables import WINDOW_MINUTES
from audit_pipeline.sources.local_frame import local_frame

log = logging.getLogger(__name__)

INPUTS: Final = ("connection_seconds", "storms", "coverage", "heard_windows")
"""The tables that recommendations are made from, beside the events that they are tried on."""
_HOUR_S: Final = 3600
_RATE: Final = (
    StructType()
    .add("cluster_id", StringType(), nullable=False)
    .add("kind", StringType(), nullable=False)
    .add("target", StringType(), nullable=False)
    .add("rate", LongType(), nullable=False)
)

ConnectionsOf = Callable[[Collection[int]], DataFrame]
"""Returns the connection events of some hours, as far as the source still has them."""


@dataclass(frozen=True, slots=True)
class _Days:
    """The days of a cluster that its suggestions are made from, and the ten minutes of them that lack events."""

    first: Any
    last: Any
    incomplete: int


def recommended(spark: SparkSession, stored: Frames, connections_of: ConnectionsOf) -> Frames:
    """Return the tables. `stored` has INPUTS."""
    of_storms = storm_seconds(stored["connection_seconds"], stored["storms"]).persist()
    parts = arrival_parts(stored["connection_seconds"], of_storms).persist()
    days = _days(stored)
    try:
        return _recommended(spark, stored, parts, of_storms, connections_of, days)
    finally:
        parts.unpersist()
        of_storms.unpersist()


def _recommended(
    spark: SparkSession,
    stored: Frames,
    parts: DataFrame,
    of_storms: DataFrame,
    connections_of: ConnectionsOf,
    days: Mapping[str, _Days],
) -> Frames:
    addresses = by_address(parts)
    series, every = target_seconds(parts, addresses), every_address(addresses)
    covered = F.broadcast(_covered(stored))
    with_time = series.join(covered, ["cluster_id", "broker_id"], how="left").persist()
    suggestions = _suggestions(with_time, every)
    rates = local_frame(
        spark, _RATE, [(each.target.cluster_id, each.target.kind, each.target.name, each.rate) for each in suggestions]
    )
    seconds = waiting_seconds(with_time, rates).unionByName(waiting_seconds(every, rates, "client_ip"))
    counted = counted_spans(parts, wait_spans(seconds)).collect()
    chosen = chosen_spans(counted)
    waiting: dict[str, int] = defaultdict(int)
    for row in counted:
        waiting[row.cluster_id] += row.connections
    limits: dict[str, dict[LimitTarget, int]] = defaultdict(dict)
    for one in suggestions:
        limits[one.target.cluster_id][one.target] = one.rate
    hours = {hour for span in chosen for hour in range(span.from_s // _HOUR_S - 1, span.to_s // _HOUR_S + 2)}
    runs: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    for row in sorted(storm_runs(of_storms).collect()):
        runs[row.cluster_id, row.listener].append((row.first, row.last))
    found = replayed(spark, connections_of(hours), chosen, limits, runs).localCheckpoint()
    tried = tried_connections(found)
    with_time.unpersist()
    rows = [
        _row(one, days[one.target.cluster_id], waiting[one.target.cluster_id], tried.get(one.target.cluster_id, 0))
        for one in suggestions
    ]
    return {
        "recommended_limits": local_frame(spark, result_schema("recommended_limits"), rows),
        "tried_limits": tried_limits(found),
    }


def _suggestions(series: DataFrame, every: DataFrame) -> list[Suggestion]:
    """Return the suggestion of each target, in the order of clusters, kinds and names."""
    demands: dict[tuple[str, str, str], list[tuple[int, Demand]]] = defaultdict(list)
    for (cluster_id, broker_id, kind, target), found in demands_of(series):
        demands[cluster_id, kind, target].append((broker_id, found))
    for row in demands_of_every_address(every).collect():
        of_address = Demand(row.connections, row.storm_connections, 0, 0, 0, row.burst, row.burst_s, row.needed)
        demands[row.cluster_id, row.kind, row.target].append((row.broker_id, of_address))
    storms = _storms(storm_tens(series).collect()) | _storms(storm_tens(every, "client_ip").collect())
    return [
        suggested(_target(*place), of_brokers, storms.get(place, SeenStorms()))
        for place, of_brokers in sorted(demands.items())
    ]


def _storms(rows: Iterable[Row]) -> dict[tuple[str, str, str], SeenStorms]:
    return {
        (row.cluster_id, row.kind, row.target): SeenStorms(row.storms, row.storm_most, row.storm_least) for row in rows
    }


def _target(cluster_id: str, kind: str, name: str) -> LimitTarget:
    limit_is = None if kind != CIDR else PER_ADDRESS if name in EVERY.values() else SHARED
    return LimitTarget(cluster_id, kind, name, limit_is)


def _covered(stored: Frames) -> DataFrame:
    """Return the seconds of the windows in which each broker has events: cluster_id, broker_id, covered_s."""
    days = F.broadcast(recent_days(stored["connection_seconds"]))
    heard = stored["heard_windows"].where(F.col("events") > 0).join(days, ["cluster_id", "event_date"], how="left_semi")
    windows = heard.groupBy("cluster_id", "broker_id").agg(F.count_distinct("window_start").alias("windows"))
    covered_s = (F.col("windows") * (60 * WINDOW_MINUTES)).alias("covered_s")
    return windows.select("cluster_id", "broker_id", covered_s)


def _days(stored: Frames) -> dict[str, _Days]:
    days = recent_days(stored["connection_seconds"])
    is_lacking = (F.col("missing") > 0) | (F.col("holes") > 0)
    lacking = stored["coverage"].where(is_lacking).select("cluster_id", "event_date", "window_start").distinct()
    rows = (
        days.join(lacking, ["cluster_id", "event_date"], how="left")
        .groupBy("cluster_id")
        .agg(
            F.min("event_date").alias("first"),
            F.max("event_date").alias("last"),
            F.count("window_start").alias("incomplete"),
        )
        .collect()
    )
    return {row.cluster_id: _Days(row.first, row.last, row.incomplete) for row in rows}


def _row(one: Suggestion, days: _Days, waiting: int, tried: int) -> tuple[Any, ...]:
    """Return a row of recommended_limits; no series has the percentiles of every address."""
    target, demand, storms = one.target, one.demand, one.storms
    has_rates = target.limit_is != PER_ADDRESS
    return (
        target.cluster_id,
        target.kind,
        target.name,
        target.limit_is,
        days.first,
        days.last,
        days.incomplete,
        one.brokers,
        demand.connections,
        demand.storm_connections,
        *((demand.rate_p50, demand.rate_p99, demand.rate_p999) if has_rates else (None, None, None)),
        demand.burst,
        datetime.fromtimestamp(demand.burst_s, UTC) if demand.burst else None,
        storms.number,
        storms.most if storms.number else None,
        storms.least if storms.number else None,
        demand.needed,
        one.rate,
        STRATEGY,
        one.is_holding,
        waiting,
        tried,
        one.why,
    )
