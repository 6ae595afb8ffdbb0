"""What the audit log of each broker has of ten minutes, and which brokers others report as registered. Pure."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import NUMBERED, EventFrames, as_table
from audit_pipeline.results.tables import WINDOW_MINUTES
from audit_pipeline.results.times import begun

_HOUR_S: Final = 3600


def heard_windows(events: EventFrames) -> DataFrame:
    """Count the numbers of events by window, so that each number counts once.

    Rows of partitions are not counted: each has the number of its request. All rows of one interval of the rollup share
    a range of numbers, which counts once.
    """
    intervals = events.rollup.groupBy(*NUMBERED).agg(
        F.min("ts").alias("ts"), F.max(F.col("seq") - F.col("first_seq") + 1).alias("numbers")
    )
    one = F.lit(1)
    counted = [
        _counted(events.request, events=one),
        _counted(events.connection, events=one),
        _counted(events.inventory, events=one),
        _counted(events.change, events=one),
        _counted(events.connection_limit, events=one),
        _counted(intervals, events=F.col("numbers")),
        _counted(events.gap, gaps=one, missing=F.col("events")),
    ]
    event_ts = F.when(F.col("gaps") == 0, F.col("ts"))
    windows = (
        reduce(DataFrame.unionByName, counted)
        .groupBy("event_date", "window_start", "cluster_id", "broker_id")
        .agg(
            F.coalesce(F.min(event_ts), F.min("ts")).alias("first_ts"),
            F.coalesce(F.max(event_ts), F.max("ts")).alias("last_ts"),
            F.sum("events").alias("events"),
            F.sum("gaps").alias("gaps"),
            F.sum("missing").alias("missing"),
        )
    )
    return as_table(windows, "heard_windows")


def _counted(frame: DataFrame, **counts: Column) -> DataFrame:
    all_counts = (counts.get(name, F.lit(0)).cast("bigint").alias(name) for name in ("events", "gaps", "missing"))
    window = begun(F.col("ts"), 60 * WINDOW_MINUTES).alias("window_start")
    return frame.select(F.to_date("ts").alias("event_date"), window, "cluster_id", "broker_id", "ts", *all_counts)


def registrations(inventory: DataFrame) -> DataFrame:
    """Return each broker that an inventory names as registered, with the time of the hour's first such inventory."""
    told = (
        inventory.where(F.col("registered_brokers").isNotNull())
        .groupBy(begun(F.col("ts"), _HOUR_S).alias("hour"), "cluster_id", "registered_brokers")
        .agg(F.min("ts").alias("ts"))
    )
    named = told.withColumn("broker_id", F.explode(F.split("registered_brokers", ",")))
    first = named.groupBy("hour", "cluster_id", "broker_id").agg(F.min("ts").alias("first_told"))
    return as_table(first.withColumn("event_date", F.to_date("hour")), "registrations")
