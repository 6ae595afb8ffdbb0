from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.inventories.inventory_hours import inventory_hours
from audit_pipeline.results.inventories.replica_hours import replica_hours
from tests.support.audit.spark_frames import frame, results

INVENTORY = (
    "ts timestamp, cluster_id string, broker_id int, boot_id string, seq bigint, topic string, partition int,"
    " bytes bigint, is_leader boolean, is_deleted boolean"
)


def rows(spark: SparkSession, told: Sequence[tuple[object, ...]]) -> DataFrame:
    """Reports; those without a last value are of version 1.0."""
    return frame(spark, INVENTORY, [(*each, *[None] * (10 - len(each))) for each in told])


def test_the_last_telling_of_each_brokers_newest_boot_counts(spark: SparkSession) -> None:
    day = "2026-11-20"
    told = rows(
        spark,
        [
            (f"{day} 10:00:01", "c1", 1, "a", 5, "orders", 0, 100, True),
            (f"{day} 10:00:01", "c1", 2, "a", 5, "orders", 0, 90, False),
            (f"{day} 10:00:02", "c1", 1, "a", 6, "orders", 1, 7, True),
            # Broker 1 was restarted and no longer leads; its clock is behind, and its boot is what counts.
            (f"{day} 10:59:59.999999", "c1", 1, "a", 900, "orders", 0, 500, True),
            (f"{day} 10:30:00", "c1", 1, "b", 2, "orders", 0, 120, False),
            # Two replicas claim to lead: the leader's size is the greater.
            (f"{day} 10:10:00", "c1", 2, "a", 9, "orders", 1, 8, True),
            # The next hour, another cluster, the next day.
            (f"{day} 11:00:00", "c1", 1, "b", 3, "orders", 0, 121, True),
            (f"{day} 10:00:00", "c2", 1, "a", 1, "orders", 0, 0, True),
            ("2026-11-21 00:00:00", "c1", 1, "b", 9, "orders", 0, 9_000_000_000_000, True),
        ],
    )
    expected = results(
        spark,
        "inventory_hours",
        (day, f"{day} 10:00:00", "c1", "orders", 2, 120 + 90 + 8, 8),
        # Broker 2 has not told in this hour yet.
        (day, f"{day} 11:00:00", "c1", "orders", 2, 121 + 90 + 8, 121 + 8),
        (day, f"{day} 10:00:00", "c2", "orders", 1, 0, 0),
        ("2026-11-21", "2026-11-21 00:00:00", "c1", "orders", 1, 9_000_000_000_000, 9_000_000_000_000),
    )
    assertDataFrameEqual(inventory_hours(replica_hours(told)), expected)


def test_brokers_that_tell_at_different_times_of_the_hour_all_count(spark: SparkSession) -> None:
    day = "2026-11-20"
    told = [
        (f"{day} {hour}:{minute}:00", "c1", broker, "a", int(hour), "orders", broker, 100, True)
        for broker, minute in ((1, "05"), (2, "35"), (3, "55"))
        for hour in ("12", "13")
        if (hour, minute) <= ("13", "10")
    ]
    expected = results(
        spark,
        "inventory_hours",
        (day, f"{day} 12:00:00", "c1", "orders", 3, 300, 300),
        (day, f"{day} 13:00:00", "c1", "orders", 3, 300, 300),
    )
    assertDataFrameEqual(inventory_hours(replica_hours(rows(spark, told))), expected)


def test_a_deleted_partition_is_not_there_any_more_and_reports_do_not_reach_further(spark: SparkSession) -> None:
    day = "2026-11-20"
    told = [
        (f"{day} 22:50:00", "c1", 1, "a", 1, "kept", 0, 5, True, False),
        (f"{day} 22:50:00", "c1", 1, "a", 2, "gone", 0, 5, True, False),
        (f"{day} 23:05:00", "c1", 1, "a", 3, "gone", 0, 0, False, True),
        (f"{day} 20:05:00", "c1", 2, "a", 3, "elsewhere", 0, 1, True, False),
        ("2026-11-21 00:05:00", "c1", 2, "a", 4, "elsewhere", 0, 1, True, False),
    ]
    expected = results(
        spark,
        "inventory_hours",
        (day, f"{day} 20:00:00", "c1", "elsewhere", 1, 1, 1),
        (day, f"{day} 22:00:00", "c1", "kept", 1, 5, 5),
        (day, f"{day} 22:00:00", "c1", "gone", 1, 5, 5),
        (day, f"{day} 23:00:00", "c1", "kept", 1, 5, 5),
        ("2026-11-21", "2026-11-21 00:00:00", "c1", "elsewhere", 1, 1, 1),
    )
    assertDataFrameEqual(inventory_hours(replica_hours(rows(spark, told))), expected)
