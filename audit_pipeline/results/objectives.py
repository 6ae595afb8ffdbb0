"""How many of a day's requests met each objective (SLO). Pure."""

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.histogram import last_bucket_within
from audit_pipeline.results.settings import Objective

_KEY = ("event_date", "cluster_id", "objective", "target")


def objectives(rollup: DataFrame, objectives: Sequence[Objective]) -> DataFrame:
    """One row of rollup may count for several objectives."""
    without_error = F.col("requests") - F.col("errors")
    is_timed = (without_error <= 0) | (F.size("latency") > 0)
    counted = rollup.where(~F.col("is_follower") & (F.col("requests") > 0) & is_timed).select(
        "event_date", "cluster_id", "requests", F.inline(_met(objectives, without_error))
    )
    days = counted.groupBy(*_KEY).agg(F.sum("requests").alias("requests"), F.sum("good").alias("good"))
    bad = F.col("requests") - F.col("good")
    burn = bad.cast("double") / (F.col("requests").cast("double") * (F.lit(1.0) - F.col("target")))
    return as_table(days.withColumns({"bad": bad, "burn": burn}), "objectives")


def _met(objectives: Sequence[Objective], without_error: Column) -> Column:
    """Those that the row counts for, each with how many of its requests were good."""
    none = F.lit(None).cast("struct<objective:string,target:double,good:bigint>")
    met = (F.when(_counts_for(objective), _good(objective, without_error)) for objective in objectives)
    return F.array_compact(F.array(none, *met))


def _counts_for(objective: Objective) -> Column:
    named = {"api": objective.api, "cluster_id": objective.cluster_id, "principal": objective.principal}
    is_named = (F.col(name) == value for name, value in named.items() if value is not None)
    topic = F.col("topic").isNull() if objective.topic is None else F.col("topic") == objective.topic
    return reduce(Column.__and__, is_named, topic)


def _good(objective: Objective, without_error: Column) -> Column:
    """Histograms of level rollup have requests with errors in them: no more are good than had none."""
    last = last_bucket_within(objective.latency_ms * 1000)
    in_time = F.map_filter("latency", lambda bucket, _: bucket <= last)
    requests = F.aggregate(F.map_values(in_time), F.lit(0).cast("bigint"), Column.__add__)
    return F.struct(
        F.lit(objective.name).alias("objective"),
        F.lit(objective.target).alias("target"),
        F.least(requests, without_error).alias("good"),
    )
