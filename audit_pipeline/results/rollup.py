"""The fact `rollup`: sums of requests by minute, client, API, topic and bucket of service time. Pure.

The histogram has rows instead of a map, so that a single aggregation of numbers computes it, which Spark does in place.
Collecting maps of millions of groups takes Spark twenty times as long.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import CLIENT, NUMBERED, EventFrames, as_table
from audit_pipeline.results.histogram import bucket_of
from audit_pipeline.results.tables import UNKNOWN

_PRODUCE, _FETCH = 0, 1
_KEY = (
    *("minute", "client_ip", "topic", "client_id", "principal", "api", "software_name", "software_version", "bucket"),
    *("listener", "is_follower", "is_measured", "cluster_id", "event_date"),
)
"""The most selective columns come first: Spark sorts by a prefix of the first column, and compares the others."""
_SUMS = ("requests", "errors", "request_bytes", "response_bytes", "records", "total_us_sum", "measured")


def rollup(events: EventFrames) -> DataFrame:
    """Compute the rollup of the events of any days, with their event_date."""
    requests = _requests(events.request)
    parts = requests.select(*_KEY, *_SUMS, "total_us_max")
    parts = parts.unionByName(_partitions(events.partition, requests)).unionByName(_intervals(events.rollup))
    added = parts.groupBy(*_KEY).agg(
        *(F.sum(name).alias(name) for name in _SUMS), F.max("total_us_max").alias("total_us_max")
    )
    return as_table(added, "rollup")


def _long(number: int) -> Column:
    return F.lit(number).cast("long")


def _requests(request: DataFrame) -> DataFrame:
    """Return each request as a row, with its number and the columns that its partitions need."""
    # An unknown error code is null, and counts for no error.
    is_error = (F.coalesce("error_code", F.lit(0)) != 0) | (F.col("ending") != "answered")
    waited_us = F.when(F.col("api_key") == _FETCH, F.col("wait_us")).otherwise(0)
    return request.withColumn("service_bucket", bucket_of(F.col("total_us") - waited_us)).select(
        *NUMBERED,
        "event_date",
        F.date_trunc("minute", "ts").alias("minute"),
        *CLIENT,
        "api",
        F.lit(None).cast("string").alias("topic"),
        F.col("replica_id").isNotNull().alias("is_follower"),
        F.when(~is_error, F.col("service_bucket")).alias("bucket"),
        F.lit(True).alias("is_measured"),
        _long(1).alias("requests"),
        is_error.cast("long").alias("errors"),
        "request_bytes",
        "response_bytes",
        _long(0).alias("records"),
        F.col("total_us").alias("total_us_sum"),
        F.col("total_us").alias("total_us_max"),
        (~is_error).cast("long").alias("measured"),
        "service_bucket",
    )


def _partitions(partition: DataFrame, requests: DataFrame) -> DataFrame:
    """Return each partition with the client of its request; unknown if the request was set aside."""
    known = requests.select(*NUMBERED, *CLIENT, "api", "is_follower", "is_measured", "service_bucket")
    of_api = F.when(F.col("api_key") == _PRODUCE, F.lit("Produce")).otherwise(F.lit("Fetch"))
    is_error = F.col("error_code") != 0
    bucket = F.when(~is_error, F.col("service_bucket"))
    required = ("listener", "principal", "client_ip")
    return partition.join(known, on=list(reversed(NUMBERED)), how="left").select(
        "event_date",
        F.date_trunc("minute", "ts").alias("minute"),
        "cluster_id",
        *(F.coalesce(name, F.lit(UNKNOWN)).alias(name) if name in required else F.col(name) for name in CLIENT),
        F.coalesce("api", of_api).alias("api"),
        "topic",
        F.coalesce("is_follower", F.lit(False)).alias("is_follower"),
        bucket.alias("bucket"),
        F.coalesce("is_measured", F.lit(False)).alias("is_measured"),
        _long(1).alias("requests"),
        is_error.cast("long").alias("errors"),
        F.when(F.col("api_key") == _PRODUCE, F.col("bytes")).otherwise(_long(0)).alias("request_bytes"),
        F.when(F.col("api_key") == _FETCH, F.col("bytes")).otherwise(_long(0)).alias("response_bytes"),
        F.when(F.col("api_key") == _PRODUCE, F.coalesce("records", F.lit(0)))
        .otherwise(0)
        .cast("long")
        .alias("records"),
        _long(0).alias("total_us_sum"),
        _long(0).alias("total_us_max"),
        bucket.isNotNull().cast("long").alias("measured"),
    )


def _intervals(rollup_events: DataFrame) -> DataFrame:
    """Return rows for intervals of level rollup: one for the sums of each, and one for each bucket of its histogram."""
    is_measured = F.col("topic").isNull() & (F.col("api_key") != _FETCH)
    of_sums = F.struct(F.lit(None).cast("smallint").alias("bucket"), _long(0).alias("measured"))
    entries = F.transform(
        F.map_entries("latency"), lambda entry: F.struct(entry["key"].alias("bucket"), entry["value"].alias("measured"))
    )
    nothing = F.array().cast("array<struct<bucket:smallint,measured:bigint>>")
    exploded = rollup_events.withColumn("is_measured", is_measured).withColumn(
        "part", F.explode(F.concat(F.array(of_sums), F.when(F.col("is_measured"), entries).otherwise(nothing)))
    )
    is_of_sums = F.col("part.bucket").isNull()
    added_up = ("requests", "errors", "request_bytes", "response_bytes", "records", "total_us_sum", "total_us_max")
    return exploded.select(
        "event_date",
        F.date_trunc("minute", "ts").alias("minute"),
        "cluster_id",
        *CLIENT,
        "api",
        "topic",
        F.lit(False).alias("is_follower"),
        "is_measured",
        *(F.when(is_of_sums, F.col(name)).otherwise(_long(0)).alias(name) for name in added_up),
        F.col("part.bucket").alias("bucket"),
        F.col("part.measured").alias("measured"),
    )
