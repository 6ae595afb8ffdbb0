from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.inventories.replica_hours import replica_hours
from audit_pipeline.results.inventories.replicas import replicas
from tests.support.audit.spark_frames import events, results

DAY = "2026-11-20"


def test_replicas_at_the_end_of_a_day(spark: SparkSession) -> None:
    def told(time: str, broker: int, seq: int, topic: str, size: int, **more: object) -> dict[str, object]:
        where = {"cluster_id": "c1", "broker_id": broker, "boot_id": "b", "seq": seq, "topic": topic, "bytes": size}
        return {**where, "ts": f"{DAY} {time}", **more}

    inventory = events(
        spark,
        "inventory",
        told("20:00:00", 1, 1, "orders", 1),
        told("21:30:00", 1, 5, "orders", 30),
        told("21:30:00", 1, 6, "orders", 31, partition=1),
        told("20:00:00", 1, 2, "deleted", 7),
        told("21:40:00", 1, 7, "deleted", 0, is_deleted=True),
        told("19:39:59", 1, 3, "not told for long", 7),
        told("19:41:00", 2, 9, "orders", 8),
        told("19:41:00", 2, 9, "of an older boot", 8, boot_id="a"),
        told("12:00:00", 3, 9, "of a broker that is gone", 8),
        told("12:00:00", 3, 9, "of another cluster", 8, cluster_id="c2"),
    )
    expected = results(
        spark,
        "replicas",
        (DAY, "c1", 1, "orders", 0, f"{DAY} 21:30:00", 30),
        (DAY, "c1", 1, "orders", 1, f"{DAY} 21:30:00", 31),
        (DAY, "c1", 2, "orders", 0, f"{DAY} 19:41:00", 8),
        (DAY, "c2", 3, "of another cluster", 0, f"{DAY} 12:00:00", 8),
    )
    assertDataFrameEqual(replicas(replica_hours(inventory)), expected)
