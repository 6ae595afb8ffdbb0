"""Connections in stormy bins of ten seconds, by client. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import CLIENT, as_table
from audit_pipeline.results.settings import StormLimits
from audit_pipeline.results.tables import BIN_S
from audit_pipeline.results.times import begun

_BIN: Final = ("event_date", "bin", "cluster_id", "listener")
_CONNECTION: Final = ("event_date", "cluster_id", "broker_id", "boot_id", "connection_id")
_WHO: Final = ("principal", "client_id", "software_name", "software_version")
_ATTEMPTS: Final = ("accepted", "limited", "refused")


def storm_bins(connection: DataFrame, request: DataFrame, limits: StormLimits) -> DataFrame:
    """Count connections. Requests are read only for storms: their bins and connections are few, and broadcast."""
    attempts = connection.where(F.col("event").isin(*_ATTEMPTS)).select(
        F.to_date("ts").alias("event_date"),
        begun(F.col("ts"), BIN_S).alias("bin"),
        "cluster_id",
        "broker_id",
        "boot_id",
        "connection_id",
        *CLIENT,
        F.when(F.col("event") != "accepted", F.col("reason")).alias("limit_met"),
        *(F.when(F.col("event") == name, 1).otherwise(0).alias(name) for name in _ATTEMPTS),
    )
    stormy = attempts.join(F.broadcast(_stormy(attempts, limits)), [*_BIN], how="left_semi")
    # Refused connections have no ID: they are summed here, so that they do not become a hot key of the join.
    connections = stormy.groupBy(*_BIN, *_CONNECTION[2:], *CLIENT[1:], "limit_met").agg(*sums())
    told = _known_clients(connections, connection, request)
    known = connections.join(told, [*_CONNECTION], how="left").withColumns(
        {name: F.when(F.col("told").isNotNull(), F.col(f"told.{name}")).otherwise(F.col(name)) for name in _WHO}
    )
    return as_table(known.groupBy("event_date", "bin", "cluster_id", *CLIENT, "limit_met").agg(*sums()), "storm_bins")


def _stormy(attempts: DataFrame, limits: StormLimits) -> DataFrame:
    is_stormy = (F.col("accepted") + F.col("refused") >= limits.connections) | (
        F.col("limited") + F.col("refused") >= limits.held
    )
    return attempts.groupBy(*_BIN).agg(*sums()).where(is_stormy).select(*_BIN)


def _known_clients(connections: DataFrame, connection: DataFrame, request: DataFrame) -> DataFrame:
    """Return the client of each connection, from its end, else its first request: acceptance reveals little."""
    ends = _telling(connection.where(F.col("event") == "closed"), is_end=True)
    tellings = ends.unionByName(_telling(request, is_end=False))
    wanted = connections.where(F.col("connection_id").isNotNull()).select(*_CONNECTION)
    first = F.min_by(F.struct(*_WHO), F.struct(~F.col("is_end"), "seq"))
    return (
        tellings.join(F.broadcast(wanted), [*_CONNECTION], how="left_semi")
        .groupBy(*_CONNECTION)
        .agg(first.alias("told"))
    )


def _telling(frame: DataFrame, is_end: bool) -> DataFrame:
    day = F.to_date("ts").alias("event_date")
    return frame.select(day, *_CONNECTION[1:], F.lit(is_end).alias("is_end"), "seq", *_WHO)


def sums() -> list[Column]:
    """Return the sums of the counts of attempts, under the names of these."""
    return [F.sum(name).alias(name) for name in _ATTEMPTS]
