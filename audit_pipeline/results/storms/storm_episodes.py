"""To which episode each row of storm_bins belongs. Pure.

    second   10    11    12    13        30    31
    rates     -     -   -,50   50        50    50     of the listener, in the order of the events of a second
    piece    10    10    12    12        30    30     begins after a calm, and when the rate changes
    run      10    10    10    10        30    30     the piece of 12 is short: clients that waited as the rate changed

Another limit that changes ends an episode within a run. Times are seconds since 1970: windows have ranges of numbers.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.tables import BIN_S

CALM_S: Final = 10
"""Seconds of calm that end an episode."""
_AFTER_CHANGE_S: Final = 3
"""Clients that waited when a rate changed are accepted or closed by then (decision 14)."""
_NO_RATE: Final = -1
_RATE_KEY: Final = "max.connection.creation.rate"
"""The end of the keys of the rates of brokers and listeners."""
_AT: Final = ("cluster_id", "listener")


def with_episode(storm_bins: DataFrame) -> DataFrame:
    """Add the columns `episode` and `is_own` to storm_bins.

    `episode` is the start of the episode's first second. `is_own` is whether the row has the rate of its episode.
    """
    rows = storm_bins.withColumn("rate", F.coalesce("listener_rate", F.lit(_NO_RATE).cast("bigint")))
    episodes = _episodes(_seconds(rows)).groupBy(*_AT, "bin", "rate")
    found = episodes.agg(F.max("episode").alias("episode"), F.max("is_own").alias("is_own"))
    return rows.join(F.broadcast(found), [*_AT, "bin", "rate"]).select(*storm_bins.columns, "episode", "is_own")


def _seconds(rows: DataFrame) -> DataFrame:
    """Return the seconds by rate, and by other limits: a storm may have thousands of clients, and windows few rows."""
    is_other = F.col("limit_key").isNotNull() & ~F.col("limit_key").endswith(_RATE_KEY)
    limit = F.when(is_other, F.struct("limit_key", "limit_entity"))
    named = rows.withColumn("limit", limit).withColumn("value", F.when(is_other, F.col("limit_value")))
    return named.groupBy(*_AT, "bin", "rate", "limit", "value").agg(
        F.min("first_ts").alias("first_ts"), F.max("last_ts").alias("last_ts")
    )


def _episodes(seconds: DataFrame) -> DataFrame:
    found = _with_runs(seconds)
    of_run = Window.partitionBy(*_AT, "run")
    own_rate = F.max(F.when(F.col("second") == F.col("run"), F.col("last_rate"))).over(of_run)
    of_limit = Window.partitionBy(*_AT, "run", "limit").orderBy("second", "first_ts")
    is_changed = F.col("limit").isNotNull() & (F.col("value") != F.lag("value").over(of_limit))
    marked = found.withColumns({"is_changed": is_changed, "is_own": F.col("rate") == own_rate})
    until_now = of_run.orderBy("second").rangeBetween(Window.unboundedPreceding, Window.currentRow)
    episode = F.coalesce(_latest("is_changed", until_now), "run")
    return marked.withColumn("episode", F.timestamp_seconds(episode))


def _with_runs(seconds: DataFrame) -> DataFrame:
    """Add `second`, `last_rate` (of the last event of the second) and `run`."""
    at_listener = Window.partitionBy(*_AT).orderBy("second")
    until_now = at_listener.rangeBetween(Window.unboundedPreceding, Window.currentRow)
    until_before = at_listener.rangeBetween(Window.unboundedPreceding, -1)
    last = F.max(F.struct("last_ts", "rate")).over(Window.partitionBy(*_AT, "second"))
    found = (
        seconds.withColumn("second", F.unix_seconds("bin"))
        .withColumn("last_rate", last["rate"])
        .withColumn("before", F.max(F.struct("second", "last_rate")).over(until_before))
    )
    after_s = F.col("second") - F.col("before.second")
    is_after_calm = F.col("before").isNull() | (after_s > BIN_S + CALM_S)
    is_turn = ~is_after_calm & (F.col("last_rate") != F.col("before.last_rate"))
    found = found.withColumns({"is_after_calm": is_after_calm, "is_turn": is_turn})
    found = found.withColumn("begins", F.col("is_after_calm") | F.col("is_turn"))
    found = found.withColumn("piece", _latest("begins", until_now))
    length_s = F.max("second").over(Window.partitionBy(*_AT, "piece")) - F.col("piece")
    is_long = F.col("is_after_calm") | (length_s >= _AFTER_CHANGE_S)
    found = found.withColumn("begins_run", F.col("begins") & is_long)
    is_of_former = F.col("is_turn") & (F.col("rate") == F.col("before.last_rate"))
    run = F.when(is_of_former, _latest("begins_run", until_before)).otherwise(_latest("begins_run", until_now))
    return found.withColumn("run", run)


def _latest(flag: str, window: WindowSpec) -> Column:
    """Return the last second of the window that has this flag."""
    return F.max(F.when(F.col(flag), F.col("second"))).over(window)
