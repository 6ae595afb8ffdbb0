"""What the audit log of each broker has of a day, and what it reports as missing. Pure."""

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import NUMBERED, EventFrames, as_table


def coverage(events: EventFrames) -> DataFrame:
    """Count each number once: partitions share that of their request, rows of an interval share theirs."""
    intervals = events.rollup.groupBy(*NUMBERED).agg(
        F.min("ts").alias("ts"), F.max(F.col("seq") - F.col("first_seq") + 1).alias("numbers")
    )
    one = F.lit(1)
    counted = [
        _counted(events.request, events=one),
        _counted(events.connection, events=one),
        _counted(events.inventory, events=one),
        _counted(intervals, events=F.col("numbers")),
        _counted(events.gap, gaps=one, missing=F.col("events")),
    ]
    event_ts = F.when(F.col("gaps") == 0, F.col("ts"))
    days = (
        reduce(DataFrame.unionByName, counted)
        .groupBy("event_date", "cluster_id", "broker_id")
        .agg(
            F.coalesce(F.min(event_ts), F.min("ts")).alias("first_ts"),
            F.coalesce(F.max(event_ts), F.max("ts")).alias("last_ts"),
            F.sum("events").alias("events"),
            F.sum("gaps").alias("gaps"),
            F.sum("missing").alias("missing"),
        )
    )
    return as_table(days, "coverage")


def _counted(frame: DataFrame, **counts: Column) -> DataFrame:
    all_counts = (counts.get(name, F.lit(0)).cast("bigint").alias(name) for name in ("events", "gaps", "missing"))
    return frame.select(F.to_date("ts").alias("event_date"), "cluster_id", "broker_id", "ts", *all_counts)
