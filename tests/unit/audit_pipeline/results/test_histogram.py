"""Buckets are the broker's, whatever counts them; percentiles are ranks in integers."""

from math import ceil, log

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.buckets import BUCKET_US
from audit_pipeline.results.histogram import (
    bucket_of,
    bucket_us,
    last_bucket_within,
    percentiles,
)

LONGEST_US = 13 * 3600 * 1_000_000


def exact_bucket(us: int) -> int:
    """The smallest b with us <= (26 / 25) ^ b."""
    bucket = next(b for b, value in enumerate(BUCKET_US) if value + 1 >= us)
    return next(b for b in range(bucket, bucket + 40) if us * 25**b <= 26**b)


ENDS = [26**b // 25**b for b in range(1, 640) if 26**b // 25**b <= LONGEST_US]
EDGES = sorted({us for end in ENDS for us in (end, end + 1)})


def test_a_time_has_the_bucket_that_the_broker_counts_it_in(spark: SparkSession) -> None:
    times = [0, 1, *EDGES, 2**62]
    frame = spark.createDataFrame([(us,) for us in times], "us bigint")
    found = frame.select("us", bucket_of(F.col("us")).alias("bucket"))
    assert found.schema["bucket"].dataType.typeName() == "short"
    buckets = {row["us"]: row["bucket"] for row in found.collect()}
    assert (buckets.pop(0), buckets.pop(1), buckets.pop(2**62)) == (0, 0, ceil(log(2**62) / log(1.04)))
    assert buckets == {us: exact_bucket(us) for us in EDGES if us > 1}
    assert buckets == {us: ceil(log(us) / log(1.04)) for us in EDGES if us > 1}


def test_a_threshold_takes_the_buckets_that_are_within_it_as_a_whole() -> None:
    assert last_bucket_within(1) == 0
    assert last_bucket_within(0.5) < 0
    for us in (50, 999, 50_000, 1_234_567):
        bucket = last_bucket_within(us)
        assert 26**bucket <= us * 25**bucket
        assert 26 ** (bucket + 1) > us * 25 ** (bucket + 1)


def test_the_value_of_a_bucket_is_the_rounded_power(spark: SparkSession) -> None:
    assert BUCKET_US[:1] + BUCKET_US[17:20] + (BUCKET_US[282],) == (1, 2, 2, 2, 63_592)
    last = len(BUCKET_US) - 1
    frame = spark.createDataFrame([(-3,), (0,), (282,), (last,), (32_767,), (None,)], "bucket smallint")
    found = [row[0] for row in frame.select(bucket_us(F.col("bucket"))).collect()]
    assert found == [1, 1, 63_592, BUCKET_US[last], BUCKET_US[last], None]


def test_histograms_are_added_up_and_asked_for_percentiles(spark: SparkSession) -> None:
    rows = [
        ("a", None, {0: 49, 100: 1}),
        ("a", None, {}),
        ("a", None, {100: 45, 282: 4, 300: 1}),
        ("b", None, {5: 1}),
        ("b", "c", {}),
        ("b", "d", {7: 0, 9: 3}),
    ]
    frame = spark.createDataFrame(rows, "one string, other string, latency map<smallint,bigint>")
    key = ["one", "other"]
    a100, a282, a300, b5, b9 = BUCKET_US[100], BUCKET_US[282], BUCKET_US[300], BUCKET_US[5], BUCKET_US[9]
    assertDataFrameEqual(
        percentiles(frame, key, {"p50": 50, "p95": 95, "p99": 99, "p100": 100}),
        spark.createDataFrame(
            [
                ("a", None, 100, a100, a100, a282, a300),
                ("b", None, 1, b5, b5, b5, b5),
                ("b", "d", 3, b9, b9, b9, b9),
            ],
            "one string, other string, requests bigint, p50 bigint, p95 bigint, p99 bigint, p100 bigint",
        ),
    )
