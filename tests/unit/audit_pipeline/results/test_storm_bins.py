from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.frames import event_schema
from audit_pipeline.results.settings import StormLimits
from audit_pipeline.results.storm_bins import storm_bins
from tests.support.audit.spark_frames import events, results

DAY, NEXT = "2026-11-20", "2026-11-21"
LIMITS = StormLimits(connections=5, held=2)
NOBODY = {"principal": "User:ANONYMOUS", "client_id": None}


def of(event: str, ts: str, connection_id: int | None, **more: object) -> dict[str, object]:
    return {
        "event": event, "ts": f"{DAY} {ts}", "connection_id": connection_id, "seq": 1, "cluster_id": "c1",
        "broker_id": 1, "boot_id": "a", "listener": "EXTERNAL", "client_ip": "10.0.0.1", **NOBODY, **more,
    }  # fmt: skip


def asked(ts: str, connection_id: int, seq: int, principal: str, **more: object) -> dict[str, object]:
    named = {"client_id": "app", "software_name": "java", "software_version": "3.9", "seq": seq, "principal": principal}
    row = of("", ts, connection_id, **{**named, **more})
    return {name: value for name, value in row.items() if name != "event"}


def test_connections_of_stormy_bins_by_who_they_turned_out_to_be(spark: SparkSession) -> None:
    told = {"principal": "User:a", "client_id": None, "software_name": "java"}
    connection = events(
        spark,
        "connection",
        *(of("accepted", "10:00:00", id) for id in (1, 2, 3)),
        of("accepted", "10:00:09.999999", 4, reason="not a limit"),
        of("accepted", "10:00:05", 2, broker_id=2),
        of("limited", "10:00:05", None, reason="ip-rate"),
        of("refused", "10:00:05", None, reason="max-connections"),
        # Their identities: 1 by its end, 2 by its first request, 3 unknown, as its end is of another boot.
        of("closed", "11:00:00", 1, **told),
        of("closed", "11:00:00", 3, boot_id="b", **told),
        {**of("closed", "00:00:00", 4, **told), "ts": f"{NEXT} 00:00:00"},
        # One less, at another listener, in the next bin, and on another day.
        *(of("accepted", "10:00:00", id, listener="INTERNAL") for id in range(10, 14)),
        *(of("accepted", "10:00:10", id) for id in range(20, 24)),
        of("limited", "10:00:10", None, reason="ip-rate"),
        # Held connections alone are a storm too.
        of("limited", "10:10:00", 30, reason="ip-rate"),
        of("refused", "10:10:00", None, reason="ip-rate"),
    )
    request = events(
        spark,
        "request",
        asked("10:00:01", 1, 5, "User:not this"),
        asked("10:00:02", 2, 9, "User:not this either"),
        asked("10:00:03", 2, 7, "User:b"),
        asked("10:00:01", 2, 3, "User:of another broker", broker_id=2),
        asked("10:10:01", 30, 50, "User:b"),
    )
    at, later = f"{DAY} 10:00:00", f"{DAY} 10:10:00"
    who = ("c1", "EXTERNAL")
    expected = results(
        spark,
        "storm_bins",
        (DAY, at, *who, "User:a", None, "10.0.0.1", "java", None, None, 1, 0, 0),
        (DAY, at, *who, "User:b", "app", "10.0.0.1", "java", "3.9", None, 1, 0, 0),
        (DAY, at, *who, "User:of another broker", "app", "10.0.0.1", "java", "3.9", None, 1, 0, 0),
        (DAY, at, *who, "User:ANONYMOUS", None, "10.0.0.1", None, None, None, 2, 0, 0),
        (DAY, at, *who, "User:ANONYMOUS", None, "10.0.0.1", None, None, "ip-rate", 0, 1, 0),
        (DAY, at, *who, "User:ANONYMOUS", None, "10.0.0.1", None, None, "max-connections", 0, 0, 1),
        (DAY, later, *who, "User:b", "app", "10.0.0.1", "java", "3.9", "ip-rate", 0, 1, 0),
        (DAY, later, *who, "User:ANONYMOUS", None, "10.0.0.1", None, None, "ip-rate", 0, 0, 1),
    )
    assertDataFrameEqual(storm_bins(connection, request, LIMITS), expected)


def test_without_a_storm_no_request_is_looked_at(spark: SparkSession) -> None:
    connection = events(spark, "connection", of("accepted", "10:00:00", 1), of("closed", "10:00:01", 1))
    unread = [F.raise_error(F.lit("read")).cast(field.dataType).alias(field.name) for field in event_schema("request")]
    assert storm_bins(connection, spark.range(1).select(*unread), LIMITS).collect() == []
