"""How many of a day's requests met each objective (SLO). Pure."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.histogram import last_bucket_within
from audit_pipeline.results.settings import Objective

_KEY = ("event_date", "cluster_id", "objective", "target")


def objectives(latency_hist: DataFrame, objectives: Sequence[Objective]) -> DataFrame:
    """Return how many requests met or missed each service level objective.

    One row of latency_hist may count for several objectives.
    """
    counted = latency_hist.select("event_date", "cluster_id", "requests", "errors", F.inline(_met(objectives)))
    days = counted.groupBy(*_KEY).agg(*(F.sum(name).alias(name) for name in ("requests", "errors", "in_time")))
    # Histograms of level rollup include requests with errors: the good ones are at most those without an error.
    good = F.least(F.col("in_time"), F.col("requests") - F.col("errors"))
    bad = F.col("requests") - good
    burn = bad.cast("double") / (F.col("requests").cast("double") * (F.lit(1.0) - F.col("target")))
    with_requests = days.where(F.col("requests") > 0)
    return as_table(with_requests.withColumns({"good": good, "bad": bad, "burn": burn}), "objectives")


def _met(objectives: Sequence[Objective]) -> Column:
    """Return the objectives that the row counts for, each with the number of its requests that were in time."""
    none = F.lit(None).cast("struct<objective:string,target:double,in_time:bigint>")
    met = (F.when(_counts_for(objective), _in_time(objective)) for objective in objectives)
    return F.array_compact(F.array(none, *met))


def _counts_for(objective: Objective) -> Column:
    named = {"api": objective.api, "cluster_id": objective.cluster_id, "principal": objective.principal}
    is_named = (F.col(name) == value for name, value in named.items() if value is not None)
    topic = F.col("topic").isNull() if objective.topic is None else F.col("topic") == objective.topic
    return reduce(Column.__and__, is_named, topic)


def _in_time(objective: Objective) -> Column:
    last = last_bucket_within(objective.latency_ms * 1000)
    within = F.map_filter("latency", lambda bucket, _: bucket <= last)
    return F.struct(
        F.lit(objective.name).alias("objective"),
        F.lit(objective.target).alias("target"),
        F.aggregate(F.map_values(within), F.lit(0).cast("bigint"), lambda added, each: added + each).alias("in_time"),
    )
