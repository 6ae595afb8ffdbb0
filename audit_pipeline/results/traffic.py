"""Traffic in windows of ten minutes, by one dimension at a time. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.tables import NONE, WINDOW_MINUTES
from audit_pipeline.results.times import begun

_WINDOW: Final = ("event_date", "window_start", "cluster_id", "is_follower")
_COUNTS: Final = ("requests", "errors", "request_bytes", "response_bytes", "records")
_DIMENSIONS: Final = ("listener", "principal", "client_id", "client_ip", "software", "api", "topic")
"""Dimensions with names; cluster is another one, without a name."""


def traffic(rollup: DataFrame) -> DataFrame:
    software = F.nullif(F.concat_ws(" ", "software_name", "software_version"), F.lit(""))
    named = rollup.withColumns(
        {
            "window_start": begun(F.col("minute"), WINDOW_MINUTES * 60),
            "client_id": F.coalesce("client_id", F.lit(NONE)),
            "software": F.coalesce(software, F.lit(NONE)),
        }
    )
    # Grouping sets make eight rows of each: minutes and buckets of the histogram are summed before.
    clients = named.groupBy(*_WINDOW, *_DIMENSIONS).agg(*(F.sum(name).alias(name) for name in _COUNTS))
    dimensions = clients.groupingSets(
        [[*_WINDOW], *([*_WINDOW, dimension] for dimension in _DIMENSIONS)], *_WINDOW, *_DIMENSIONS
    )
    is_topic = F.col("topic").isNotNull()
    added_up = dimensions.agg(
        _dimension().alias("dimension"),
        *(_sum(name, ~is_topic) for name in ("requests", "errors", "request_bytes", "response_bytes")),
        _sum("requests", is_topic).alias("partitions_touched"),
        _sum("errors", is_topic).alias("partition_errors"),
        _sum("request_bytes", is_topic).alias("produced_bytes"),
        _sum("response_bytes", is_topic).alias("fetched_bytes"),
        _sum("records", is_topic).alias("records"),
    )
    of_topics = F.col("dimension") == "topic"
    shown = added_up.where(~of_topics | is_topic).withColumns(
        {
            "name": F.coalesce(*_DIMENSIONS, F.lit("")),
            "requests": F.when(of_topics, F.col("partitions_touched")).otherwise(F.col("requests")),
            "errors": F.when(of_topics, F.col("partition_errors")).otherwise(F.col("errors")),
        }
    )
    return as_table(shown, "traffic")


def _dimension() -> Column:
    return F.coalesce(*(F.when(F.grouping(name) == 0, F.lit(name)) for name in _DIMENSIONS), F.lit("cluster"))


def _sum(name: str, counts: Column) -> Column:
    return F.sum(F.when(counts, F.col(name)).otherwise(0)).alias(name)
