"""Service times of clients' requests, by API and one more dimension. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.histogram import merged, percentiles
from audit_pipeline.results.tables import WINDOW_MINUTES
from audit_pipeline.results.times import begun

_KEY: Final = ("event_date", "window_start", "cluster_id", "api", "dimension", "name")


def latency(rollup: DataFrame) -> DataFrame:
    """Compute latencies. Rows that count requests have two dimensions, rows of topics have one."""
    of_requests = F.array(_named("api", F.lit("")), _named("principal", F.col("principal")))
    of_topic = F.array(_named("topic", F.col("topic")))
    timed = rollup.where(~F.col("is_follower") & F.col("bucket").isNotNull()).select(
        "event_date",
        begun(F.col("minute"), WINDOW_MINUTES * 60).alias("window_start"),
        "cluster_id",
        "api",
        F.inline(F.when(F.col("topic").isNull(), of_requests).otherwise(of_topic)),
        "bucket",
        "measured",
    )
    found = percentiles(merged(timed, _KEY), _KEY, {"p50_us": 50, "p95_us": 95, "p99_us": 99})
    return as_table(found, "latency")


def _named(dimension: str, name: Column) -> Column:
    return F.struct(F.lit(dimension).alias("dimension"), name.alias("name"))
