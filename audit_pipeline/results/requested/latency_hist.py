"""The fact `latency_hist`: histograms of service times in windows of ten minutes. Pure.

A histogram is a map. Collecting millions of single buckets into maps takes Spark very long, and so do millions of
groups with one bucket each: groups have _TOGETHER neighbouring buckets, counted in as many columns. Few of them make a
histogram, as most times of a client are near each other.
"""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import EventFrames, as_table
from audit_pipeline.results.histogram import bucket_in, bucket_of, packed, requests_in
from audit_pipeline.results.requested.measured import (
    FETCH,
    api_of_partition,
    is_failed,
    service_us,
    whole,
    window_start,
)

_KEY: Final = ("window_start", "client_id", "topic", "principal", "api", "cluster_id")
_SUMS: Final = ("requests", "errors")
_TOGETHER: Final = 16


def latency_hist(events: EventFrames) -> DataFrame:
    """Return histograms of service times in windows of ten minutes, from audit events of any days.

    `events` must have passed `measured.with_clients`: each row of partition has its client.
    """
    of_requests = _requests(events.request).unionByName(_intervals(events.rollup))
    # Neither kind has a topic, and each partition has one: no key is common.
    chunks = _chunks(of_requests).unionByName(_chunks(_partitions(events.partition)))
    histograms = (
        chunks.withColumn("entries", _entries())
        .groupBy(*_KEY)
        .agg(*(F.sum(name).alias(name) for name in _SUMS), F.collect_list("entries").alias("entries"))
        .where(F.col("requests") > 0)
    )
    latency = F.map_from_entries(F.transform(F.sort_array(F.flatten("entries")), _entry))
    dated = histograms.withColumns({"latency": latency, "event_date": F.to_date("window_start")})
    return as_table(dated, "latency_hist")


def _chunks(parts: DataFrame) -> DataFrame:
    sums = (F.sum(name).alias(name) for name in _SUMS)
    return parts.withColumn("chunk", F.shiftright("bucket", 4)).groupBy(*_KEY, "chunk").agg(*sums, *_counts())


def _counts() -> list[Column]:
    place = F.pmod("bucket", F.lit(_TOGETHER))
    return [F.sum(F.when(place == number, F.col("measured"))).alias(f"at_{number}") for number in range(_TOGETHER)]


def _entries() -> Column:
    """Return the buckets of a chunk that have requests, packed."""
    made = (packed(F.col("chunk") * _TOGETHER + number, F.col(f"at_{number}")) for number in range(_TOGETHER))
    known = (F.when(F.col(f"at_{number}") > 0, each).otherwise(whole(0)) for number, each in enumerate(made))
    return F.array_remove(F.array(*known), whole(0))


def _entry(entry: Column) -> Column:
    return F.struct(bucket_in(entry).cast("smallint").alias("bucket"), requests_in(entry).alias("requests"))


def _requests(request: DataFrame) -> DataFrame:
    is_measured = ~is_failed()
    return request.where(F.col("replica_id").isNull()).select(
        window_start(),
        "cluster_id",
        "api",
        "principal",
        "client_id",
        F.lit(None).cast("string").alias("topic"),
        whole(1).alias("requests"),
        (~is_measured).cast("long").alias("errors"),
        F.when(is_measured, bucket_of(service_us())).alias("bucket"),
        whole(1).alias("measured"),
    )


def _partitions(partition: DataFrame) -> DataFrame:
    """Return the partitions whose requests are known."""
    is_measured = F.col("error_code") == 0
    known = partition.where(F.col("listener").isNotNull() & F.col("replica_id").isNull())
    return known.select(
        window_start(),
        "cluster_id",
        api_of_partition().alias("api"),
        "principal",
        F.lit(None).cast("string").alias("client_id"),
        "topic",
        whole(1).alias("requests"),
        (~is_measured).cast("long").alias("errors"),
        F.when(is_measured, bucket_of(F.col("service_us"))).alias("bucket"),
        whole(1).alias("measured"),
    )


def _intervals(rollup: DataFrame) -> DataFrame:
    """Return rows for intervals of level rollup: one for the sums of each, and one for each bucket of its histogram."""
    of_sums = F.struct(F.lit(None).cast("smallint").alias("bucket"), whole(0).alias("measured"))
    entries = F.transform(
        F.map_entries("latency"), lambda entry: F.struct(entry["key"].alias("bucket"), entry["value"].alias("measured"))
    )
    measured = rollup.where(F.col("topic").isNull() & (F.col("api_key") != FETCH))
    exploded = measured.withColumn("part", F.explode(F.concat(F.array(of_sums), entries)))
    is_of_sums = F.col("part.bucket").isNull()
    return exploded.select(
        window_start(),
        "cluster_id",
        "api",
        "principal",
        "client_id",
        "topic",
        *(F.when(is_of_sums, F.col(name)).otherwise(whole(0)).alias(name) for name in _SUMS),
        F.col("part.bucket").alias("bucket"),
        F.col("part.measured").alias("measured"),
    )
