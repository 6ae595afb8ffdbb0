"""The replicas of each broker at the end of a day. Pure."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.times import after

FRESH_S: Final = 2 * 3600
"""How much older than the newest report of its cluster the report of an existing replica is at most."""
_BROKER: Final = ("event_date", "cluster_id", "broker_id")


def replicas(inventory: DataFrame) -> DataFrame:
    """Return the last report of each replica by its broker's newest boot, as far as these are fresh."""
    dated = inventory.withColumn("event_date", F.to_date("ts"))
    newest = dated.withColumn("newest_boot", F.max("boot_id").over(Window.partitionBy(*_BROKER)))
    deleted = F.coalesce("is_deleted", F.lit(False)).alias("is_deleted")
    last = (
        newest.where(F.col("boot_id") == F.col("newest_boot"))
        .groupBy(*_BROKER, "topic", "partition")
        .agg(F.max_by(F.struct(F.col("ts").alias("told"), "bytes", deleted), "seq").alias("last"))
        .select(*_BROKER, "topic", "partition", "last.*")
    )
    newest_told = F.max("told").over(Window.partitionBy("event_date", "cluster_id"))
    fresh = last.withColumn("newest_told", newest_told).where(
        (F.col("told") >= after(F.col("newest_told"), -FRESH_S)) & ~F.col("is_deleted")
    )
    return as_table(fresh, "replicas")
