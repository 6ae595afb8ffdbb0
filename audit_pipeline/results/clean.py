"""Selects the events of some days: other events in their files are left for the days that they belong to. Pure.

Damaged files, and rows with impossible times, were set aside before (sources.catalogue).
"""

from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import EventFrames


def of_days(events: EventFrames, days: Collection[date]) -> EventFrames:
    """Return the rows whose ts is on one of these days, with event_date as an additional column."""
    return EventFrames(*(_of_days(frame, days) for frame in events))


def _of_days(frame: DataFrame, days: Collection[date]) -> DataFrame:
    # Parquet's statistics can be used for the range.
    first = datetime.combine(min(days), time(), UTC)
    after = datetime.combine(max(days) + timedelta(days=1), time(), UTC)
    within = frame.where((F.col("ts") >= F.lit(first)) & (F.col("ts") < F.lit(after)))
    dated = within.withColumn("event_date", F.to_date("ts"))
    is_whole_range = len(set(days)) == (max(days) - min(days)).days + 1
    return dated if is_whole_range else dated.where(F.col("event_date").isin(*sorted(days)))
