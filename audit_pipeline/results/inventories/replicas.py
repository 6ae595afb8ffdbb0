"""The replicas of each broker at the end of a day. Pure."""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.inventories.replica_hours import newest_reports
from audit_pipeline.results.times import after

FRESH_S: Final = 2 * 3600
"""Maximum age in seconds of an existing replica's report, compared with the newest report of its cluster."""


def replicas(replica_hours: DataFrame) -> DataFrame:
    """Return the last report of each existing replica by its broker's newest boot of the day.

    A report that is not fresh is left out.
    """
    last = newest_reports(replica_hours, "event_date", "cluster_id", "broker_id")
    newest_told = F.max("told").over(Window.partitionBy("event_date", "cluster_id"))
    fresh = last.withColumn("newest_told", newest_told).where(
        (F.col("told") >= after(F.col("newest_told"), -FRESH_S)) & ~F.col("is_deleted")
    )
    return as_table(fresh, "replicas")
