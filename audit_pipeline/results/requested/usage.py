"""The fact `usage`: who moved how much on which topic, and what failed, in windows of ten minutes. Pure."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import EventFrames, as_table
from audit_pipeline.results.requested.addresses import address_group
from audit_pipeline.results.requested.measured import FETCH, PRODUCE, api_of_partition, is_failed, whole, window_start
from audit_pipeline.results.tables import UNKNOWN

_KEY: Final = (
    *("window_start", "topic", "client_id", "principal", "address_group", "api", "software_name", "software_version"),
    *("listener", "is_follower", "error_code", "ending", "cluster_id"),
)
_SUMS: Final = ("requests", "errors", "in_bytes", "out_bytes", "records")
_SOMETIMES: Final = ("client_id", "software_name", "software_version")


def usage(events: EventFrames) -> DataFrame:
    """Return how much each client moved on each topic, and what failed, in windows of ten minutes.

    `events` are of any days. They must have passed `measured.with_clients`: each row of partition has its client.

    The three kinds of events have no key in common: requests have an ending and no topic, partitions a topic and an
    error code, intervals neither an ending nor an error code. Each kind is added up by itself, in one compiled loop
    from the file to the sums.
    """
    parts = (_requests(events.request), _partitions(events.partition), _intervals(events.rollup))
    added = reduce(DataFrame.unionByName, map(_added_up, parts))
    return as_table(added.withColumn("event_date", F.to_date("window_start")), "usage")


def _added_up(parts: DataFrame) -> DataFrame:
    sums = (F.sum(name).alias(name) for name in _SUMS)
    return parts.groupBy(*_KEY).agg(*sums, F.max("last_moved").alias("last_moved"))


def _of_client() -> tuple[Column | str, ...]:
    """Return the window and the client of rows that always tell their client."""
    group = address_group(F.col("client_ip")).alias("address_group")
    return (window_start(), "cluster_id", "listener", "principal", group, *_SOMETIMES)


def _requests(request: DataFrame) -> DataFrame:
    return request.select(
        *_of_client(),
        "api",
        F.lit(None).cast("string").alias("topic"),
        F.col("replica_id").isNotNull().alias("is_follower"),
        "error_code",
        "ending",
        whole(1).alias("requests"),
        is_failed().cast("long").alias("errors"),
        F.col("request_bytes").alias("in_bytes"),
        F.col("response_bytes").alias("out_bytes"),
        whole(None).alias("records"),
        F.lit(None).cast("timestamp").alias("last_moved"),
    )


def _partitions(partition: DataFrame) -> DataFrame:
    """Return each partition; its client is unknown if its request was set aside and it does not tell the client."""
    return partition.select(
        window_start(),
        "cluster_id",
        *(F.coalesce(name, F.lit(UNKNOWN)).alias(name) for name in ("listener", "principal")),
        address_group(F.coalesce("client_ip", F.lit(UNKNOWN))).alias("address_group"),
        *_SOMETIMES,
        api_of_partition().alias("api"),
        "topic",
        F.col("replica_id").isNotNull().alias("is_follower"),
        "error_code",
        F.lit(None).cast("string").alias("ending"),
        whole(1).alias("requests"),
        (F.col("error_code") != 0).cast("long").alias("errors"),
        F.when(F.col("api_key") == PRODUCE, F.col("bytes")).otherwise(whole(0)).alias("in_bytes"),
        F.when(F.col("api_key") == FETCH, F.col("bytes")).otherwise(whole(0)).alias("out_bytes"),
        F.col("records").cast("long").alias("records"),
        F.when(F.col("bytes") > 0, F.col("ts")).alias("last_moved"),
    )


def _intervals(rollup: DataFrame) -> DataFrame:
    """Return the intervals of level rollup, which tell no error code."""
    is_topic = F.col("topic").isNotNull()
    moved = is_topic & (F.col("request_bytes") + F.col("response_bytes") > 0)
    return rollup.select(
        *_of_client(),
        "api",
        "topic",
        F.lit(False).alias("is_follower"),
        F.lit(None).cast("smallint").alias("error_code"),
        F.lit(None).cast("string").alias("ending"),
        "requests",
        "errors",
        F.col("request_bytes").alias("in_bytes"),
        F.col("response_bytes").alias("out_bytes"),
        F.when(is_topic & (F.col("api_key") == PRODUCE), F.col("records")).alias("records"),
        F.when(moved, F.col("ts")).alias("last_moved"),
    )
