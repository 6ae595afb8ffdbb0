"""Connections in the stormy seconds of listeners, by client and limit. Pure."""

from datetime import timedelta
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import CLIENT, as_table
from audit_pipeline.results.settings import StormLimits
from audit_pipeline.results.tables import BIN_S
from audit_pipeline.results.times import after, begun

WITHIN_S: Final = 10
"""Maximum number of consecutive seconds in which the limits of storms count connections."""
CLOSE_S: Final = 2
"""Distance in seconds within which seconds beside stormy ones are stormy, too: a storm ends in a second with few."""
LIMIT: Final = ("limit_quota", "limit_key", "limit_entity", "limit_value")

TELLING_S: Final = 600
"""Seconds from a second's start in which its connections send their client IDs."""
BEFORE: Final = timedelta(minutes=1)
"""Time before an hour whose events decide about the hour's first seconds and requests.

A second is stormy by those up to 2 * (WITHIN_S - 1) + CLOSE_S before it, and storms continue after CALM_S.
"""
AFTER: Final = timedelta(minutes=11)
"""Time after an hour whose events decide about the hour's last seconds and requests.

Its connections tell their clients within TELLING_S. Requests count from ten minutes before a storm, whose first second
is stormy by those up to WITHIN_S - 1 + CLOSE_S after it.
"""

_BIN: Final = ("bin", "cluster_id", "listener")
_CONNECTION: Final = ("cluster_id", "broker_id", "boot_id", "connection_id")
_WHO: Final = ("principal", "client_id", "software_name", "software_version")
_ATTEMPTS: Final = ("accepted", "limited", "refused")


def stormy_seconds(connection: DataFrame, limits: StormLimits) -> DataFrame:
    """Return the stormy seconds of listeners: `bin`, `cluster_id`, `listener`. They are few."""
    return _stormy(_attempts(connection), limits)


def storm_bins(seconds: DataFrame, connection: DataFrame, request: DataFrame) -> DataFrame:
    """Count the connections of `stormy_seconds`. Seconds and connections of storms are few, and broadcast."""
    stormy = _attempts(connection).join(F.broadcast(seconds), [*_BIN], how="left_semi")
    # Refused connections have no ID: they are summed here, so that they do not become a hot key of the join.
    kind = ("listener_rate", *LIMIT)
    connections = stormy.groupBy(*_BIN, *_CONNECTION[1:], *CLIENT[1:], *kind).agg(*_times("ts", "ts"), *sums())
    told = _known_clients(connections, connection, request)
    known = connections.join(told, ["bin", *_CONNECTION], how="left").withColumns(
        {name: F.when(F.col("told").isNotNull(), F.col(f"told.{name}")).otherwise(F.col(name)) for name in _WHO}
    )
    counted = known.groupBy("bin", "cluster_id", *CLIENT, *kind).agg(*_times("first_ts", "last_ts"), *sums())
    return as_table(counted.withColumn("event_date", F.to_date("bin")), "storm_bins")


def _attempts(connection: DataFrame) -> DataFrame:
    is_held = F.col("event").isin("limited", "refused")
    # Reasons that are no limit are sentences.
    told = F.coalesce("limit_key", F.when(is_held & ~F.contains("reason", F.lit(" ")), F.col("reason")))
    return connection.where(F.col("event").isin(*_ATTEMPTS)).select(
        begun(F.col("ts"), BIN_S).alias("bin"),
        "ts",
        "cluster_id",
        "broker_id",
        "boot_id",
        "connection_id",
        *CLIENT,
        "listener_rate",
        "limit_quota",
        told.alias("limit_key"),
        "limit_entity",
        "limit_value",
        *(F.when(F.col("event") == name, 1).otherwise(0).alias(name) for name in _ATTEMPTS),
    )


def _stormy(attempts: DataFrame, limits: StormLimits) -> DataFrame:
    """Return the bins in the shortest runs of seconds that reach a limit, and those close to such a bin."""
    by_bin = attempts.groupBy(*_BIN).agg(
        F.sum(F.col("accepted") + F.col("refused")).alias("connections"),
        F.sum(F.col("limit_key").isNotNull().cast("bigint")).alias("held"),
    )
    seconds = by_bin.withColumn("second", F.unix_seconds("bin"))
    at_listener = Window.partitionBy("cluster_id", "listener").orderBy("second")

    def begins_run(length_s: int) -> Column:
        """Return the first of this many seconds up to now, if they reach a limit together."""
        run = at_listener.rangeBetween(1 - length_s, Window.currentRow)
        reaches = (F.sum("connections").over(run) >= limits.connections) | (F.sum("held").over(run) >= limits.held)
        return F.when(reaches, F.col("second") - (length_s - 1))

    shortest = F.coalesce(*(begins_run(length_s) for length_s in range(1, WITHIN_S + 1)))
    marked = seconds.withColumn("start", shortest).withColumn("former", F.lag("start").over(at_listener))
    # With the start of the former second, the run contains a shorter one.
    kept = F.when(F.col("former").isNull() | (F.col("start") > F.col("former")), F.col("start"))
    marked = marked.withColumn("kept", kept)
    run_here = F.min("kept").over(at_listener.rangeBetween(Window.currentRow, WITHIN_S - 1))
    marked = marked.withColumn("is_in_run", run_here <= F.col("second"))
    is_close = F.max("is_in_run").over(at_listener.rangeBetween(-CLOSE_S, CLOSE_S))
    return marked.withColumn("is_stormy", is_close).where("is_stormy").select(*_BIN)


def _known_clients(connections: DataFrame, connection: DataFrame, request: DataFrame) -> DataFrame:
    """Return the client of each connection of a second, from its end, else its first request.

    Acceptance reveals little. What comes later than TELLING_S does not count, so that an hour needs few events of the
    next one.
    """
    ends = _telling(connection.where(F.col("event") == "closed"), is_end=True)
    tellings = ends.unionByName(_telling(request, is_end=False))
    wanted = connections.where(F.col("connection_id").isNotNull()).select("bin", *_CONNECTION).distinct()
    first = F.min_by(F.struct(*_WHO), F.struct(~F.col("is_end"), "seq"))
    is_soon = (F.col("ts") >= F.col("bin")) & (F.col("ts") < after(F.col("bin"), TELLING_S))
    return (
        tellings.join(F.broadcast(wanted), [*_CONNECTION])
        .where(is_soon)
        .groupBy("bin", *_CONNECTION)
        .agg(first.alias("told"))
    )


def _telling(frame: DataFrame, is_end: bool) -> DataFrame:
    return frame.select("ts", *_CONNECTION, F.lit(is_end).alias("is_end"), "seq", *_WHO)


def _times(first: str, last: str) -> tuple[Column, Column]:
    return F.min(first).alias("first_ts"), F.max(last).alias("last_ts")


def sums() -> list[Column]:
    """Return the sums of the counts of attempts, under the names of the counts."""
    return [F.sum(name).alias(name) for name in _ATTEMPTS]
