"""Latency histograms with 4 percent buckets: counting, merging and percentiles. Pure.

All engines agree on the bucket of a time (results.buckets): no whole number of microseconds below 13 hours is so close
to a power of 1.04 that the last digit of a logarithm would matter.
"""

from collections.abc import Mapping, Sequence
from math import floor, log
from typing import Final

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


_BITS: Final = 44
_REQUESTS: Final = 2**_BITS


def packed(bucket: Column, requests: Column) -> Column:
    """Return a bucket and its requests as one number, whose lower bits are the requests.

    Spark sorts and moves arrays of numbers several times as fast as arrays of structs. The numbers have the order of
    their buckets.
    """
    return bucket.cast("bigint") * _REQUESTS + F.least(requests, F.lit(_REQUESTS - 1))


def bucket_in(entry: Column) -> Column:
    return F.shiftright(entry, _BITS)


def requests_in(entry: Column) -> Column:
    return F.pmod(entry, F.lit(_REQUESTS))


def percentiles(histograms: DataFrame, key: Sequence[str], percents: Mapping[str, int]) -> DataFrame:
    """Return the percentiles of merged histograms: `key`, requests, and a column (us) for each of `percents`.

    `histograms` have the column latency, such as rows of latency_hist with the columns of the key. A percentile is the
    end of the first bucket at which the cumulative share of requests reaches the percentage.
    """
    entries = histograms.select(*key, F.transform(F.map_entries("latency"), _possible).alias("entries"))
    grouped = entries.where(F.size("entries") > 0).groupBy(*key).agg(F.flatten(F.collect_list("entries")).alias("all"))
    # Buckets that occur several times need no merging: their requests are neighbours.
    ordered = grouped.select(*key, F.sort_array("all").alias("ordered"))
    counted = ordered.withColumn("requests", _added("ordered")).where(F.col("requests") > 0)
    return counted.select(
        *key, "requests", *(bucket_us(_percentile(percent)).alias(name) for name, percent in percents.items())
    )


def _possible(entry: Column) -> Column:
    return packed(F.greatest(entry["key"], F.lit(0)), entry["value"])


def _added(entries: str) -> Column:
    return F.aggregate(entries, F.lit(0).cast("bigint"), lambda seen, each: seen + requests_in(each))


def _percentile(percent: int) -> Column:
    """Return the bucket: below zero the requests that are still to come, then the bucket at which they are reached."""
    rank = F.expr(f"(requests * {percent} + 99) div 100")

    def step(left: Column, each: Column) -> Column:
        # What is left is negative. The first number that is not negative is found, and stays.
        return F.when(left >= 0, left).when(left + requests_in(each) >= 0, each).otherwise(left + requests_in(each))

    return bucket_in(F.aggregate("ordered", -rank, step)).cast("int")
