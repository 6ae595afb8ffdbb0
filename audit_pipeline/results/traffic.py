"""Traffic in windows of ten minutes, by one dimension at a time. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.tables import NONE

_WINDOW: Final = ("event_date", "window_start", "cluster_id", "is_follower")
_COUNTS: Final = ("requests", "errors", "in_bytes", "out_bytes", "records")
_DIMENSIONS: Final = ("listener", "principal", "client_id", "address_group", "software", "api", "topic")
"""Dimensions with names; cluster is another one, without a name."""


def traffic(usage: DataFrame) -> DataFrame:
    software = F.nullif(F.concat_ws(" ", "software_name", "software_version"), F.lit(""))
    is_produced = F.col("topic").isNotNull() & (F.col("api") == "Produce")
    named = usage.withColumns(
        {
            "records": F.when(is_produced, F.col("records")),
            "client_id": F.coalesce("client_id", F.lit(NONE)),
            "software": F.coalesce(software, F.lit(NONE)),
        }
    )
    # Grouping sets make eight rows of each: outcomes are summed before.
    clients = named.groupBy(*_WINDOW, *_DIMENSIONS).agg(*(F.sum(name).alias(name) for name in _COUNTS))
    dimensions = clients.groupingSets(
        [[*_WINDOW], *([*_WINDOW, dimension] for dimension in _DIMENSIONS)], *_WINDOW, *_DIMENSIONS
    )
    is_topic = F.col("topic").isNotNull()
    added_up = dimensions.agg(
        _dimension().alias("dimension"),
        _sum("requests", ~is_topic).alias("requests"),
        _sum("errors", ~is_topic).alias("errors"),
        _sum("in_bytes", ~is_topic).alias("request_bytes"),
        _sum("out_bytes", ~is_topic).alias("response_bytes"),
        _sum("requests", is_topic).alias("partitions_touched"),
        _sum("errors", is_topic).alias("partition_errors"),
        _sum("in_bytes", is_topic).alias("produced_bytes"),
        _sum("out_bytes", is_topic).alias("fetched_bytes"),
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
    return F.coalesce(F.sum(F.when(counts, F.col(name))), F.lit(0))
