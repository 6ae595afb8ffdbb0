"""Each objective over its window of days. Pure."""

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.settings import Objective


def error_budget(objectives_result: DataFrame, objectives: Sequence[Objective]) -> DataFrame:
    """Return how much of the error budget of each service level objective is spent.

    Target and window are the current ones, even if they were different when a day was built.
    """
    to_date = F.max("event_date").over(Window.partitionBy("cluster_id"))
    known = objectives_result.select(
        "event_date",
        "cluster_id",
        "objective",
        "requests",
        "bad",
        to_date.alias("to_date"),
        _of_each(objectives, "int", lambda objective: objective.window_days).alias("window_days"),
        _of_each(objectives, "double", lambda objective: objective.target).alias("target"),
    )
    from_date = F.date_sub("to_date", F.col("window_days") - 1)
    in_window = known.withColumn("from_date", from_date).where(F.col("event_date") >= F.col("from_date"))
    spent = in_window.groupBy("cluster_id", "objective", "from_date", "to_date", "target").agg(
        F.sum("requests").alias("requests"), F.sum("bad").alias("bad")
    )
    allowed = F.col("requests").cast("double") * (F.lit(1.0) - F.col("target"))
    return as_table(spent.withColumn("spent", F.col("bad").cast("double") / allowed), "error_budget")


def _of_each(objectives: Sequence[Objective], kind: str, value: Callable[[Objective], float]) -> Column:
    """Return a value of each objective, null for an objective that was removed."""
    values = (F.when(F.col("objective") == each.name, F.lit(value(each))) for each in objectives)
    return F.coalesce(*values, F.lit(None)).cast(kind)
