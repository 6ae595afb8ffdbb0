"""The times near storms: only events of these have to be read once the stormy seconds are known. Pure."""

from collections.abc import Collection
from datetime import UTC, datetime
from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.hours import runs
from audit_pipeline.results.storms.storm_bins import TELLING_S
from audit_pipeline.results.storms.storm_requests import BEFORE_MINUTES

_MINUTE_S: Final = 60
_RUNS_MAX: Final = 100
"""With more runs of minutes than this, the whole time from the first to the last one counts as near."""


def stormy_minutes(seconds: DataFrame) -> DataFrame:
    """Return the minutes of `stormy_seconds`, as whole numbers since 1970 in the column `minute`."""
    minute = F.floor(F.unix_seconds("bin") / _MINUTE_S).cast("bigint")
    return seconds.select(minute.alias("minute")).distinct()


def is_near(ts: Column, minutes: Collection[int]) -> Column:
    """Return whether events of this time may belong to storms in these minutes. There must be at least one.

    Requests count from BEFORE_MINUTES before a storm, and clients are told up to TELLING_S after a second. Parquet's
    statistics can be used for the ranges.
    """
    reach = range(-BEFORE_MINUTES, 1 + -(-TELLING_S // _MINUTE_S))
    near = list(runs(minute + distance for minute in minutes for distance in reach))
    if len(near) > _RUNS_MAX:
        near = [(near[0][0], near[-1][1])]
    ranges = ((_at(first), _at(end)) for first, end in near)
    return reduce(Column.__or__, ((ts >= F.lit(first)) & (ts < F.lit(end)) for first, end in ranges))


def _at(minute: int) -> datetime:
    return datetime.fromtimestamp(minute * _MINUTE_S, UTC)
