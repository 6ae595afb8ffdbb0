from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.correctness import correctness
from audit_pipeline.results.settings import Mirror
from tests.support.audit.spark_frames import facts, results

DAY, NEXT = "2026-11-20", "2026-11-21"
EU = Mirror("eu", "c1", "c2", "eu.")


def test_what_is_complete_lagging_lost_or_too_much(spark: SparkSession) -> None:
    def records(
        cluster_id: str, topic: str, bucket: str, placed: int, possible: int, ending: int, day: str = DAY
    ) -> dict[str, object]:
        counts = {"records_placed": placed, "records_possible": possible, "records_ending": ending}
        return {"event_date": day, "cluster_id": cluster_id, "topic": topic, "bucket": bucket, **counts}

    at = [f"{DAY} {10 + number // 6}:{number % 6}0:00" for number in range(8)]
    buckets = facts(
        spark,
        "mirror_buckets",
        records("c1", "orders", at[0], 100, 110, 105),
        records("c1", "orders", at[1], 100, 100, 100),
        records("c1", "orders", at[2], 60, 60, 60),
        records("c1", "orders", at[2], 40, 45, 45, NEXT),  # arrived after midnight
        records("c1", "orders", at[3], 10, 10, 10),
        records("c1", "orders", at[4], 10, 10, 10),
        records("c1", "orders", at[5], 10, 10, 10),
        records("c2", "eu.orders", at[0], 90, 100, 95),
        records("c2", "eu.orders", at[1], 80, 99, 90),
        records("c2", "eu.orders", at[2], 106, 106, 106),
        records("c2", "eu.orders", at[3], 10, 10, 10, NEXT),
        records("c2", "eu.orders", at[5], 0, 9, 0),  # possibly, but none ends here
        records("c2", "eu.orders", at[6], 1, 1, 0),
        records("c2", "eu.only there", at[0], 5, 5, 5),
        records("c2", "eu.", at[0], 5, 5, 5),
        records("c2", "orders", at[0], 5, 5, 5),
        records("c1", "_internal", at[0], 5, 5, 5),
        records("c2", "eu._internal", at[0], 4, 4, 4),
        records("c1", "silent", f"{NEXT} 00:00:00", 2, 2, 2),
        records("c3", "orders", at[0], 5, 5, 5),
    )

    def day(date: str, cluster_id: str, is_complete: bool, broker_id: int = 1) -> dict[str, object]:
        return {"event_date": date, "cluster_id": cluster_id, "broker_id": broker_id, "is_complete": is_complete}

    completeness = facts(
        spark, "completeness", day(DAY, "c1", True), day(DAY, "c2", True), day(NEXT, "c1", True), day(DAY, "c3", False)
    )
    expected = [
        ("eu", "orders", at[0], 100, 110, 90, 100, 105, 95, "complete", 0, True),
        ("eu", "orders", at[1], 100, 100, 80, 99, 100, 90, "loss", 1, True),
        ("eu", "orders", at[2], 100, 105, 106, 106, 105, 106, "surplus", 0, True),
        ("eu", "orders", at[3], 10, 10, 10, 10, 10, 10, "complete", 0, True),
        ("eu", "orders", at[4], 10, 10, 0, 0, 10, 0, "lagging", 10, True),
        ("eu", "orders", at[5], 10, 10, 0, 9, 10, 0, "lagging", 1, True),
        ("eu", "orders", at[6], 0, 0, 1, 1, 0, 0, "surplus", 0, True),
        ("eu", "silent", f"{NEXT} 00:00:00", 2, 2, 0, 0, 2, 0, "lagging", 2, False),
    ]
    found = correctness(buckets, [EU], completeness)
    assertDataFrameEqual(found, results(spark, "correctness", *expected))
    assert correctness(buckets, [], completeness).collect() == []

    chosen = Mirror("chosen", "c2", "c1", topics=("eu.", "eu.ord*"))
    both = correctness(buckets, [EU, chosen], completeness.where(f"event_date <> '{DAY}' or cluster_id <> 'c2'"))
    seen = {(row["mirror"], row["topic"], row["status"], row["is_certain"]) for row in both.collect()}
    assert {row for row in seen if row[0] == "chosen"} == {
        ("chosen", "eu.", "lagging", False),
        ("chosen", "eu.orders", "complete", False),  # of a bucket that may have records, and may have none
        ("chosen", "eu.orders", "lagging", False),
    }
    assert {row[3] for row in seen} == {False}
