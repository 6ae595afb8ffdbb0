"""The use of each topic by clients on a day. Pure."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table


def topic_days(usage: DataFrame) -> DataFrame:
    """Return how much was produced to each topic, and fetched from it, on each day.

    A topic with errors only has a row, with nothing produced and nothing fetched.
    """
    by_clients = usage.where(F.col("topic").isNotNull() & ~F.col("is_follower"))
    used = by_clients.groupBy("event_date", "cluster_id", "topic").agg(
        _last_with("in_bytes").alias("last_produced"),
        _last_with("out_bytes").alias("last_fetched"),
        F.sum("in_bytes").alias("produced_bytes"),
        F.sum("out_bytes").alias("fetched_bytes"),
    )
    return as_table(used, "topic_days")


def _last_with(moved_bytes: str) -> Column:
    return F.max(F.when(F.col(moved_bytes) > 0, F.col("last_moved")))
