from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.cost import cost
from audit_pipeline.results.settings import Prices
from tests.support.audit.spark_frames import facts, results

DAY, NEXT = "2026-11-20", "2026-11-21"
GIB = 2**30
PRICES = Prices("EUR", {"ingress": 0.1, "egress": 0.0, "requests": 3.0, "storage": 0.7, "partitions": 0.01})


OTHERS = {
    ("client_id", "(none)", "ingress"): 2 * GIB + 50,
    ("client_id", "(none)", "egress"): 4,
    ("client_id", "(none)", "requests"): 5,
    ("client_id", "(none)", "storage"): 28,
    ("client_id", "(none)", "partitions"): 2,
    ("client_id", "another", "ingress"): GIB,
    ("client_id", "another", "storage"): 14,
    ("client_id", "another", "partitions"): 1,
    ("client_id", None, "ingress"): 4 * GIB,
    ("client_id", None, "egress"): 8,
    ("client_id", None, "storage"): 101 - 28 - 14 + 7,
    ("client_id", None, "partitions"): 10 - 2 - 1 + 1,
    ("topic", "orders", "ingress"): 7 * GIB,
    ("topic", "orders", "egress"): 12,
    ("topic", "orders", "storage"): 101,
    ("topic", "orders", "partitions"): 10,
    ("topic", "new", "ingress"): 50,
    ("topic", "nobody's", "storage"): 7,
    ("topic", "nobody's", "partitions"): 1,
    ("topic", None, "requests"): 5,
}
"""Quantities in the dimensions client_id and topic."""


def test_costs_are_attributed_to_principals_with_a_remainder_without_one(spark: SparkSession) -> None:
    of_a = {"event_date": DAY, "cluster_id": "c1", "principal": "User:a"}
    usage = facts(
        spark,
        "usage",
        {**of_a, "requests": 5, "in_bytes": 999, "out_bytes": 999},
        {**of_a, "topic": "orders", "requests": 9, "in_bytes": GIB, "out_bytes": 3},
        {**of_a, "topic": "orders", "requests": 9, "in_bytes": GIB, "client_id": "another"},
        {**of_a, "topic": "orders", "out_bytes": 10**15, "is_follower": True},
        {**of_a, "principal": "User:b", "topic": "orders", "in_bytes": GIB},
        {**of_a, "principal": "(unknown)", "topic": "orders", "in_bytes": 4 * GIB, "out_bytes": 8},
        {**of_a, "principal": "User:reader", "topic": "orders", "out_bytes": 1},
        # The size of this topic is unknown.
        {**of_a, "topic": "new", "in_bytes": 50},
        {**of_a, "cluster_id": "c2", "topic": "orders", "in_bytes": 1},
        {**of_a, "cluster_id": "c2", "requests": 2},
    )

    def hour(topic: str, partitions: int, size: int, hour: int = 0, **more: str) -> dict[str, object]:
        told = {"topic": topic, "partitions": partitions, "replica_bytes": size, "hour": f"{DAY} {hour:02}:00:00"}
        return {"event_date": DAY, "cluster_id": "c1", **told, **more}

    inventory = facts(
        spark,
        "inventory_hours",
        hour("orders", 5, 60, 0),
        hour("orders", 5, 41, 1),
        hour("nobody's", 1, 7),
        hour("empty", 0, 0, event_date=NEXT, cluster_id="c3"),
        hour("lonely", 2, 0, event_date=NEXT, cluster_id="c2"),
    )
    every = cost(usage, inventory, PRICES)
    found = every.where("dimension = 'principal'")
    # 101 byte-hours and 10 partition-hours by 2 : 1 : 4 of 7.
    quantities = [
        (DAY, "c1", "principal", "User:a", "ingress", 2 * GIB + 50),
        (DAY, "c1", "principal", "User:a", "egress", 3),
        (DAY, "c1", "principal", "User:a", "requests", 5),
        (DAY, "c1", "principal", "User:a", "storage", 28),
        (DAY, "c1", "principal", "User:a", "partitions", 2),
        (DAY, "c1", "principal", "User:b", "ingress", GIB),
        (DAY, "c1", "principal", "User:b", "storage", 14),
        (DAY, "c1", "principal", "User:b", "partitions", 1),
        (DAY, "c1", "principal", "User:reader", "egress", 1),
        (DAY, "c1", "principal", None, "ingress", 4 * GIB),
        (DAY, "c1", "principal", None, "egress", 8),
        (DAY, "c1", "principal", None, "storage", 101 - 28 - 14 + 7),
        (DAY, "c1", "principal", None, "partitions", 10 - 2 - 1 + 1),
        (DAY, "c2", "principal", "User:a", "ingress", 1),
        (DAY, "c2", "principal", "User:a", "requests", 2),
        (NEXT, "c2", "principal", None, "partitions", 2),
    ]
    units = {"ingress": GIB, "egress": GIB, "requests": 10**6, "storage": 730 * GIB, "partitions": 1}

    def amount(resource: str, quantity: int) -> float:
        return quantity / units[resource] * PRICES.price[resource]

    def total(day: str, cluster_id: str) -> float:
        whole = dict.fromkeys(units, 0)
        for event_date, cluster, _, _, resource, quantity in quantities:
            whole[resource] += quantity if (event_date, cluster) == (day, cluster_id) else 0
        return sum(amount(resource, quantity) for resource, quantity in whole.items())

    priced = [(*row, amount(*row[4:]), amount(*row[4:]) / total(*row[:2]), "EUR") for row in quantities]
    assertDataFrameEqual(found, results(spark, "cost", *priced), rtol=0, atol=0)
    shares = every.groupBy("event_date", "cluster_id", "dimension").agg(F.sum("share").alias("all")).collect()
    assert [round(row["all"], 12) for row in shares] == [1.0] * 9
    others = every.where("dimension <> 'principal' AND event_date = '2026-11-20' AND cluster_id = 'c1'")
    named = {(row["dimension"], row["name"], row["resource"]): row["quantity"] for row in others.collect()}
    assert named == OTHERS


def test_without_prices_there_are_quantities_and_free_things_have_no_share(spark: SparkSession) -> None:
    """The product of a topic's byte-hours and a producer's bytes is beyond int64."""
    huge = 2**62
    usage = facts(
        spark,
        "usage",
        {"cluster_id": "c1", "principal": "User:a", "topic": "t", "in_bytes": huge},
        {"cluster_id": "c1", "principal": "User:b", "topic": "t", "in_bytes": huge - 1},
    )
    inventory = facts(spark, "inventory_hours", {"cluster_id": "c1", "topic": "t", "replica_bytes": 2**63 - 1})
    stored = cost(usage, inventory, None).where("resource = 'storage' AND dimension = 'principal'")
    all_bytes = 2 * huge - 1
    of_a, of_b = (2**63 - 1) * huge // all_bytes, (2**63 - 1) * (huge - 1) // all_bytes
    assertDataFrameEqual(
        stored,
        results(
            spark,
            "cost",
            (DAY, "c1", "principal", "User:a", "storage", of_a, None, None, None),
            (DAY, "c1", "principal", "User:b", "storage", of_b, None, None, None),
            *[
                (DAY, "c1", "principal", None, "storage", left, None, None, None)
                for left in [2**63 - 1 - of_a - of_b]
                if left
            ],
        ),
    )
    free = Prices("EUR", dict.fromkeys(PRICES.price, 0.0))
    assert {(row["amount"], row["share"]) for row in cost(usage, inventory, free).collect()} == {(0.0, None)}
