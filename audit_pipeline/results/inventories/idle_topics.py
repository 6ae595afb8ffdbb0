"""Existing topics, the time of their last use, and how much of that time the audit log covers. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.inventories.replicas import FRESH_S
from audit_pipeline.results.times import after

_HOUR_S: Final = 3600
_SPARE: Final = "dlq|dead-letter|dead_letter|deadletter|retry|error"
_TOPIC: Final = ("cluster_id", "topic")


def idle_topics(topic_days: DataFrame, replicas: DataFrame, coverage: DataFrame, completeness: DataFrame) -> DataFrame:
    """Return the topics that exist, each with the time for which no client has used it.

    The inventory comes first: no other event mentions an unused topic.
    """
    last_used = topic_days.groupBy(*_TOPIC).agg(
        F.max("last_produced").alias("last_produced"), F.max("last_fetched").alias("last_fetched")
    )
    found = (
        _there(replicas)
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


def _there(replicas: DataFrame) -> DataFrame:
    """Return the topics of each broker's newest inventory, as far as that is fresh."""
    of_broker = Window.partitionBy("cluster_id", "broker_id")
    of_cluster = Window.partitionBy("cluster_id")
    last_day, newest = F.max("event_date").over(of_broker), F.max("told").over(of_cluster)
    return (
        replicas.withColumns({"last_day": last_day, "newest": newest})
        .where((F.col("event_date") == F.col("last_day")) & (F.col("told") >= after(F.col("newest"), -FRESH_S)))
        .groupBy(*_TOPIC)
        .agg(F.count_distinct("partition").alias("partitions"), F.sum("bytes").alias("replica_bytes"))
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
