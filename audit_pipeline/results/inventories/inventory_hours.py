"""Topics as brokers reported them up to the end of each hour. Pure."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.inventories.replica_hours import newest_reports
from audit_pipeline.results.times import after

_HOUR_S: Final = 3600
_BROKER: Final = ("event_date", "hour", "cluster_id", "broker_id")
_TOPIC: Final = ("event_date", "hour", "cluster_id", "topic")


def inventory_hours(replica_hours: DataFrame) -> DataFrame:
    """Count the newest report of each broker and partition.

    Brokers report at different times, so that the reports of the hour before count where an hour has no newer one.
    """
    reports = newest_reports(_with_the_hour_before(replica_hours), *_BROKER).where(~F.col("is_deleted"))
    partitions = reports.groupBy(*_TOPIC, "partition").agg(
        F.sum("bytes").alias("replica_bytes"),
        F.max(F.when(F.col("is_leader"), F.col("bytes")).otherwise(0)).alias("leader_bytes"),
    )
    topics = partitions.groupBy(*_TOPIC).agg(
        F.count("partition").alias("partitions"),
        F.sum("replica_bytes").alias("replica_bytes"),
        F.sum("leader_bytes").alias("leader_bytes"),
    )
    return as_table(topics, "inventory_hours")


def _with_the_hour_before(replica_hours: DataFrame) -> DataFrame:
    """Return each row for its hour, and for the next one of the day if the cluster has rows in it.

    A day is computed from its own rows, so that the first hour of a day has only its own rows.
    """
    next_hour = after(F.col("hour"), _HOUR_S)
    next_one = replica_hours.where(F.to_date(next_hour) == F.col("event_date")).withColumn("hour", next_hour)
    told = replica_hours.select("hour", "cluster_id").distinct()
    return replica_hours.unionByName(next_one.join(F.broadcast(told), ["hour", "cluster_id"], how="left_semi"))
