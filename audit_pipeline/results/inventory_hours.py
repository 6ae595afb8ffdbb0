"""Topics as brokers reported them up to the end of each hour. Pure."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.times import after, begun

_HOUR_S: Final = 3600
_TOPIC: Final = ("event_date", "hour", "cluster_id", "topic")


def inventory_hours(inventory: DataFrame) -> DataFrame:
    """Count the newest report of each broker and partition.

    Brokers report at different times, so that the reports of the hour before count where an hour has no newer one.
    """
    replicas = _newest(_with_the_hour_before(inventory)).where(~F.col("last.is_deleted"))
    partitions = replicas.groupBy(*_TOPIC, "partition").agg(
        F.sum("last.bytes").alias("replica_bytes"),
        F.max(F.when(F.col("last.is_leader"), F.col("last.bytes")).otherwise(0)).alias("leader_bytes"),
    )
    topics = partitions.groupBy(*_TOPIC).agg(
        F.count("partition").alias("partitions"),
        F.sum("replica_bytes").alias("replica_bytes"),
        F.sum("leader_bytes").alias("leader_bytes"),
    )
    return as_table(topics, "inventory_hours")


def _with_the_hour_before(inventory: DataFrame) -> DataFrame:
    """Return each row for its hour, and for the next one of the day if the cluster has rows in it.

    A day is computed from its own events, so that the first hour of a day has only its own rows.
    """
    hour = begun(F.col("ts"), _HOUR_S)
    own = inventory.withColumns({"hour": hour, "event_date": F.to_date(hour)})
    next_one = own.withColumn("hour", after(F.col("hour"), _HOUR_S)).where(F.to_date("hour") == F.col("event_date"))
    told = own.select("hour", "cluster_id").distinct()
    return own.unionByName(next_one.join(F.broadcast(told), ["hour", "cluster_id"], how="left_semi"))


def _newest(reports: DataFrame) -> DataFrame:
    """Return the last report of each partition by the broker's newest boot: that one has reported all it has."""
    of_broker = Window.partitionBy("hour", "cluster_id", "broker_id")
    newest = reports.withColumn("newest_boot", F.max("boot_id").over(of_broker))
    deleted = F.coalesce("is_deleted", F.lit(False)).alias("is_deleted")
    last = F.max_by(F.struct("bytes", "is_leader", deleted), "seq")
    return (
        newest.where(F.col("boot_id") == F.col("newest_boot"))
        .groupBy(*_TOPIC, "partition", "broker_id")
        .agg(last.alias("last"))
    )
