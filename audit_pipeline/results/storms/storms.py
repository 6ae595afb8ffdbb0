"""Connection storms: participants, source, limit, and effects on other clients. Pure."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import CLIENT, as_table
from audit_pipeline.results.histogram import percentiles
from audit_pipeline.results.storms.storm_bins import LIMIT, sums
from audit_pipeline.results.storms.storm_requests import BEFORE_MINUTES
from audit_pipeline.results.tables import BIN_S
from audit_pipeline.results.times import after, begun

_EPISODE: Final = ("cluster_id", "listener", "episode")
_WHO: Final = ("principal", "client_id", "software_name", "software_version")
_PHASES: Final = ("before", "during")
_MINUTE_S: Final = 60


def storm_sources(rows: DataFrame) -> DataFrame:
    """Return the clients that took part in each storm of connections; `rows` as for `storms`."""
    started = rows.groupBy(*_EPISODE).agg(F.min("first_ts").alias("started"))
    return as_table(_clients(rows).join(started, [*_EPISODE]), "storm_sources")


def storms(rows: DataFrame, storm_requests: DataFrame) -> DataFrame:
    """Return the storms of connections, with their source, their limit and their effects on other clients.

    Only the requests of the minutes and seconds of storms are counted. `rows` are those of storm_bins `with_episode`.
    They are used several times: a caller may persist them.
    """
    found = _totals(rows).join(_limits(rows), [*_EPISODE], how="left").join(_sources(_clients(rows)), [*_EPISODE])
    others = _others(found, storm_requests)
    counts = {f"others_requests_{phase}": F.coalesce(f"others_requests_{phase}", F.lit(0)) for phase in _PHASES}
    return as_table(found.join(others, [*_EPISODE], how="left").withColumns(counts), "storms")


def _totals(rows: DataFrame) -> DataFrame:
    of_episode = F.when(F.col("is_own"), F.col("accepted") + F.col("refused"))
    by_second = rows.groupBy(*_EPISODE, "bin").agg(
        F.sum(of_episode).alias("attempts"),
        F.min("first_ts").alias("first_ts"),
        F.max("last_ts").alias("last_ts"),
        F.max(F.when(F.col("is_own"), F.col("listener_rate"))).alias("listener_rate"),
        *sums(),
    )
    return by_second.groupBy(*_EPISODE).agg(
        F.min("first_ts").alias("started"),
        F.max("last_ts").alias("ended"),
        F.max("attempts").alias("peak_attempts"),
        F.max("listener_rate").alias("listener_rate"),
        *sums(),
    )


def _limits(rows: DataFrame) -> DataFrame:
    """Return the limit that held most connections, and what was accepted in the seconds wholly under it."""
    by_limit = (
        rows.where(F.col("limit_key").isNotNull() & F.col("is_own"))
        .groupBy(*_EPISODE, *LIMIT)
        .agg(F.sum(_held()).alias("held"), F.min("first_ts").alias("from"), F.max("last_ts").alias("until"))
    )
    order = F.struct(-F.col("held"), "limit_key", "limit_entity", "limit_value", "limit_quota")
    most = F.min_by(F.struct(*LIMIT, "from", "until"), order)
    limit = by_limit.groupBy(*_EPISODE).agg(most.alias("limit"))
    seconds = rows.groupBy(*_EPISODE, "bin").agg(F.sum("accepted").alias("accepted"), F.min("is_own").alias("is_own"))
    is_under = (
        F.col("is_own") & (F.col("bin") >= F.col("limit.from")) & (after(F.col("bin"), BIN_S) <= F.col("limit.until"))
    )
    admitted = (
        seconds.join(limit, [*_EPISODE])
        .groupBy(*_EPISODE)
        .agg(F.max(F.when(is_under, F.col("accepted"))).alias("held_accepted"))
    )
    return limit.select(*_EPISODE, *(F.col(f"limit.{name}").alias(name) for name in LIMIT)).join(
        admitted, [*_EPISODE], how="left"
    )


def _clients(rows: DataFrame) -> DataFrame:
    """Return the clients of each episode, with `place` 1 for the main one of its address.

    A connection that is delayed or refused shows only its address: it counts for the main client there, if any of the
    address was accepted.
    """
    clients = rows.groupBy(*_EPISODE, *CLIENT[1:]).agg(*sums())
    of_address = Window.partitionBy(*_EPISODE, "client_ip")
    by_name = (part for name in _WHO for part in _null_last(name))
    placed = clients.withColumns(
        {
            "place": F.row_number().over(of_address.orderBy(F.desc("accepted"), _held().desc(), *by_name)),
            "is_known": F.max("accepted").over(of_address) > 0,
            "all_limited": F.sum("limited").over(of_address),
            "all_refused": F.sum("refused").over(of_address),
        }
    )
    is_main = F.col("place") == 1
    joined = {
        name: F.when(~F.col("is_known"), F.col(name)).otherwise(F.when(is_main, F.col(f"all_{name}")).otherwise(0))
        for name in ("limited", "refused")
    }
    return placed.withColumns(joined).where(F.col("accepted") + _held() > 0)


def _sources(clients: DataFrame) -> DataFrame:
    """Return the address with most attempts, with its main client."""
    addresses = clients.groupBy(*_EPISODE, "client_ip").agg(
        F.sum(F.col("accepted") + F.col("refused")).alias("attempts"),
        F.min_by(F.struct(*_WHO), "place").alias("client"),
    )
    most = F.min_by(F.struct("client_ip", "attempts", "client"), F.struct(-F.col("attempts"), "client_ip"))
    software = F.concat_ws(" ", "source.client.software_name", "source.client.software_version")
    return (
        addresses.groupBy(*_EPISODE)
        .agg(most.alias("source"))
        .select(
            *_EPISODE,
            F.col("source.client_ip").alias("source_ip"),
            F.col("source.client.principal").alias("source_principal"),
            F.col("source.client.client_id").alias("source_client_id"),
            F.nullif(software, F.lit("")).alias("source_software"),
            F.col("source.attempts").alias("source_attempts"),
        )
    )


def _null_last(name: str) -> tuple[Column, Column]:
    return F.col(name).isNull(), F.col(name)


def _others(found: DataFrame, storm_requests: DataFrame) -> DataFrame:
    """Return the number and the p99 of the requests of others, before and during each episode."""
    minute = begun(F.col("started"), _MINUTE_S)
    second = begun(F.col("started"), BIN_S)
    spans = F.array(
        _span("before", _MINUTE_S, after(minute, -_MINUTE_S * BEFORE_MINUTES), minute),
        _span("before", BIN_S, minute, second),
        _span("during", BIN_S, second, after(begun(F.col("ended"), BIN_S), BIN_S)),
    )
    stormy = found.select(*_EPISODE, "source_ip", "source_client_id", F.inline(spans)).withColumn(
        "bin", F.explode("places")
    )
    is_source = F.col("client_id").eqNullSafe(F.col("source_client_id")) & (
        F.col("client_id").isNotNull() | (F.col("client_ip") == F.col("source_ip"))
    )
    of_others = storm_requests.join(F.broadcast(stormy), ["cluster_id", "bin", "seconds"]).where(~is_source)
    key = (*_EPISODE, "phase")
    phases = percentiles(_histograms(of_others, key), key, {"p99_us": 99})

    def of(name: str, phase: str) -> Column:
        return F.max(F.when(F.col("phase") == phase, F.col(name)))

    return phases.groupBy(*_EPISODE).agg(
        *(of("requests", phase).alias(f"others_requests_{phase}") for phase in _PHASES),
        *(of("p99_us", phase).alias(f"others_p99_{phase}_us") for phase in _PHASES),
    )


def _histograms(rows: DataFrame, key: Sequence[str]) -> DataFrame:
    """Return the histograms of the rows with this key, as the map `latency`."""
    buckets = rows.groupBy(*key, "bucket").agg(F.sum("measured").alias("measured"))
    entries = F.collect_list(F.struct("bucket", "measured"))
    return buckets.groupBy(*key).agg(F.map_from_entries(entries).alias("latency"))


def _span(phase: str, seconds: int, begin: Column, end: Column) -> Column:
    """Return the places of a phase in storm_requests, from `begin` to before `end`; there may be none."""
    last = after(end, -seconds)
    some = F.sequence(begin, F.greatest(begin, last), F.expr(f"interval {seconds} seconds"))
    places = F.when(last >= begin, some).otherwise(F.slice(some, 1, 0))
    return F.struct(F.lit(phase).alias("phase"), F.lit(seconds).alias("seconds"), places.alias("places"))


def _held() -> Column:
    return F.col("limited") + F.col("refused")
