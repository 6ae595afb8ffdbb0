"""Latency histograms with 4 percent buckets: counting, merging and percentiles. Pure.

All engines agree on the bucket of a time (results.buckets): no whole number of microseconds below 13 hours is so close
to a power of 1.04 that the last digit of a logarithm would matter.
"""

from collections.abc import Mapping, Sequence
from math import floor, log

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.buckets import BUCKET_US, GAMMA


def bucket_of(us: Column) -> Column:
    """Return the bucket of a time in microseconds."""
    return F.when(us <= 1, F.lit(0)).otherwise(F.ceil(F.log(us) / F.lit(log(GAMMA)))).cast("smallint")


def last_bucket_within(us: float) -> int:
    """Return the last bucket whose times are all within `us` microseconds."""
    return floor(log(us) / log(GAMMA))


def bucket_us(bucket: Column) -> Column:
    """Return the end of a bucket, like buckets.end_us: an impossible bucket counts as the nearest existing one."""
    last = len(BUCKET_US) - 1
    known = F.when(bucket < 0, F.lit(0)).when(bucket > last, F.lit(last)).otherwise(bucket.cast("int"))
    ends = F.expr("array(" + ",".join(f"{value}L" for value in BUCKET_US) + ")")
    return F.get(ends, known)


def merged(frame: DataFrame, key: Sequence[str]) -> DataFrame:
    """Merge rows of `latency_hist` to the histogram of each key, with a row for each bucket: `key`, bucket, requests.

    The key may have columns that `frame` adds.
    """
    buckets = frame.select(*key, F.explode("latency").alias("bucket", "measured"))
    return buckets.groupBy(*key, "bucket").agg(F.sum("measured").alias("requests"))


def percentiles(buckets: DataFrame, key: Sequence[str], percents: Mapping[str, int]) -> DataFrame:
    """Return the percentiles of merged histograms: `key`, requests, and a column (us) for each of `percents`.

    A percentile is the end of the first bucket at which the cumulative share of requests reaches the percentage.
    """
    ordered = F.array_sort(F.collect_list(F.struct("bucket", "requests")))
    grouped = buckets.where(F.col("requests") > 0).groupBy(*key)
    asked = grouped.agg(F.sum("requests").alias("requests"), ordered.alias("ordered"))
    return asked.select(
        *key, "requests", *(bucket_us(_percentile(percent)).alias(name) for name, percent in percents.items())
    )


def _percentile(percent: int) -> Column:
    rank = F.expr(f"(requests * {percent} + 99) div 100")

    def step(state: Column, entry: Column) -> Column:
        seen = state["seen"] + entry["requests"]
        found = F.coalesce(state["found"], F.when(seen >= rank, entry["bucket"]))
        return F.struct(seen.alias("seen"), found.alias("found"))

    nothing = F.struct(F.lit(0).cast("bigint").alias("seen"), F.lit(None).cast("smallint").alias("found"))
    return F.aggregate("ordered", nothing, step, lambda state: state["found"])
