"""The cost of a day, by the principal that caused it. Pure."""

from functools import reduce
from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.frames import as_table
from audit_pipeline.results.settings import RESOURCES, Prices
from audit_pipeline.results.tables import UNKNOWN

_DAY: Final = ("event_date", "cluster_id")
_TOPIC: Final = (*_DAY, "topic")
_ENTRY = "struct<principal:string,resource:string,quantity:bigint>"


def cost(rollup: DataFrame, inventory_hours: DataFrame, prices: Prices | None) -> DataFrame:
    """Compute the costs. Storage and partitions are entered without a name, then moved to principals by share."""
    held = inventory_hours.groupBy(*_TOPIC).agg(
        F.sum("replica_bytes").alias("storage"), F.sum("partitions").alias("partitions")
    )
    nobody = F.lit(None)
    unnamed = F.array(*(_entry(nobody, name, F.col(name)) for name in ("storage", "partitions")))
    entries = _caused(rollup, held).unionByName(held.select(*_DAY, F.inline(unnamed)))
    quantities = (
        entries.groupBy(*_DAY, "principal", "resource")
        .agg(F.sum("quantity").alias("quantity"))
        .where(F.col("quantity") != 0)
    )
    return as_table(_priced(quantities, prices), "cost")


def _caused(rollup: DataFrame, held: DataFrame) -> DataFrame:
    by_clients = rollup.where(~F.col("is_follower"))
    used = by_clients.groupBy(*_TOPIC, "principal").agg(
        F.sum("requests").alias("requests"),
        F.sum("request_bytes").alias("produced"),
        F.sum("response_bytes").alias("fetched"),
    )
    all_produced = F.sum("produced").over(Window.partitionBy(*_TOPIC))
    shared = used.withColumn("all_produced", all_produced).join(held, [*_TOPIC], how="left")
    who = F.when(F.col("principal") != UNKNOWN, F.col("principal"))
    named = (entry for name in ("storage", "partitions") for entry in _taken_over(who, name))
    of_topic = F.array(_entry(who, "ingress", F.col("produced")), _entry(who, "egress", F.col("fetched")), *named)
    of_requests = F.array(_entry(who, "requests", F.col("requests")))
    return shared.select(*_DAY, F.inline(F.when(F.col("topic").isNull(), of_requests).otherwise(of_topic)))


def _taken_over(who: Column, resource: str) -> tuple[Column, Column]:
    """Return the share of a principal that produced, and its counter-entry. Products of two int64 need decimals."""
    quantity, produced = (F.col(name).cast("decimal(19,0)") for name in (resource, "produced"))
    whole = F.call_function("div", quantity * produced, F.col("all_produced").cast("decimal(38,0)"))
    has_share = who.isNotNull() & (F.col("produced") > 0) & F.col(resource).isNotNull()
    share = F.when(has_share, whole).otherwise(0)
    return _entry(who, resource, share), _entry(F.lit(None), resource, -share)


def _entry(who: Column, resource: str, quantity: Column) -> Column:
    return F.struct(who, F.lit(resource), quantity).cast(_ENTRY)


def _priced(quantities: DataFrame, prices: Prices | None) -> DataFrame:
    if prices is None:
        unknown = F.lit(None)
        return quantities.withColumns({"amount": unknown, "share": unknown, "currency": unknown})
    day = Window.partitionBy(*_DAY)
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
