"""Connections by second of each target that a limit could have: listeners, addresses and ranges. Pure."""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.arrivals.targets import CIDR, EVERY, IP, LISTENER, STORM, USUAL
from audit_pipeline.results.requested.addresses import address_group

CHOSEN_MAX: Final = 10
"""Addresses, and ranges, of a cluster that get a recommended limit."""
TENS_S: Final = 10
"""The seconds in a row over which the connections of a storm are counted."""

TARGET: Final = ("cluster_id", "kind", "target")
SERIES: Final = ("cluster_id", "broker_id", "kind", "target")


def by_address(parts: DataFrame) -> DataFrame:
    """Return the connections of each address by second, over all listeners: a limit of an address applies to all.

    `parts` are the arrival_parts. Hashes of addresses are left out: no limit can name them.
    """
    is_address = F.col("client_ip").contains(".") | F.col("client_ip").contains(":")
    return _seconds(parts.where(is_address), F.col("part") != STORM, "cluster_id", "broker_id", "client_ip")


def every_address(addresses: DataFrame) -> DataFrame:
    """Return the series of each address for the limits that every address has: with kind, target and client_ip."""
    target = F.when(F.col("client_ip").contains(":"), EVERY[":"]).otherwise(EVERY["."])
    return addresses.withColumns({"kind": F.lit(CIDR), "target": target})


def target_seconds(parts: DataFrame, addresses: DataFrame) -> DataFrame:
    """Return the series of listeners, and of the addresses and ranges that had most connections in storms.

    Columns: cluster_id, broker_id, kind, target, second, attempts, usual, of_storm, storm. `addresses` is by_address.
    """
    listeners = _seconds(parts, F.col("part") == USUAL, "cluster_id", "broker_id", "listener")
    named = {IP: F.col("client_ip"), CIDR: address_group(F.col("client_ip"))}
    found = listeners.withColumnRenamed("listener", "target").withColumn("kind", F.lit(LISTENER))
    for kind, target in named.items():
        of_kind = addresses.withColumns({"kind": F.lit(kind), "target": target})
        chosen = F.broadcast(_chosen(of_kind, least_addresses=1 if kind == IP else 2))
        found = found.unionByName(_merged(of_kind.join(chosen, [*TARGET], how="left_semi")))
    return found


def storm_tens(series: DataFrame, *address: str) -> DataFrame:
    """Return the storms of each target, and the most connections in ten seconds of the largest and smallest one.

    `address` is client_ip for series that are of one address each. A limit is on each broker, so that connections are
    counted on the broker that had most.
    """
    of_series = Window.partitionBy(*SERIES, *address).orderBy("second").rangeBetween(0, TENS_S - 1)
    tens = series.where(F.col("of_storm") > 0).withColumn("tens", F.sum("of_storm").over(of_series))
    by_storm = tens.groupBy(*TARGET, "storm").agg(F.max("tens").alias("tens"))
    return by_storm.groupBy(*TARGET).agg(
        F.count("*").alias("storms"), F.max("tens").alias("storm_most"), F.min("tens").alias("storm_least")
    )


def demands_of_every_address(every: DataFrame) -> DataFrame:
    """Return the greatest demand of an address on each broker: SERIES, connections, storm_connections, burst, needed.

    A limit that rejects needs the most connections that an address opens in two seconds in a row: three seconds have at
    most twice as many, and two seconds' worth of tokens. `burst_s` is the first second of the burst.
    """
    of_address = Window.partitionBy(*SERIES, "client_ip").orderBy("second")
    usual = every.where(F.col("usual") > 0).withColumns(
        {
            "in_two": F.sum("usual").over(of_address.rangeBetween(0, 1)),
            "in_ten": F.sum("usual").over(of_address.rangeBetween(0, TENS_S - 1)),
        }
    )
    bursts = usual.groupBy(*SERIES).agg(
        F.max("in_two").alias("needed"),
        F.max_by(F.struct("in_ten", "second"), F.struct("in_ten", -F.col("second"))).alias("most"),
    )
    totals = every.groupBy(*SERIES).agg(
        F.sum("attempts").alias("connections"), F.sum("of_storm").alias("storm_connections")
    )
    none = F.lit(0).cast("bigint")
    return totals.join(bursts, [*SERIES], how="left").select(
        *SERIES,
        "connections",
        "storm_connections",
        F.coalesce("most.in_ten", none).alias("burst"),
        F.coalesce("most.second", none).alias("burst_s"),
        F.coalesce("needed", none).alias("needed"),
    )


def _seconds(parts: DataFrame, is_usual: Column, *place: str) -> DataFrame:
    return parts.groupBy(*place, "second").agg(
        F.sum("attempts").alias("attempts"),
        F.sum(F.when(is_usual, F.col("attempts")).otherwise(0)).alias("usual"),
        F.sum(F.when(is_usual, 0).otherwise(F.col("attempts"))).alias("of_storm"),
        F.max("storm").alias("storm"),
    )


def _merged(series: DataFrame) -> DataFrame:
    sums = (F.sum(name).alias(name) for name in ("attempts", "usual", "of_storm"))
    return series.groupBy(*SERIES, "second").agg(*sums, F.max("storm").alias("storm"))


def _chosen(series: DataFrame, least_addresses: int) -> DataFrame:
    """Return the targets with most connections in storms; among equal ones, most in a second, most of all, by name."""
    totals = series.groupBy(*TARGET).agg(
        F.sum("of_storm").alias("of_storm"),
        F.max("attempts").alias("most"),
        F.sum("attempts").alias("attempts"),
        F.count_distinct("client_ip").alias("addresses"),
    )
    order = Window.partitionBy("cluster_id", "kind").orderBy(
        F.desc("of_storm"), F.desc("most"), F.desc("attempts"), "target"
    )
    several = totals.where(F.col("addresses") >= least_addresses).withColumn("place", F.row_number().over(order))
    return several.where(F.col("place") <= CHOSEN_MAX).select(*TARGET)
