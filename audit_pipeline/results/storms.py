"""Connection storms: participants, source, and effects on other clients. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import CLIENT, as_table
from audit_pipeline.results.histogram import percentiles
from audit_pipeline.results.storm_bins import sums
from audit_pipeline.results.tables import BIN_S, WINDOW_MINUTES
from audit_pipeline.results.times import after, begun

CALM_S: Final = 60
"""A longer calm ends a storm."""

_STORM: Final = ("cluster_id", "listener", "started")


def storm_sources(storm_bins: DataFrame) -> DataFrame:
    clients = _with_start(storm_bins).groupBy(*_STORM, *CLIENT[1:]).agg(*sums())
    return as_table(clients, "storm_sources")


def storms(storm_bins: DataFrame, latency_hist: DataFrame) -> DataFrame:
    """Compute the storms. Only the windows of storms are read from latency_hist."""
    bins = _with_start(storm_bins)
    found = (
        _totals(bins)
        .join(_limits(bins), [*_STORM], how="left")
        .join(_sources(storm_sources(storm_bins)), [*_STORM], how="inner")
    )
    return as_table(found.join(_others(found, latency_hist), [*_STORM], how="left"), "storms")


def _with_start(storm_bins: DataFrame) -> DataFrame:
    at_listener = Window.partitionBy("cluster_id", "listener").orderBy("bin")
    before = F.lag("bin").over(at_listener)
    begins = before.isNull() | (F.col("bin") > after(before, BIN_S + CALM_S))
    so_far = at_listener.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    started = F.max(F.when(F.col("begins"), F.col("bin"))).over(so_far)
    return storm_bins.withColumn("begins", begins).withColumn("started", started)


def _totals(bins: DataFrame) -> DataFrame:
    return (
        bins.groupBy(*_STORM, "bin")
        .agg(*sums())
        .groupBy(*_STORM)
        .agg(
            after(F.max("bin"), BIN_S).alias("ended"),
            F.max(F.col("accepted") + F.col("refused")).alias("peak_attempts"),
            F.max(F.when(_held() > 0, F.col("accepted"))).alias("held_accepted"),
            *sums(),
        )
    )


def _limits(bins: DataFrame) -> DataFrame:
    held = bins.where(F.col("limit_met").isNotNull()).groupBy(*_STORM, "limit_met").agg(F.sum(_held()).alias("held"))
    most = F.min_by("limit_met", F.struct(-F.col("held"), "limit_met"))
    return held.groupBy(*_STORM).agg(most.alias("limit_met"))


def _sources(clients: DataFrame) -> DataFrame:
    """Return the address with most attempts, then the client behind it: a refused connection shows only its address."""
    by_name = (part for name in CLIENT if name not in ("listener", "client_ip") for part in _null_last(name))
    first = F.struct(-F.col("accepted"), -_held(), *by_name)
    addresses = clients.groupBy(*_STORM, "client_ip").agg(
        F.sum(F.col("accepted") + _held()).alias("attempts"),
        F.min_by(F.struct("principal", "client_id", "software_name", "software_version"), first).alias("client"),
    )
    most = F.min_by(F.struct("client_ip", "attempts", "client"), F.struct(-F.col("attempts"), "client_ip"))
    software = F.concat_ws(" ", "source.client.software_name", "source.client.software_version")
    return (
        addresses.groupBy(*_STORM)
        .agg(most.alias("source"))
        .select(
            *_STORM,
            F.col("source.client_ip").alias("source_ip"),
            F.col("source.client.principal").alias("source_principal"),
            F.col("source.client.client_id").alias("source_client_id"),
            F.nullif(software, F.lit("")).alias("source_software"),
            F.col("source.attempts").alias("source_attempts"),
        )
    )


def _null_last(name: str) -> tuple[Column, Column]:
    return F.col(name).isNull().alias(f"no_{name}"), F.col(name)


def _others(found: DataFrame, latency_hist: DataFrame) -> DataFrame:
    window_s = 60 * WINDOW_MINUTES
    first = begun(F.col("started"), window_s)
    before = (after(first, -window_s), after(first, -window_s))
    during = (first, begun(F.timestamp_micros(F.unix_micros("ended") - 1), window_s))
    stormy = (
        found.select(
            *_STORM, "source_client_id", F.inline(F.array(_windows("before", *before), _windows("during", *during)))
        )
        .withColumn("window_start", F.explode("windows"))
        .withColumn("event_date", F.to_date("window_start"))
    )
    is_data = F.col("topic").isNull() & F.col("api").isin("Produce", "Fetch")
    timed = latency_hist.where(is_data).select("event_date", "cluster_id", "window_start", "client_id", "latency")
    is_source = F.col("client_id").eqNullSafe(F.col("source_client_id"))
    others = timed.join(F.broadcast(stormy), ["event_date", "cluster_id", "window_start"], how="inner").where(
        ~is_source
    )
    key = (*_STORM, "phase")
    phases = percentiles(others, key, {"p99_us": 99})
    return phases.groupBy(*_STORM).agg(
        *(F.max(F.when(F.col("phase") == p, F.col("p99_us"))).alias(f"others_p99_{p}_us") for p in ("before", "during"))
    )


def _windows(phase: str, first: Column, last: Column) -> Column:
    windows = F.sequence(first, last, F.expr(f"interval {WINDOW_MINUTES} minutes"))
    return F.struct(F.lit(phase).alias("phase"), windows.alias("windows"))


def _held() -> Column:
    return F.col("limited") + F.col("refused")
