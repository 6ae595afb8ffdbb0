"""The times at which a connection may wait or be rejected under suggested limits: only these are replayed. Pure."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.arrivals.target_seconds import SERIES, TARGET

LEAD_S: Final = 60
"""Seconds before and after a wait that are replayed, too: a bucket is full after the second that it saves."""
SPAN_MAX: Final = 200_000
"""Connections of a span that are replayed: a task has them in memory, with 1.4 KB for each."""

_BROKER: Final = ("cluster_id", "broker_id")


def waiting_seconds(series: DataFrame, rates: DataFrame, *address: str) -> DataFrame:
    """Return the seconds in which a connection of a target may wait: cluster_id, broker_id, second.

    `rates` has `rate` for each target: a bucket that saves the tokens of one second. The connections of the seconds s
    and t > s may be as close as t - s - 1 seconds. `address` is client_ip for series of one address each.
    """
    of_series = Window.partitionBy(*SERIES, *address).orderBy("second")
    until_now = of_series.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    before = of_series.rowsBetween(Window.unboundedPreceding, -1)
    allowed = F.col("rate") * F.col("second")
    found = series.join(F.broadcast(rates), [*TARGET]).withColumn("total", F.sum("attempts").over(until_now))
    found = found.withColumn("level", F.col("total") - F.col("attempts") - allowed)
    is_behind = F.col("total") - allowed > F.min("level").over(before)
    may_wait = (F.col("attempts") > F.col("rate")) | F.coalesce(is_behind, F.lit(False))
    return found.withColumn("may_wait", may_wait).where("may_wait").select(*_BROKER, "second")


def wait_spans(waiting: DataFrame) -> DataFrame:
    """Return the spans around waiting seconds, without overlap: cluster_id, broker_id, from_s, to_s (excluded)."""
    of_broker = Window.partitionBy(*_BROKER).orderBy("second")
    before = F.lag("second").over(of_broker)
    begins = before.isNull() | (F.col("second") - before > 2 * LEAD_S)
    numbered = waiting.distinct().withColumn("begins", begins.cast("int"))
    spans = numbered.withColumn("span", F.sum("begins").over(of_broker)).groupBy(*_BROKER, "span")
    return spans.agg((F.min("second") - LEAD_S).alias("from_s"), (F.max("second") + LEAD_S + 1).alias("to_s")).drop(
        "span"
    )


def counted_spans(parts: DataFrame, spans: DataFrame) -> DataFrame:
    """Return the spans with their connections: `connections`, and `tried`, the first ones, which end at `until_s`.

    `parts` are the arrival_parts. At most SPAN_MAX connections of a span are tried.
    """
    seconds = parts.groupBy(*_BROKER, "second").agg(F.sum("attempts").alias("attempts"))
    is_within = (F.col("second") >= F.col("from_s")) & (F.col("second") < F.col("to_s"))
    placed = seconds.join(F.broadcast(spans), [*_BROKER]).where(is_within)
    until_now = Window.partitionBy(*_BROKER, "from_s").orderBy("second")
    first = placed.withColumn("is_first", F.sum("attempts").over(until_now) <= SPAN_MAX)
    counted = first.groupBy(*_BROKER, "from_s", "to_s").agg(
        F.sum("attempts").alias("connections"),
        F.sum(F.when(F.col("is_first"), F.col("attempts")).otherwise(0)).alias("tried"),
        F.max(F.when(F.col("is_first"), F.col("second") + 1)).alias("end_s"),
    )
    is_whole = F.col("tried") == F.col("connections")
    until_s = F.when(is_whole, F.col("to_s")).otherwise(F.coalesce("end_s", "from_s"))
    return counted.withColumn("until_s", until_s).drop("end_s")
