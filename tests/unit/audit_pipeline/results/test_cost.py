from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.cost import cost
from audit_pipeline.results.settings import Prices
from tests.support.audit.spark_frames import facts, results

DAY, NEXT = "2026-11-20", "2026-11-21"
GIB = 2**30
PRICES = Prices("EUR", {"ingress": 0.1, "egress": 0.0, "requests": 3.0, "storage": 0.7, "partitions": 0.01})


def test_costs_are_attributed_to_principals_with_a_remainder_without_one(spark: SparkSession) -> None:
    of_a = {"event_date": DAY, "cluster_id": "c1", "principal": "User:a"}
    rollup = facts(
        spark,
        "rollup",
        {**of_a, "requests": 5, "request_bytes": 999, "response_bytes": 999},
        {**of_a, "topic": "orders", "requests": 9, "request_bytes": GIB, "response_bytes": 3},
        {**of_a, "topic": "orders", "requests": 9, "request_bytes": GIB, "client_id": "another"},
        {**of_a, "topic": "orders", "response_bytes": 10**15, "is_follower": True},
        {**of_a, "principal": "User:b", "topic": "orders", "request_bytes": GIB},
        {**of_a, "principal": "(unknown)", "topic": "orders", "request_bytes": 4 * GIB, "response_bytes": 8},
        {**of_a, "principal": "User:reader", "topic": "orders", "response_bytes": 1},
        # The size of this topic is unknown.
        {**of_a, "topic": "new", "request_bytes": 50},
        {**of_a, "cluster_id": "c2", "topic": "orders", "request_bytes": 1},
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
    found = cost(rollup, inventory, PRICES)
    # 101 byte-hours and 10 partition-hours by 2 : 1 : 4 of 7.
    quantities = [
        (DAY, "c1", "User:a", "ingress", 2 * GIB + 50),
        (DAY, "c1", "User:a", "egress", 3),
        (DAY, "c1", "User:a", "requests", 5),
        (DAY, "c1", "User:a", "storage", 28),
        (DAY, "c1", "User:a", "partitions", 2),
        (DAY, "c1", "User:b", "ingress", GIB),
        (DAY, "c1", "User:b", "storage", 14),
        (DAY, "c1", "User:b", "partitions", 1),
        (DAY, "c1", "User:reader", "egress", 1),
        (DAY, "c1", None, "ingress", 4 * GIB),
        (DAY, "c1", None, "egress", 8),
        (DAY, "c1", None, "storage", 101 - 28 - 14 + 7),
        (DAY, "c1", None, "partitions", 10 - 2 - 1 + 1),
        (DAY, "c2", "User:a", "ingress", 1),
        (DAY, "c2", "User:a", "requests", 2),
        (NEXT, "c2", None, "partitions", 2),
    ]
    units = {"ingress": GIB, "egress": GIB, "requests": 10**6, "storage": 730 * GIB, "partitions": 1}

    def amount(resource: str, quantity: int) -> float:
        return quantity / units[resource] * PRICES.price[resource]

    def total(day: str, cluster_id: str) -> float:
        whole = dict.fromkeys(units, 0)
        for event_date, cluster, _, resource, quantity in quantities:
            whole[resource] += quantity if (event_date, cluster) == (day, cluster_id) else 0
        return sum(amount(resource, quantity) for resource, quantity in whole.items())

    priced = [(*row, amount(*row[3:]), amount(*row[3:]) / total(*row[:2]), "EUR") for row in quantities]
    assertDataFrameEqual(found, results(spark, "cost", *priced), rtol=0, atol=0)
    shares = found.groupBy("event_date", "cluster_id").agg(F.sum("share").alias("all")).collect()
    assert [round(row["all"], 12) for row in shares] == [1.0] * 3


def test_without_prices_there_are_quantities_and_free_things_have_no_share(spark: SparkSession) -> None:
    """The product of a topic's byte-hours and a producer's bytes is beyond int64."""
    huge = 2**62
    rollup = facts(
        spark,
        "rollup",
        {"cluster_id": "c1", "principal": "User:a", "topic": "t", "request_bytes": huge},
        {"cluster_id": "c1", "principal": "User:b", "topic": "t", "request_bytes": huge - 1},
    )
    inventory = facts(spark, "inventory_hours", {"cluster_id": "c1", "topic": "t", "replica_bytes": 2**63 - 1})
    stored = cost(rollup, inventory, None).where("resource = 'storage'")
    all_bytes = 2 * huge - 1
    of_a, of_b = (2**63 - 1) * huge // all_bytes, (2**63 - 1) * (huge - 1) // all_bytes
    assertDataFrameEqual(
        stored,
        results(
            spark,
            "cost",
            (DAY, "c1", "User:a", "storage", of_a, None, None, None),
            (DAY, "c1", "User:b", "storage", of_b, None, None, None),
            *[(DAY, "c1", None, "storage", left, None, None, None) for left in [2**63 - 1 - of_a - of_b] if left],
        ),
    )
    free = Prices("EUR", dict.fromkeys(PRICES.price, 0.0))
    assert {(row["amount"], row["share"]) for row in cost(rollup, inventory, free).collect()} == {(0.0, None)}
