"""Selects the events of some hours: other events in their files are left for the hours that they belong to. Pure.

Damaged files, and rows with impossible times, were set aside before (sources.catalogue).
"""

from collections.abc import Collection
from datetime import timedelta
from functools import reduce
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.hours import runs, start_of
from audit_pipeline.results.frames import EventFrames

NO_TIME: Final = timedelta()


def of_hours(
    events: EventFrames, hours: Collection[int], before: timedelta = NO_TIME, after: timedelta = NO_TIME
) -> EventFrames:
    """Return the rows whose ts is in one of these hours, with event_date as an additional column.

    Rows of `before` the start and `after` the end of each run of hours are returned, too.
    """
    is_within = in_hours(F.col("ts"), hours, before, after)
    return EventFrames(*(frame.where(is_within).withColumn("event_date", F.to_date("ts")) for frame in events))


def in_hours(ts: Column, hours: Collection[int], before: timedelta = NO_TIME, after: timedelta = NO_TIME) -> Column:
    """Return the condition that a time is in one of these hours. Parquet's statistics can be used for the ranges."""
    ranges = ((start_of(first) - before, start_of(end) + after) for first, end in runs(hours))
    return reduce(Column.__or__, ((ts >= F.lit(first)) & (ts < F.lit(end)) for first, end in ranges))
