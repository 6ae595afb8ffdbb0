from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.coverage import coverage
from audit_pipeline.results.frames import EventFrames
from audit_pipeline.results.heard_windows import heard_windows, registrations
from tests.support.audit.spark_frames import events, facts, frame, results

HOLES = "at_us bigint, cluster_id string, broker_id int, holes bigint, open_since_us bigint"

DAY, NEXT = "2026-11-20", "2026-11-21"


def at(ts: str, seq: int, broker_id: int = 1, **more: object) -> dict[str, object]:
    return {"ts": ts, "seq": seq, "cluster_id": "c1", "broker_id": broker_id, "boot_id": "a", **more}


def test_each_number_counts_once_and_gaps_only_are_seen_where_nothing_else_is(spark: SparkSession) -> None:
    found = heard_windows(
        EventFrames(
            request=events(spark, "request", at(f"{DAY} 10:00:00", 1), at(f"{DAY} 23:59:59.999999", 2)),
            partition=events(spark, "partition", at(f"{DAY} 09:00:00", 1), at(f"{DAY} 09:00:00", 1)),
            connection=events(spark, "connection", at(f"{NEXT} 00:00:00", 3)),
            inventory=events(spark, "inventory", at(f"{DAY} 10:30:00", 1, broker_id=2)),
            change=events(
                spark, "change", at(f"{DAY} 10:30:01", 2, broker_id=2), at(f"{DAY} 10:30:01", 3, broker_id=2)
            ),
            connection_limit=events(spark, "connection_limit", at(f"{DAY} 10:30:02", 4, broker_id=2)),
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
        "heard_windows",
        (DAY, f"{DAY} 10:00:00", "c1", 1, f"{DAY} 10:00:00", f"{DAY} 10:00:00", 1, 0, 0),
        (DAY, f"{DAY} 23:50:00", "c1", 1, f"{DAY} 23:59:59.999999", f"{DAY} 23:59:59.999999", 1, 1, 1),
        (DAY, f"{DAY} 08:00:00", "c1", 1, f"{DAY} 08:00:00", f"{DAY} 08:00:00", 0, 1, 10),
        (NEXT, f"{NEXT} 00:00:00", "c1", 1, f"{NEXT} 00:00:00", f"{NEXT} 00:02:00", 1 + 10 + 7 + 7, 0, 0),
        (DAY, f"{DAY} 10:30:00", "c1", 2, f"{DAY} 10:30:00", f"{DAY} 10:30:02", 4, 0, 0),
        (DAY, f"{DAY} 11:00:00", "c1", 3, f"{DAY} 11:00:00", f"{DAY} 11:00:00", 0, 1, 1),
        (DAY, f"{DAY} 12:00:00", "c1", 3, f"{DAY} 12:00:00", f"{DAY} 12:00:00", 0, 1, 3),
    )
    assertDataFrameEqual(found, expected)


def test_holes_and_registered_brokers_without_events_are_in_their_windows(spark: SparkSession) -> None:
    inventory = events(
        spark,
        "inventory",
        at(f"{DAY} 10:30:00", 1, registered_brokers="1,2,30"),
        at(f"{DAY} 10:20:00", 2, registered_brokers="1,30"),
        at(f"{DAY} 10:40:00", 3, registered_brokers="1,4"),
        at(f"{DAY} 09:50:00", 5, registered_brokers="1"),
        at(f"{DAY} 09:00:00", 4),
    )
    registered = registrations(inventory)
    expected = results(
        spark,
        "registrations",
        (DAY, f"{DAY} 09:00:00", "c1", 1, f"{DAY} 09:50:00"),
        (DAY, f"{DAY} 10:00:00", "c1", 1, f"{DAY} 10:20:00"),
        (DAY, f"{DAY} 10:00:00", "c1", 2, f"{DAY} 10:30:00"),
        (DAY, f"{DAY} 10:00:00", "c1", 4, f"{DAY} 10:40:00"),
        (DAY, f"{DAY} 10:00:00", "c1", 30, f"{DAY} 10:20:00"),
    )
    assertDataFrameEqual(registered, expected)

    def heard(broker_id: int, window: str, events: int) -> dict[str, object]:
        ts = f"{DAY} {window}"
        told = {"cluster_id": "c1", "broker_id": broker_id, "window_start": ts, "first_ts": ts, "last_ts": ts}
        return {**told, "event_date": DAY, "events": events}

    ten_us = 1_795_168_800_000_000
    minute_us = 60_000_000
    holes = frame(
        spark,
        HOLES,
        [
            (ten_us + 3 * minute_us, "c1", 1, 5, None),
            (ten_us + 19 * minute_us, "c1", 1, 1, ten_us + 19 * minute_us),
            (ten_us + 11 * minute_us, "c1", 1, 2, None),
        ],
    )
    windows = facts(spark, "heard_windows", heard(1, "10:00:00", 7), heard(2, "10:30:00", 3))
    settled_us = ten_us + 40 * minute_us
    expected = results(
        spark,
        "coverage",
        (DAY, f"{DAY} 10:00:00", "c1", 1, f"{DAY} 10:00:00", f"{DAY} 10:00:00", 7, 0, 0, 5, None),
        (DAY, f"{DAY} 10:10:00", "c1", 1, None, None, 0, 0, 0, 3, f"{DAY} 10:19:00"),
        (DAY, f"{DAY} 10:30:00", "c1", 2, f"{DAY} 10:30:00", f"{DAY} 10:30:00", 3, 0, 0, 0, None),
        (DAY, f"{DAY} 10:20:00", "c1", 30, None, None, 0, 0, 0, 1, None),
    )
    assertDataFrameEqual(coverage(windows, holes, registered, settled_us), expected)
