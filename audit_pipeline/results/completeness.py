"""Whether the audit log is complete: gaps that brokers reported, missing numbers, and set-aside files. Pure."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table

_BROKER_DAY = ("event_date", "cluster_id", "broker_id")
_COUNTS: Final = ("events", "gaps", "missing", "holes", "duplicates", "quarantined_files", "quarantined_rows")


def completeness(coverage: DataFrame, quarantine: DataFrame) -> DataFrame:
    """Return a row for each day of a broker in any of the frames."""
    is_known = reduce(Column.__and__, (F.col(name).isNotNull() for name in _BROKER_DAY))
    is_duplicate, is_clock = F.col("reason") == "duplicate", F.col("reason") == "clock"
    set_aside = quarantine.where(is_known).select(
        *_BROKER_DAY,
        F.when(is_duplicate, 1).otherwise(0).alias("duplicates"),
        F.when(is_duplicate | is_clock, 0).otherwise(1).alias("quarantined_files"),
        F.when(is_duplicate, 0).otherwise(F.coalesce("rows", F.lit(0))).alias("quarantined_rows"),
    )
    told = reduce(DataFrame.unionByName, (_all_counts(frame) for frame in (coverage, set_aside)))
    days = told.groupBy(*_BROKER_DAY).agg(*(F.sum(name).alias(name) for name in _COUNTS))
    wrong = ("missing", "holes", "quarantined_files", "quarantined_rows")
    is_complete = reduce(Column.__and__, (F.col(name) == 0 for name in wrong))
    return as_table(days.withColumn("is_complete", is_complete), "completeness")


def _all_counts(frame: DataFrame) -> DataFrame:
    counts = {name: F.col(name) if name in frame.columns else F.lit(0) for name in _COUNTS}
    return frame.select(*_BROKER_DAY, *(count.cast("bigint").alias(name) for name, count in counts.items()))
