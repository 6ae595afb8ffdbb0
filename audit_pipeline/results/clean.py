"""Events of some days: what else is in the files of these days is left for the days that it belongs to. Pure.

Whole files, and rows with impossible times, were set aside before (sources.catalogue).
"""

from collections.abc import Collection
from datetime import UTC, date, datetime, time, timedelta

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import EventFrames


def of_days(events: EventFrames, days: Collection[date]) -> EventFrames:
    """Rows whose ts is of one of these days, with event_date as one more column."""
    return EventFrames(*(_of_days(frame, days) for frame in events))


def _of_days(frame: DataFrame, days: Collection[date]) -> DataFrame:
    # The range is what Parquet's statistics are asked for.
    first = datetime.combine(min(days), time(), UTC)
    after = datetime.combine(max(days) + timedelta(days=1), time(), UTC)
    within = frame.where((F.col("ts") >= F.lit(first)) & (F.col("ts") < F.lit(after)))
    dated = within.withColumn("event_date", F.to_date("ts"))
    is_whole_range = len(set(days)) == (max(days) - min(days)).days + 1
    return dated if is_whole_range else dated.where(F.col("event_date").isin(*sorted(days)))
