"""What the audit log of each broker has of ten minutes, and what it lacks. Pure."""

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.tables import WINDOW_MINUTES
from audit_pipeline.results.times import begun

_BROKER: Final = ("cluster_id", "broker_id")
_WINDOW: Final = ("window_start", *_BROKER)
_COUNTS: Final = ("events", "gaps", "missing", "holes")
_TIMES: Final = {"first_ts": F.min, "last_ts": F.max, "open_since": F.max}


def coverage(heard_windows: DataFrame, holes: DataFrame, registrations: DataFrame, settled_us: int) -> DataFrame:
    """Return a row for each ten minutes in which a broker has events, or lacks events.

    `holes`: at_us, cluster_id, broker_id, holes, open_since_us. A registered broker without any event has one hole.
    Brokers that were registered before `settled_us` should have landed an event.
    """
    lacking = holes.select(
        F.timestamp_micros("at_us").alias("ts"),
        *_BROKER,
        "holes",
        F.timestamp_micros("open_since_us").alias("open_since"),
    )
    absent = (
        registrations.groupBy(*_BROKER)
        .agg(F.min("first_told").alias("ts"))
        .where(F.unix_micros("ts") < settled_us)
        .join(heard_windows.select(*_BROKER).distinct(), [*_BROKER], how="left_anti")
        .withColumn("holes", F.lit(1))
    )
    without_events = lacking.unionByName(absent, allowMissingColumns=True).withColumn(
        "window_start", begun(F.col("ts"), 60 * WINDOW_MINUTES)
    )
    parts = (_all_columns(frame) for frame in (heard_windows, without_events))
    windows = (
        reduce(DataFrame.unionByName, parts)
        .groupBy(*_WINDOW)
        .agg(
            *(F.sum(name).alias(name) for name in _COUNTS),
            *(aggregate(name).alias(name) for name, aggregate in _TIMES.items()),
        )
    )
    return as_table(windows.withColumn("event_date", F.to_date("window_start")), "coverage")


def _all_columns(frame: DataFrame) -> DataFrame:
    counts = {name: F.col(name) if name in frame.columns else F.lit(0) for name in _COUNTS}
    times = {name: F.col(name) if name in frame.columns else F.lit(None) for name in _TIMES}
    return frame.select(
        *_WINDOW,
        *(count.cast("bigint").alias(name) for name, count in counts.items()),
        *(time.cast("timestamp").alias(name) for name, time in times.items()),
    )
