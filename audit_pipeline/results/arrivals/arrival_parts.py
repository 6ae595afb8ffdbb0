"""Which connections belong to a storm, and which are usual. Pure.

The storms of the table storms are found by numbers alone: a large deployment is one, too. Their clients tell them
apart. In a storm, most connections are short or rejected. After a deployment, they stay.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.arrivals.targets import BESIDE, DAYS, PART_LEAST, RESERVED, STORM, USUAL
from audit_pipeline.results.tables import BIN_S
from audit_pipeline.results.times import begun

NEAR_S: Final = 10
"""A second belongs to a storm if most connections from this many seconds before it to as many after it are fleeting."""

_AT: Final = ("cluster_id", "listener")


def arrival_parts(connection_seconds: DataFrame, of_storms: DataFrame) -> DataFrame:
    """Return the connections of the last days with `part`, and `storm`, the start of the storm if there is one.

    `of_storms` are the storm_seconds. Columns: cluster_id, broker_id, listener, client_ip, second (as a number since
    1970), attempts, part, storm.
    """
    in_storms = _recent(connection_seconds).join(F.broadcast(of_storms), [*_AT, "second"], how="left")
    of_address = Window.partitionBy(*_AT, "storm", "client_ip")
    came = F.sum("attempts").over(of_address)
    takes_part = (2 * F.sum("fleeting").over(of_address) >= came) & (came >= PART_LEAST)
    part = F.when(F.col("storm").isNull(), USUAL).when(takes_part, STORM).otherwise(BESIDE)
    return (
        in_storms.withColumn("part", part)
        .where(F.col("attempts") > 0)
        .select("cluster_id", "broker_id", "listener", "client_ip", "second", "attempts", "part", "storm")
    )


def storm_seconds(connection_seconds: DataFrame, storms: DataFrame) -> DataFrame:
    """Return the seconds of each listener that belong to a storm: cluster_id, listener, second, storm."""
    seconds = _recent(connection_seconds).groupBy(*_AT, "second").agg(_sum("attempts"), _sum("fleeting"))
    spans = storms.select(
        *_AT,
        F.unix_seconds("started").alias("storm"),
        F.explode(F.sequence(_second("started"), _second("ended"))).alias("second"),
    )
    # A change of the limit ends a storm within a second, which then belongs to two storms.
    found = seconds.join(spans.groupBy(*_AT, "second").agg(F.max("storm").alias("storm")), [*_AT, "second"])
    near = Window.partitionBy(*_AT, "storm").orderBy("second").rangeBetween(-NEAR_S, NEAR_S)
    is_of_storm = 2 * F.sum("fleeting").over(near) >= F.sum("attempts").over(near)
    return found.withColumn("is_of_storm", is_of_storm).where("is_of_storm").select(*_AT, "second", "storm")


def storm_runs(of_storms: DataFrame) -> DataFrame:
    """Return the stretches of consecutive storm_seconds: cluster_id, listener, first, last."""
    of_listener = Window.partitionBy(*_AT).orderBy("second")
    run = F.col("second") - F.row_number().over(of_listener)
    runs = of_storms.withColumn("run", run).groupBy(*_AT, "run")
    return runs.agg(F.min("second").alias("first"), F.max("second").alias("last")).drop("run")


def recent_days(connection_seconds: DataFrame) -> DataFrame:
    """Return the days with connections that count: cluster_id, event_date."""
    last = F.max("event_date").over(Window.partitionBy("cluster_id"))
    days = connection_seconds.select("cluster_id", "event_date").distinct().withColumn("last", last)
    return days.where(F.date_diff("last", "event_date") < DAYS).select("cluster_id", "event_date")


def _recent(connection_seconds: DataFrame) -> DataFrame:
    """Return the connections of the last days of each cluster, with those that are `fleeting`: short or rejected."""
    return (
        connection_seconds.where(~F.col("listener").isin(*RESERVED))
        .join(F.broadcast(recent_days(connection_seconds)), ["cluster_id", "event_date"], how="left_semi")
        .withColumns({"second": _second("second"), "fleeting": F.col("short") + F.col("refused")})
    )


def _second(name: str) -> Column:
    return F.unix_seconds(begun(F.col(name), BIN_S))


def _sum(name: str) -> Column:
    return F.sum(name).alias(name)
