"""The cost of a day, by the principal or client that caused it, and by topic. Pure."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.settings import RESOURCES, Prices
from audit_pipeline.results.tables import NONE, UNKNOWN

_DAY: Final = ("event_date", "cluster_id")
_TOPIC: Final = (*_DAY, "topic")
_ENTRY = "struct<dimension:string,name:string,resource:string,quantity:bigint>"
_CAUSES: Final = ("principal", "client_id")


def cost(usage: DataFrame, inventory_hours: DataFrame, prices: Prices | None) -> DataFrame:
    """Return the cost of each day by principal or client ID, and by topic.

    Storage and partitions are entered without a name, then moved to those who cause them.
    """
    held = inventory_hours.groupBy(*_TOPIC).agg(
        F.sum("replica_bytes").alias("storage"), F.sum("partitions").alias("partitions")
    )
    used = _used(usage)
    parts = (*(_caused(used, held, dimension) for dimension in _CAUSES), _of_topics(used, held), _unnamed(held))
    quantities = (
        reduce(DataFrame.unionByName, parts)
        .groupBy(*_DAY, "dimension", "name", "resource")
        .agg(F.sum("quantity").alias("quantity"))
        .where(F.col("quantity") != 0)
    )
    return as_table(_priced(quantities, prices), "cost")


def _used(usage: DataFrame) -> DataFrame:
    """Return the use by clients, with the name of each cause; the name is null if the client is unknown."""
    is_known = F.col("principal") != UNKNOWN
    who = {"principal": F.col("principal"), "client_id": F.coalesce("client_id", F.lit(NONE))}
    by_clients = usage.where(~F.col("is_follower")).withColumns(
        {dimension: F.when(is_known, name) for dimension, name in who.items()}
    )
    return by_clients.groupBy(*_TOPIC, *_CAUSES).agg(
        F.sum("requests").alias("requests"), F.sum("in_bytes").alias("produced"), F.sum("out_bytes").alias("fetched")
    )


def _caused(used: DataFrame, held: DataFrame, dimension: str) -> DataFrame:
    sums = (F.sum(name).alias(name) for name in ("requests", "produced", "fetched"))
    by_name = used.groupBy(*_TOPIC, F.col(dimension).alias("name")).agg(*sums)
    all_produced = F.sum("produced").over(Window.partitionBy(*_TOPIC))
    shared = by_name.withColumn("all_produced", all_produced).join(held, [*_TOPIC], how="left")
    taken = (entry for resource in ("storage", "partitions") for entry in _taken_over(dimension, resource))
    of_topic = F.array(
        _entry(dimension, F.col("name"), "ingress", F.col("produced")),
        _entry(dimension, F.col("name"), "egress", F.col("fetched")),
        *taken,
    )
    of_requests = F.array(_entry(dimension, F.col("name"), "requests", F.col("requests")))
    return shared.select(*_DAY, F.inline(F.when(F.col("topic").isNull(), of_requests).otherwise(of_topic)))


def _taken_over(dimension: str, resource: str) -> tuple[Column, Column]:
    """Return the share of a name that produced, and its counter-entry. Products of two int64 need decimals."""
    quantity, produced = (F.col(name).cast("decimal(19,0)") for name in (resource, "produced"))
    whole = F.call_function("div", quantity * produced, F.col("all_produced").cast("decimal(38,0)"))
    has_share = F.col("name").isNotNull() & (F.col("produced") > 0) & F.col(resource).isNotNull()
    share = F.when(has_share, whole).otherwise(0)
    return _entry(dimension, F.col("name"), resource, share), _entry(dimension, F.lit(None), resource, -share)


def _of_topics(used: DataFrame, held: DataFrame) -> DataFrame:
    """Return the dimension topic: it has no sharing, and no topic for requests."""
    topic, is_topic = F.col("topic"), F.col("topic").isNotNull()
    of_use = F.array(
        _entry("topic", topic, "ingress", F.when(is_topic, F.col("produced")).otherwise(0)),
        _entry("topic", topic, "egress", F.when(is_topic, F.col("fetched")).otherwise(0)),
        _entry("topic", F.lit(None), "requests", F.when(~is_topic, F.col("requests")).otherwise(0)),
    )
    of_held = F.array(*(_entry("topic", topic, name, F.col(name)) for name in ("storage", "partitions")))
    return used.select(*_DAY, F.inline(of_use)).unionByName(held.select(*_DAY, F.inline(of_held)))


def _unnamed(held: DataFrame) -> DataFrame:
    """Return storage and partitions as rows without a name: none of it is attributed yet."""
    entries = F.array(
        *(_entry(who, F.lit(None), name, F.col(name)) for who in _CAUSES for name in ("storage", "partitions"))
    )
    return held.select(*_DAY, F.inline(entries))


def _entry(dimension: str, name: Column, resource: str, quantity: Column) -> Column:
    return F.struct(F.lit(dimension), name, F.lit(resource), quantity).cast(_ENTRY)


def _priced(quantities: DataFrame, prices: Prices | None) -> DataFrame:
    if prices is None:
        unknown = F.lit(None)
        return quantities.withColumns({"amount": unknown, "share": unknown, "currency": unknown})
    day = Window.partitionBy(*_DAY, "dimension")
    totals, amount = [], F.lit(None).cast("double")
    for resource, (_, units) in RESOURCES.items():
        of_this = F.col("resource") == resource
        whole = F.sum(F.when(of_this, F.col("quantity")).otherwise(0)).over(day)
        totals.append(_amount(whole, units, prices.price[resource]))
        amount = F.when(of_this, _amount(F.col("quantity"), units, prices.price[resource])).otherwise(amount)
    total = reduce(Column.__add__, totals)
    share = F.when(total > 0, amount / total)
    return quantities.withColumns({"amount": amount, "share": share, "currency": F.lit(prices.currency)})


def _amount(quantity: Column, units: int, price: float) -> Column:
    return quantity.cast("double") / F.lit(float(units)) * F.lit(price)
