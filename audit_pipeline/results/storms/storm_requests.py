"""The latency of Produce and Fetch around storms, by the time of each request. Pure."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.histogram import bucket_of
from audit_pipeline.results.requested.measured import is_failed, service_us
from audit_pipeline.results.storms.storm_episodes import CALM_S
from audit_pipeline.results.tables import BIN_S
from audit_pipeline.results.times import after, begun

BEFORE_MINUTES: Final = 10

_MINUTE_S: Final = 60


def storm_requests(storm_bins: DataFrame, request: DataFrame) -> DataFrame:
    """Count the requests during connection storms.

    `request` is read only for the seconds and minutes of storms. These are few, so Spark broadcasts them.
    """
    spans = _spans(storm_bins.select("cluster_id", "listener", "bin").distinct())
    of_first = begun(F.col("first"), _MINUTE_S)
    first = after(of_first, -_MINUTE_S * BEFORE_MINUTES)
    minutes = F.explode(F.sequence(first, begun(F.col("last"), _MINUTE_S), F.expr("interval 1 minute")))
    seconds = F.explode(F.sequence(of_first, F.col("last"), F.expr("interval 1 second")))
    wanted_minutes = spans.select("cluster_id", minutes.alias("minute")).distinct()
    wanted_seconds = spans.select("cluster_id", seconds.alias("second"), F.lit(True).alias("is_wanted")).distinct()
    found = (
        _timed(request)
        .join(F.broadcast(wanted_minutes), ["cluster_id", "minute"], how="inner")
        .join(F.broadcast(wanted_seconds), ["cluster_id", "second"], how="left")
    )
    of_minute = F.struct(F.col("minute").alias("bin"), F.lit(_MINUTE_S).alias("seconds"))
    of_second = F.struct(F.col("second").alias("bin"), F.lit(BIN_S).alias("seconds"))
    places = F.when(F.col("is_wanted"), F.array(of_minute, of_second)).otherwise(F.array(of_minute))
    placed = found.select("cluster_id", F.inline(places), "client_ip", "client_id", "bucket")
    counted = placed.groupBy("cluster_id", "bin", "seconds", "client_ip", "client_id", "bucket")
    measured = counted.agg(F.count("*").alias("measured")).withColumn("event_date", F.to_date("bin"))
    return as_table(measured, "storm_requests")


def _spans(stormy: DataFrame) -> DataFrame:
    """Return the first and the last bin of stormy ones with at most CALM_S between them."""
    at_listener = Window.partitionBy("cluster_id", "listener").orderBy("bin")
    before = F.lag("bin").over(at_listener)
    begins = before.isNull() | (F.col("bin") > after(before, BIN_S + CALM_S))
    numbered = stormy.withColumn("begins", begins.cast("int")).withColumn("span", F.sum("begins").over(at_listener))
    return numbered.groupBy("cluster_id", "listener", "span").agg(
        F.min("bin").alias("first"), F.max("bin").alias("last")
    )


def _timed(request: DataFrame) -> DataFrame:
    """Return the requests of clients that were answered without error, with the bucket of their service time."""
    is_timed = F.col("api").isin("Produce", "Fetch") & F.col("replica_id").isNull() & ~is_failed()
    return request.where(is_timed).select(
        begun(F.col("ts"), _MINUTE_S).alias("minute"),
        begun(F.col("ts"), BIN_S).alias("second"),
        "cluster_id",
        "client_ip",
        "client_id",
        bucket_of(service_us()).alias("bucket"),
    )
