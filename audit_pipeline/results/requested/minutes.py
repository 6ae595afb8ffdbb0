"""The fact `minutes`: requests of each minute by API. Pure."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import EventFrames, as_table
from audit_pipeline.results.requested.measured import is_failed, whole
from audit_pipeline.results.times import begun

_KEY: Final = ("minute", "api", "is_follower", "cluster_id")
_SUMS: Final = ("requests", "errors", "in_bytes", "out_bytes")


def minutes(events: EventFrames) -> DataFrame:
    """Return the number and the bytes of requests in each minute by API, from audit events of any days."""
    minute = begun(F.col("ts"), 60).alias("minute")
    moved = (F.col("request_bytes").alias("in_bytes"), F.col("response_bytes").alias("out_bytes"))
    requests = events.request.select(
        minute,
        "cluster_id",
        "api",
        F.col("replica_id").isNotNull().alias("is_follower"),
        whole(1).alias("requests"),
        is_failed().cast("long").alias("errors"),
        *moved,
    )
    intervals = events.rollup.where(F.col("topic").isNull()).select(
        minute, "cluster_id", "api", F.lit(False).alias("is_follower"), "requests", "errors", *moved
    )
    added = requests.unionByName(intervals).groupBy(*_KEY).agg(*(F.sum(name).alias(name) for name in _SUMS))
    return as_table(added.withColumn("event_date", F.to_date("minute")), "minutes")
