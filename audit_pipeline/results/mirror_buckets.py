"""Records produced, by ten minutes of their own time: the input of the comparison with mirrors. Pure."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.tables import WINDOW_MINUTES
from audit_pipeline.results.times import after, begun

GUARD_S: Final = 2
"""Tolerance in seconds for records out of order within a batch: its first timestamp need not be the lowest."""
BUCKETS_MAX: Final = 144
"""Maximum number of buckets over which a batch is spread: a day.

A batch with older records is counted where it ends, and in this number of possible buckets.
"""

_BUCKET_S: Final = WINDOW_MINUTES * 60
_PRODUCE: Final = 0
_HOUR_S: Final = 3600
_TOPIC = ("event_date", "hour", "cluster_id", "topic")


def mirror_buckets(partition: DataFrame) -> DataFrame:
    """Count the records of partitions by bucket.

    Batches with the same first and last bucket are summed before they are expanded.
    """
    is_produced = (F.col("api_key") == _PRODUCE) & (F.col("error_code") == 0) & (F.col("records") > 0)
    has_time = F.col("base_ts").isNotNull() & F.col("max_ts").isNotNull()
    reach = partition.where(is_produced & has_time).select(
        F.to_date("ts").alias("event_date"),
        begun(F.col("ts"), _HOUR_S).alias("hour"),
        "cluster_id",
        "topic",
        begun(after(F.least("base_ts", "max_ts"), -GUARD_S), _BUCKET_S).alias("first"),
        begun(after(F.col("max_ts"), GUARD_S), _BUCKET_S).alias("last"),
        begun(F.col("max_ts"), _BUCKET_S).alias("ending"),
        "records",
    )
    batches = reach.groupBy(*_TOPIC, "first", "last", "ending").agg(F.sum("records").alias("records"))
    earliest = F.greatest("first", after(F.col("last"), -(BUCKETS_MAX - 1) * _BUCKET_S))
    possible = F.sequence(earliest, F.col("last"), F.expr(f"interval {WINDOW_MINUTES} minutes"))
    laid_out = batches.withColumn("bucket", F.explode(possible))
    is_placed, is_ending = F.col("first") == F.col("last"), F.col("bucket") == F.col("ending")
    buckets = laid_out.groupBy(*_TOPIC, "bucket").agg(
        F.sum(F.when(is_placed, F.col("records")).otherwise(0)).alias("records_placed"),
        F.sum("records").alias("records_possible"),
        F.sum(F.when(is_ending, F.col("records")).otherwise(0)).alias("records_ending"),
    )
    return as_table(buckets, "mirror_buckets")
