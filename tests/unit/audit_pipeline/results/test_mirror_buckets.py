from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.mirror_buckets import mirror_buckets
from tests.support.audit.spark_frames import frame, results

DAY = "2026-11-20"
NOON = f"{DAY} 12:00:00"
Row = tuple[str | int | None, ...]
PARTITION = (
    "ts timestamp, cluster_id string, topic string, api_key smallint, records int, base_ts timestamp,"
    " max_ts timestamp, error_code smallint"
)


def test_batches_are_placed_with_a_guard_of_two_seconds(spark: SparkSession) -> None:
    def produced(
        topic: str, records: int | None, base: str | None, last: str | None, code: int = 0, key: int = 0
    ) -> Row:
        times = [None if time is None else f"{DAY} {time}" for time in (base, last)]
        return (f"{DAY} 12:00:00", "c1", topic, key, records, *times, code)

    batches = [
        produced("in", 10, "10:00:02", "10:09:57.999999"),
        produced("in", 1, "10:00:01.999", "10:00:05"),  # may have records before ten
        produced("in", 100, "10:09:50", "10:09:58"),  # may have some after
        produced("in", 1000, "09:55:00", "10:15:00"),
        produced("in", 7, "10:05:00", "10:05:00", code=3),
        produced("in", 7, "10:05:00", "10:05:00", key=1),
        produced("in", None, "10:05:00", "10:05:00"),
        produced("in", 0, "10:05:00", "10:05:00"),
        produced("in", 7, None, "10:05:00"),
        produced("in", 7, "10:05:00", None),
        produced("append time", 5, "10:25:00", "10:15:00"),
    ]
    expected = results(
        spark,
        "mirror_buckets",
        (DAY, NOON, "c1", "in", f"{DAY} 09:50:00", 0, 1001, 0),
        (DAY, NOON, "c1", "in", f"{DAY} 10:00:00", 10, 1111, 111),
        (DAY, NOON, "c1", "in", f"{DAY} 10:10:00", 0, 1100, 1000),
        (DAY, NOON, "c1", "append time", f"{DAY} 10:10:00", 5, 5, 5),
    )
    assertDataFrameEqual(mirror_buckets(frame(spark, PARTITION, batches)), expected)


def test_a_batch_with_records_of_long_ago_is_in_the_last_day_of_buckets(spark: SparkSession) -> None:
    rows = [(f"{DAY} 12:00:00", "c1", "old", 0, 2**31 - 1, "1970-01-01 00:00:00", f"{DAY} 11:59:58", 0)] * 3
    found = mirror_buckets(frame(spark, PARTITION, rows)).collect()
    buckets = sorted(row["bucket"].isoformat(" ") for row in found)
    assert (len(buckets), buckets[0], buckets[-1]) == (144, "2026-11-19 12:10:00", f"{DAY} 12:00:00")
    assert {row["records_possible"] for row in found} == {3 * (2**31 - 1)}
    assert [row["bucket"].isoformat(" ") for row in found if row["records_ending"]] == [f"{DAY} 11:50:00"]


def test_a_bucket_has_a_row_for_each_hour_in_which_its_records_were_produced(spark: SparkSession) -> None:
    times = f"{DAY} 11:55:00", f"{DAY} 11:55:01"
    rows = [(f"{DAY} {at}", "c1", "in", 0, 10, *times, 0) for at in ("11:59:59.999999", "12:00:00", "12:30:00")]
    found = mirror_buckets(frame(spark, PARTITION, rows)).collect()
    assert sorted((f"{row['hour']:%H}", row["records_placed"]) for row in found) == [("11", 10), ("12", 20)]
