from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.inventory_hours import inventory_hours
from tests.support.audit.spark_frames import frame, results

INVENTORY = (
    "ts timestamp, cluster_id string, broker_id int, boot_id string, seq bigint, topic string, partition int,"
    " bytes bigint, is_leader boolean"
)


def test_the_last_telling_of_each_broker_and_hour_counts(spark: SparkSession) -> None:
    day = "2026-11-20"
    told = frame(
        spark,
        INVENTORY,
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
        (day, f"{day} 10:00:00", "c1", "orders", 2, 120 + 90 + 7 + 8, 8),
        (day, f"{day} 11:00:00", "c1", "orders", 1, 121, 121),
        (day, f"{day} 10:00:00", "c2", "orders", 1, 0, 0),
        ("2026-11-21", "2026-11-21 00:00:00", "c1", "orders", 1, 9_000_000_000_000, 9_000_000_000_000),
    )
    assertDataFrameEqual(inventory_hours(told), expected)
