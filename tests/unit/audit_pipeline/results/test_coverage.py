from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.coverage import coverage
from audit_pipeline.results.frames import EventFrames
from tests.support.audit.spark_frames import events, results

DAY, NEXT = "2026-11-20", "2026-11-21"


def at(ts: str, seq: int, broker_id: int = 1, **more: object) -> dict[str, object]:
    return {"ts": ts, "seq": seq, "cluster_id": "c1", "broker_id": broker_id, "boot_id": "a", **more}


def test_each_number_counts_once_and_gaps_only_are_seen_where_nothing_else_is(spark: SparkSession) -> None:
    found = coverage(
        EventFrames(
            request=events(spark, "request", at(f"{DAY} 10:00:00", 1), at(f"{DAY} 23:59:59.999999", 2)),
            partition=events(spark, "partition", at(f"{DAY} 09:00:00", 1), at(f"{DAY} 09:00:00", 1)),
            connection=events(spark, "connection", at(f"{NEXT} 00:00:00", 3)),
            inventory=events(spark, "inventory", at(f"{DAY} 10:30:00", 1, broker_id=2)),
            rollup=events(
                spark,
                "rollup",
                at(f"{NEXT} 00:01:00", 13, first_seq=4, client_ip="10.0.0.1"),
                at(f"{NEXT} 00:01:00", 13, first_seq=4, client_ip="10.0.0.2", topic="orders"),
                at(f"{NEXT} 00:02:00", 20, first_seq=14),
                at(f"{NEXT} 00:02:00", 20, first_seq=14, boot_id="b"),
            ),
            gap=events(
                spark,
                "gap",
                at(f"{DAY} 08:00:00", 30, first_seq=21, events=10),
                at(f"{DAY} 23:59:59.999999", 31, first_seq=31, events=1),
                at(f"{DAY} 12:00:00", 9, broker_id=3, first_seq=7, events=3),
                at(f"{DAY} 11:00:00", 6, broker_id=3, first_seq=5, events=1),
            ),
        )
    )
    expected = results(
        spark,
        "coverage",
        (DAY, "c1", 1, f"{DAY} 10:00:00", f"{DAY} 23:59:59.999999", 2, 2, 11),
        (NEXT, "c1", 1, f"{NEXT} 00:00:00", f"{NEXT} 00:02:00", 1 + 10 + 7 + 7, 0, 0),
        (DAY, "c1", 2, f"{DAY} 10:30:00", f"{DAY} 10:30:00", 1, 0, 0),
        (DAY, "c1", 3, f"{DAY} 11:00:00", f"{DAY} 12:00:00", 0, 2, 4),
    )
    assertDataFrameEqual(found, expected)
