"""Traffic in windows of ten minutes, by one dimension at a time. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.tables import NONE

_WINDOW: Final = ("event_date", "window_start", "cluster_id", "is_follower")
_SUMS: Final = (
    *("requests", "errors", "request_bytes", "response_bytes"),
    *("partitions_touched", "partition_errors", "produced_bytes", "fetched_bytes", "records"),
)


def traffic(usage: DataFrame) -> DataFrame:
    """Return the traffic in windows of ten minutes, by one dimension at a time, such as client or topic.

    A row of usage has one dimension after another, each as a row with two short names.
    """
    is_topic = F.col("topic").isNotNull()
    software = F.nullif(F.concat_ws(" ", "software_name", "software_version"), F.lit(""))
    names = {
        "cluster": F.lit(""),
        "listener": F.col("listener"),
        "principal": F.col("principal"),
        "client_id": F.coalesce("client_id", F.lit(NONE)),
        "address_group": F.col("address_group"),
        "software": F.coalesce(software, F.lit(NONE)),
        "api": F.col("api"),
    }
    of_requests = F.array(*(_named(dimension, name) for dimension, name in names.items()))
    of_topics = F.array(
        *(_named(dimension, name) for dimension, name in names.items()), _named("topic", F.col("topic"))
    )
    rows = usage.select(
        *_WINDOW,
        *_counts(is_topic),
        F.inline(F.when(is_topic, of_topics).otherwise(of_requests)),
    )
    added_up = rows.groupBy(*_WINDOW, "dimension", "name").agg(*(F.sum(name).alias(name) for name in _SUMS))
    of_topics_only = F.col("dimension") == "topic"
    shown = added_up.withColumns(
        {
            "requests": F.when(of_topics_only, F.col("partitions_touched")).otherwise(F.col("requests")),
            "errors": F.when(of_topics_only, F.col("partition_errors")).otherwise(F.col("errors")),
        }
    )
    return as_table(shown, "traffic")


def _counts(is_topic: Column) -> list[Column]:
    """Return the sums of a row: those of requests, those of partitions, and records that were produced."""
    of_requests = {
        "requests": "requests",
        "errors": "errors",
        "in_bytes": "request_bytes",
        "out_bytes": "response_bytes",
    }
    of_topics = {
        "requests": "partitions_touched",
        "errors": "partition_errors",
        "in_bytes": "produced_bytes",
        "out_bytes": "fetched_bytes",
    }
    produced = F.when(is_topic & (F.col("api") == "Produce"), F.coalesce("records", F.lit(0))).otherwise(0)
    return [
        *(F.when(is_topic, F.lit(0)).otherwise(F.col(name)).alias(column) for name, column in of_requests.items()),
        *(F.when(is_topic, F.col(name)).otherwise(0).alias(column) for name, column in of_topics.items()),
        produced.alias("records"),
    ]


def _named(dimension: str, name: Column) -> Column:
    return F.struct(F.lit(dimension).alias("dimension"), name.alias("name"))
