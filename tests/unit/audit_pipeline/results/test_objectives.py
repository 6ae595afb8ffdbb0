from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.error_budget import error_budget
from audit_pipeline.results.histogram import last_bucket_within
from audit_pipeline.results.objectives import objectives
from audit_pipeline.results.settings import Objective
from tests.support.audit.spark_frames import facts, results

DAY, NEXT = "2026-11-20", "2026-11-21"
ALL = Objective("produce", "Produce", 50, 0.999)
ORDERS = Objective("orders of a", "Produce", 0.001, 0.9, 7, cluster_id="c1", topic="orders", principal="User:a")
NEVER = Objective("never", "Heartbeat", 10, 0.5)
IN_TIME = last_bucket_within(50_000)


def test_requests_that_were_good_and_those_that_were_not(spark: SparkSession) -> None:
    of_a = {"cluster_id": "c1", "principal": "User:a", "api": "Produce"}
    histograms = facts(
        spark,
        "latency_hist",
        # Level full: errors are in no bucket.
        {**of_a, "requests": 100, "errors": 10, "latency": {0: 1, IN_TIME: 85, IN_TIME + 1: 4}},
        # Level rollup: they are.
        {**of_a, "requests": 100, "errors": 10, "latency": {5: 100}},
        # A row of errors only has an empty histogram.
        {**of_a, "requests": 2, "errors": 2},
        {**of_a, "requests": 7, "latency": {0: 7}, "api": "Fetch"},
        {**of_a, "requests": 0, "api": "Heartbeat"},
        {**of_a, "requests": 1, "latency": {900: 1}, "cluster_id": "c2"},
        {**of_a, "requests": 4, "latency": {1: 3, 0: 1}, "topic": "orders", "event_date": NEXT},
        {**of_a, "requests": 4, "latency": {0: 4}, "topic": "bills", "event_date": NEXT},
        {**of_a, "requests": 4, "latency": {0: 4}, "topic": "orders", "principal": "User:b", "event_date": NEXT},
    )
    expected = results(
        spark,
        "objectives",
        # In time were 186, and no more than 202 - 22 were without an error.
        (DAY, "c1", "produce", 202, 180, 22, 0.999, 22 / (202 * (1.0 - 0.999))),
        (DAY, "c2", "produce", 1, 0, 1, 0.999, 1 / (1.0 - 0.999)),
        (NEXT, "c1", "orders of a", 4, 1, 3, 0.9, 3 / (4 * (1.0 - 0.9))),
    )
    assertDataFrameEqual(objectives(histograms, [ALL, ORDERS, NEVER]), expected, rtol=0, atol=0)
    assert objectives(histograms, []).collect() == []


def test_the_budget_of_the_last_days(spark: SparkSession) -> None:
    week = Objective("orders", "Produce", 50, 0.99, 7)
    month = Objective("bills", "Fetch", 50, 0.5, 30)

    def day(date: str, objective: str, requests: int, bad: int, cluster_id: str = "c1") -> dict[str, object]:
        counts = {"requests": requests, "bad": bad, "good": requests - bad}
        return {"event_date": date, "cluster_id": cluster_id, "objective": objective, "target": 0.1, **counts}

    days = facts(
        spark,
        "objectives",
        day("2026-11-13", "orders", 1000, 1000),
        day("2026-11-14", "orders", 100, 2),
        day("2026-11-20", "orders", 300, 2),
        day("2026-11-13", "bills", 10, 5),
        day("2026-11-20", "is no more", 10, 5),
        day("2026-12-25", "is no more", 10, 5, "c2"),
        day("2026-11-25", "orders", 10, 5, "c2"),
    )
    expected = results(
        spark,
        "error_budget",
        ("c1", "orders", "2026-11-14", "2026-11-20", 400, 4, 0.99, 4 / (400 * (1.0 - 0.99))),
        ("c1", "bills", "2026-10-22", "2026-11-20", 10, 5, 0.5, 1.0),
    )
    assertDataFrameEqual(error_budget(days, [week, month]), expected, rtol=0, atol=0)
    assert error_budget(days, []).collect() == []
