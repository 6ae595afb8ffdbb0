from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.inventories.idle_topics import idle_topics
from tests.support.audit.spark_frames import facts, results

DAY, NEXT, LATER = "2026-11-20", "2026-11-21", "2026-11-22"


def test_topics_that_are_there_and_when_they_were_last_used(spark: SparkSession) -> None:
    def used(day: str, topic: str, produced: str | None, fetched: str | None) -> dict[str, object]:
        times = {"last_produced": produced, "last_fetched": fetched}
        return {"event_date": day, "cluster_id": "c1", "topic": topic, **times}

    topic_days = facts(
        spark,
        "topic_days",
        used(DAY, "orders", f"{DAY} 10:00:00", None),
        used(NEXT, "orders", f"{NEXT} 03:00:00", f"{NEXT} 02:00:00"),
        used(LATER, "orders", None, None),
        used(DAY, "gone", f"{DAY} 10:00:00", None),
    )

    def told(
        time: str, broker: int, topic: str, partition: int, size: int, cluster_id: str = "c1"
    ) -> dict[str, object]:
        where = {"cluster_id": cluster_id, "broker_id": broker, "topic": topic, "partition": partition}
        return {"event_date": time[:10], "told": time, "bytes": size, **where}

    replicas = facts(
        spark,
        "replicas",
        told(f"{DAY} 12:00:00", 1, "gone", 0, 1),
        told(f"{LATER} 00:05:00", 1, "orders", 0, 10),
        told(f"{LATER} 00:05:00", 1, "orders", 1, 10),
        told(f"{LATER} 00:05:00", 1, "brand new", 0, 4),
        # This broker has told since midnight, so that what it told before counts no more.
        told(f"{NEXT} 23:55:00", 1, "just gone", 0, 5),
        # This one has not.
        told(f"{NEXT} 23:35:00", 2, "Orders.DLQ", 0, 5),
        told(f"{NEXT} 23:35:00", 2, "orders", 1, 6),
        told(f"{NEXT} 23:35:00", 2, "orders", 2, 4),
        # This one has been silent for more than two hours.
        told(f"{NEXT} 22:00:00", 3, "moved away", 0, 5),
        told(f"{DAY} 12:00:00", 1, "orders", 0, 9, "c2"),
    )
    coverage = facts(
        spark,
        "coverage",
        {"event_date": DAY, "cluster_id": "c1", "first_ts": f"{DAY} 09:30:00.5", "last_ts": f"{DAY} 23:00:00"},
        {"event_date": LATER, "cluster_id": "c1", "first_ts": f"{LATER} 00:00:00", "last_ts": f"{LATER} 00:30:00.4"},
        {"event_date": DAY, "cluster_id": "c2", "first_ts": f"{DAY} 12:00:00", "last_ts": f"{DAY} 12:00:00"},
    )

    def day(date: str, broker_id: int, events: int, is_complete: bool, cluster_id: str = "c1") -> dict[str, object]:
        counts = {"events": events, "is_complete": is_complete}
        return {"event_date": date, "cluster_id": cluster_id, "broker_id": broker_id, **counts}

    completeness = facts(
        spark,
        "completeness",
        day(DAY, 1, 10, False),
        day(DAY, 2, 10, False),
        day(NEXT, 1, 10, True),
        day(LATER, 1, 10, True),
        day("2026-11-19", 1, 0, False),  # files were set aside, and nothing else is known of that day
        day(DAY, 1, 1, True, "c2"),
    )
    from_c1, to_c1 = f"{DAY} 09:30:00.5", f"{LATER} 00:30:00.4"
    expected = results(
        spark,
        "idle_topics",
        ("c1", "brand new", 1, 4, None, None, 38, from_c1, to_c1, 3, 1, False),
        ("c1", "orders", 3, 30, f"{NEXT} 03:00:00", f"{NEXT} 02:00:00", 21, from_c1, to_c1, 3, 1, False),
        ("c1", "Orders.DLQ", 1, 5, None, None, 38, from_c1, to_c1, 3, 1, True),
        ("c2", "orders", 1, 9, None, None, 0, f"{DAY} 12:00:00", f"{DAY} 12:00:00", 1, 0, False),
    )
    assertDataFrameEqual(idle_topics(topic_days, replicas, coverage, completeness), expected)
