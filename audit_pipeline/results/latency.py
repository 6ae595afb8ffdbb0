"""Service times of clients' requests, by API and one more dimension. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.histogram import percentiles

_WINDOW: Final = ("event_date", "window_start", "cluster_id", "api")
_KEY: Final = (*_WINDOW, "dimension", "name")


def latency(latency_hist: DataFrame) -> DataFrame:
    """Return percentiles of the service times of requests, by API, principal or topic.

    Rows that count requests have two dimensions, rows of topics have one.
    """
    of_requests = F.array(
        _named("api", F.lit("")),
        _named("principal", F.col("principal")),
    )
    of_topic = F.array(_named("topic", F.col("topic")))
    timed = latency_hist.select(
        *_WINDOW, F.inline(F.when(F.col("topic").isNull(), of_requests).otherwise(of_topic)), "latency"
    )
    return as_table(percentiles(timed, _KEY, {"p50_us": 50, "p95_us": 95, "p99_us": 99}), "latency")


def _named(dimension: str, name: Column) -> Column:
    return F.struct(F.lit(dimension).alias("dimension"), name.alias("name"))
