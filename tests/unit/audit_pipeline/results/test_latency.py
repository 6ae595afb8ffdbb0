from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.buckets import BUCKET_US
from audit_pipeline.results.latency import latency
from tests.support.audit.spark_frames import facts, results

DAY = "2026-11-20"


def test_percentiles_of_windows_by_api_principal_and_topic(spark: SparkSession) -> None:
    ten, ten_past = f"{DAY} 10:00:00", f"{DAY} 10:10:00"
    of_a = {"cluster_id": "c1", "api": "Produce", "principal": "User:a", "window_start": ten}
    of_b = {**of_a, "principal": "User:b"}
    histograms = facts(
        spark,
        "latency_hist",
        {**of_a, "latency": {0: 48, 200: 1}},
        {**of_a, "client_id": "shop", "latency": {0: 1, 250: 50}},
        {**of_a, "window_start": ten_past, "latency": {300: 1}},
        {**of_b, "client_id": "shop", "latency": {400: 1}},
        {**of_b, "topic": "orders", "latency": {400: 3}},
        {**of_a, "topic": "orders", "latency": {10: 1}},
        {**of_b, "cluster_id": "c2", "api": "Fetch", "requests": 5, "latency": {}},
    )
    at = BUCKET_US
    expected = results(
        spark,
        "latency",
        (DAY, ten, "c1", "Produce", "api", "", 101, at[250], at[250], at[250]),
        (DAY, ten, "c1", "Produce", "principal", "User:a", 100, at[200], at[250], at[250]),
        (DAY, ten, "c1", "Produce", "principal", "User:b", 1, at[400], at[400], at[400]),
        (DAY, ten, "c1", "Produce", "topic", "orders", 4, at[400], at[400], at[400]),
        (DAY, ten_past, "c1", "Produce", "api", "", 1, at[300], at[300], at[300]),
        (DAY, ten_past, "c1", "Produce", "principal", "User:a", 1, at[300], at[300], at[300]),
    )
    assertDataFrameEqual(latency(histograms), expected)
