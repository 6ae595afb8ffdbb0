"""What facts take from single events: whether a request failed, and the time that it took. Pure."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import CLIENT, NUMBERED, EventFrames
from audit_pipeline.results.tables import WINDOW_MINUTES
from audit_pipeline.results.times import begun

PRODUCE: Final = 0
FETCH: Final = 1
OF_REQUEST: Final = (*CLIENT, "replica_id", "service_us")
"""Columns of partition that repeat the request. Version 1.0 does not have them."""


def whole(number: int | None) -> Column:
    """Return a constant column of the type of counts and sizes."""
    return F.lit(number).cast("long")


def window_start() -> Column:
    return begun(F.col("ts"), WINDOW_MINUTES * 60).alias("window_start")


def is_failed() -> Column:
    """Return the condition that a row of request counts as an error. An unknown error code does not."""
    return F.coalesce(F.col("error_code") != 0, F.lit(False)) | (F.col("ending") != "answered")


def service_us() -> Column:
    """Return the service time of a row of request.

    A Fetch may wait for data for any time, which does not count.
    """
    return F.col("total_us") - F.when(F.col("api_key") == FETCH, F.col("wait_us")).otherwise(0)


def with_clients(events: EventFrames) -> EventFrames:
    """Return the events with the client of each partition.

    The client comes from the partition's request if the partition itself has none.
    """
    asked = events.request.select(*NUMBERED, *CLIENT, "replica_id", service_us().alias("service_us"))
    unknown = events.partition.where(F.col("listener").isNull()).drop(*OF_REQUEST)
    known = events.partition.where(F.col("listener").isNotNull())
    joined = unknown.join(asked, on=list(reversed(NUMBERED)), how="left")
    return events._replace(partition=known.unionByName(joined))


def api_of_partition() -> Column:
    return F.when(F.col("api_key") == PRODUCE, F.lit("Produce")).otherwise(F.lit("Fetch"))
