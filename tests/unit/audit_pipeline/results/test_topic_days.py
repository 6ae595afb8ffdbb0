from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.topic_days import topic_days
from tests.support.audit.spark_frames import frame, results

USAGE = (
    "event_date date, last_moved timestamp, cluster_id string, topic string, is_follower boolean,"
    " in_bytes bigint, out_bytes bigint"
)


def test_what_clients_did_to_each_topic_of_each_day_and_cluster(spark: SparkSession) -> None:
    day, next_day = "2026-11-20", "2026-11-21"
    usage = frame(
        spark,
        USAGE,
        [
            (day, f"{day} 10:01:00", "c1", "orders", False, 100, 0),
            (day, f"{day} 09:00:00", "c1", "orders", False, 20, 0),
            (day, f"{day} 11:00:00", "c1", "orders", False, 0, 7),
            (day, f"{day} 23:59:00", "c1", "orders", False, 0, 0),  # only an error
            (day, f"{day} 23:58:00", "c1", "orders", True, 0, 1000),  # a follower
            (day, f"{day} 23:57:00", "c1", None, False, 999, 999),  # requests, not partitions
            (next_day, f"{next_day} 00:00:00", "c1", "orders", False, 5, 0),
            (day, f"{day} 12:00:00", "c2", "orders", False, 0, 3),
            (day, f"{day} 12:00:00", "c2", "denied", False, 0, 0),
            (day, f"{day} 12:00:00", "c2", "copied", True, 0, 50),
        ],
    )
    expected = results(
        spark,
        "topic_days",
        (day, "c1", "orders", f"{day} 10:01:00", f"{day} 11:00:00", 120, 7),
        (next_day, "c1", "orders", f"{next_day} 00:00:00", None, 5, 0),
        (day, "c2", "orders", None, f"{day} 12:00:00", 0, 3),
        (day, "c2", "denied", None, None, 0, 0),
    )
    assertDataFrameEqual(topic_days(usage), expected)


def test_a_day_without_usage_has_no_topics(spark: SparkSession) -> None:
    assert topic_days(frame(spark, USAGE, [])).collect() == []
