"""Existing topics, the time of their last use, and how much of that time the audit log covers. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.times import after

_HOUR_S: Final = 3600
_SPARE: Final = "dlq|dead-letter|dead_letter|deadletter|retry|error"
_TOPIC: Final = ("cluster_id", "topic")


def idle_topics(
    topic_days: DataFrame, inventory_hours: DataFrame, coverage: DataFrame, completeness: DataFrame
) -> DataFrame:
    """Compute idle topics, beginning with the inventory: no other event mentions an unused topic."""
    last_used = topic_days.groupBy(*_TOPIC).agg(
        F.max("last_produced").alias("last_produced"), F.max("last_fetched").alias("last_fetched")
    )
    found = (
        _there(inventory_hours)
        .join(last_used, [*_TOPIC], how="left")
        .join(_covered(coverage, completeness), ["cluster_id"], how="inner")
    )
    last = F.coalesce(F.greatest("last_produced", "last_fetched"), F.col("covered_from"))
    idle_us = F.unix_micros("as_of") - F.unix_micros(last)
    shown = found.withColumns(
        {
            "idle_hours": F.call_function("div", idle_us, F.lit(_HOUR_S * 1_000_000)),
            "is_spare": F.lower("topic").rlike(_SPARE),
        }
    )
    return as_table(shown, "idle_topics")


def _there(inventory_hours: DataFrame) -> DataFrame:
    """Return the topics of the newest hour, which has the reports of the hour before, too.

    The first hour of a day lacks these: the hour before it counts then, and new topics of the first one.
    """
    newest = F.max("hour").over(Window.partitionBy("cluster_id"))
    hours = inventory_hours.withColumn("newest", newest)
    is_first = F.col("newest") == F.date_trunc("day", F.col("newest"))
    oldest = F.when(is_first, after(F.col("newest"), -_HOUR_S)).otherwise(F.col("newest"))
    return (
        hours.where(F.col("hour") >= oldest)
        .groupBy(*_TOPIC)
        .agg(
            F.min_by("partitions", "hour").alias("partitions"),
            F.min_by("replica_bytes", "hour").alias("replica_bytes"),
        )
    )


def _covered(coverage: DataFrame, completeness: DataFrame) -> DataFrame:
    times = coverage.groupBy("cluster_id").agg(F.min("first_ts").alias("covered_from"), F.max("last_ts").alias("as_of"))
    days = (
        completeness.groupBy("cluster_id", "event_date")
        .agg(F.sum("events").alias("events"), F.bool_and("is_complete").alias("is_complete"))
        .where(F.col("events") > 0)
        .groupBy("cluster_id")
        .agg(_number(F.lit(True)).alias("covered_days"), _number(~F.col("is_complete")).alias("incomplete_days"))
    )
    return times.join(days, ["cluster_id"], how="left").fillna(0, ["covered_days", "incomplete_days"])


def _number(condition: Column) -> Column:
    return F.count(F.when(condition, 1))
