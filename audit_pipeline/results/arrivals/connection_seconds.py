"""Connections by second, listener and address: what recommended limits are computed from. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.arrivals.targets import SHORT_S
from audit_pipeline.results.frames import as_table
from audit_pipeline.results.tables import BIN_S
from audit_pipeline.results.times import begun

_SECOND: Final = ("second", "cluster_id", "broker_id", "listener", "client_ip")


def connection_seconds(connection: DataFrame) -> DataFrame:
    """Count connections by the second in which the broker took them from the kernel.

    The events of an hour, and those of storms.storm_bins.AFTER it, decide on its connections: clients wait less long.
    """
    waited_us = F.coalesce(F.col("decided_us") - F.col("arrived_us"), F.lit(0))
    is_limit = F.col("limit_key").isNotNull() | ~F.contains("reason", F.lit(" "))
    is_refused = (F.col("event") == "refused") & F.coalesce(is_limit, F.lit(False))
    came = _counted(
        connection.where((F.col("event") == "accepted") | is_refused),
        waited_us,
        attempts=F.lit(1),
        refused=F.when(is_refused, 1).otherwise(0),
    )
    is_short = (F.col("event") == "closed") & (F.col("duration_us") < SHORT_S * 1_000_000)
    short = _counted(connection.where(is_short), F.col("duration_us"), short=F.lit(1))
    counted = came.unionByName(short).groupBy(*_SECOND)
    seconds = counted.agg(*(F.sum(name).alias(name) for name in ("attempts", "refused", "short")))
    return as_table(seconds.withColumn("event_date", F.to_date("second")), "connection_seconds")


def _counted(frame: DataFrame, ago_us: Column, **counts: Column) -> DataFrame:
    """Return a row for each event, at the second that is `ago_us` before it."""
    at = F.timestamp_micros(F.unix_micros("ts") - ago_us)
    all_counts = (counts.get(name, F.lit(0)).cast("bigint").alias(name) for name in ("attempts", "refused", "short"))
    return frame.select(begun(at, BIN_S).alias("second"), *_SECOND[1:], *all_counts)
