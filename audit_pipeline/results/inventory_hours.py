"""Topics as brokers reported them in each hour. Pure."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.times import begun

_TOPIC = ("event_date", "hour", "cluster_id", "topic")


def inventory_hours(inventory: DataFrame) -> DataFrame:
    """Count each report once: brokers report about hourly, and one that restarts reports twice in an hour."""
    hour = begun(F.col("ts"), 3600)
    told = inventory.withColumns({"hour": hour, "event_date": F.to_date(hour)})
    last = F.max_by(F.struct("bytes", "is_leader"), F.struct("boot_id", "seq"))
    replicas = told.groupBy(*_TOPIC, "partition", "broker_id").agg(last.alias("last"))
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
