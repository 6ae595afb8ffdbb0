"""The last report of each replica in each hour. Pure."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.times import begun

_HOUR_S: Final = 3600
_BROKER: Final = ("hour", "cluster_id", "broker_id")
_REPORT: Final = ("seq", "told", "bytes", "is_leader", "is_deleted")


def replica_hours(inventory: DataFrame) -> DataFrame:
    """Return the newest reports of replicas by hour.

    Reports of several hours merge with `newest_reports`: older boots of an hour do not count.
    """
    told = inventory.withColumns(
        {
            "hour": begun(F.col("ts"), _HOUR_S),
            "told": F.col("ts"),
            "is_deleted": F.coalesce("is_deleted", F.lit(False)),
        }
    )
    return as_table(newest_reports(told, *_BROKER).withColumn("event_date", F.to_date("hour")), "replica_hours")


def newest_reports(reports: DataFrame, *broker: str) -> DataFrame:
    """Return the last report of each partition by the newest boot of each `broker`.

    The newest boot has reported all partitions that it has. `broker` are the columns that identify a broker and the
    time for which its reports count.
    """
    newest = reports.withColumn("newest_boot", F.max("boot_id").over(Window.partitionBy(*broker)))
    return (
        newest.where(F.col("boot_id") == F.col("newest_boot"))
        .groupBy(*broker, "topic", "partition", "boot_id")
        .agg(F.max_by(F.struct(*_REPORT), "seq").alias("last"))
        .select(*broker, "topic", "partition", "boot_id", "last.*")
    )
