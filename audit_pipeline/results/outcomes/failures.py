"""Failed requests by API, error, client and topic. Pure."""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.outcomes.failed import error_name, is_expected
from audit_pipeline.results.tables import UNKNOWN

_OF_CLIENT: Final = (
    "event_date",
    "window_start",
    "cluster_id",
    "api",
    "error",
    "principal",
    "client_id",
    "is_follower",
)


def failures(usage: DataFrame) -> DataFrame:
    """Return how many requests of each client failed, and with which error.

    A failed request may occur twice in `usage`: in a row without a topic, and in rows of its topics. The row without a
    topic is left out if a topic of the client has the same error.
    """
    failed = usage.where(F.col("errors") > 0).withColumns(
        {
            "error": F.coalesce(error_name(F.col("error_code"), F.col("ending")), F.lit(UNKNOWN)),
            "error_code": F.when(F.col("error_code") != 0, F.col("error_code")),
        }
    )
    added = failed.groupBy(*_OF_CLIENT, "error_code", "topic").agg(F.sum("errors").alias("failures"))
    of_topics = added.where(F.col("topic").isNotNull())
    told = of_topics.select(*(F.col(name).alias(f"told_{name}") for name in _OF_CLIENT)).distinct()
    is_told = F.lit(True)
    for name in _OF_CLIENT:
        is_told &= F.col(name).eqNullSafe(F.col(f"told_{name}"))
    of_requests = added.where(F.col("topic").isNull()).join(F.broadcast(told), is_told, how="left_anti")
    both = of_topics.unionByName(of_requests)
    return as_table(both.withColumn("is_expected", is_expected(F.col("api"), F.col("error"))), "failures")
