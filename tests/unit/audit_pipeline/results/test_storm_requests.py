from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.frames import event_schema
from audit_pipeline.results.settings import StormLimits
from audit_pipeline.results.storm_requests import storm_requests
from tests.support.audit.spark_frames import events, results

DAY, BEFORE = "2026-11-20", "2026-11-19"
LIMITS = StormLimits(connections=2, held=9)


def accepted(ts: str) -> dict[str, object]:
    return {"event": "accepted", "ts": f"{DAY} {ts}", "cluster_id": "c1", "listener": "EXTERNAL"}


def asked(ts: str, total_us: int = 1, **more: object) -> dict[str, object]:
    row = {"ts": ts if "-" in ts else f"{DAY} {ts}", "cluster_id": "c1", "api": "Produce", "ending": "answered"}
    return {**row, "client_ip": "10.0.0.1", "client_id": "app", "total_us": total_us, **more}


def test_requests_count_by_the_second_in_storms_and_by_the_minute_before_them(spark: SparkSession) -> None:
    storm = [accepted(f"00:12:{second}") for second in (30, 30.9, 38, 38.5)]
    request = events(
        spark,
        "request",
        asked("00:02:00"),
        asked("00:02:30", 1_000, api="Fetch", wait_us=999),
        asked("00:01:59.999999"),
        asked("00:12:00"),
        asked("00:12:34.5"),
        asked("00:12:34.9"),
        asked("00:12:34.9", client_id=None),
        asked("00:12:39"),
        asked("00:13:00"),
        *(asked("00:12:34", **other) for other in (
            {"error_code": 1}, {"ending": "hung up"}, {"replica_id": 1}, {"api": "Metadata"}, {"cluster_id": "c2"}
        )),
    )  # fmt: skip
    who = ("c1", "10.0.0.1", "app", 0)
    expected = results(
        spark,
        "storm_requests",
        (DAY, f"{DAY} 00:02:00", 60, *who, 2),
        (DAY, f"{DAY} 00:12:00", 60, *who, 4),
        (DAY, f"{DAY} 00:12:00", 60, "c1", "10.0.0.1", None, 0, 1),
        (DAY, f"{DAY} 00:12:00", 1, *who, 1),
        (DAY, f"{DAY} 00:12:34", 1, *who, 2),
        (DAY, f"{DAY} 00:12:34", 1, "c1", "10.0.0.1", None, 0, 1),
    )
    assertDataFrameEqual(storm_requests(events(spark, "connection", *storm), request, LIMITS), expected)


def test_a_day_has_its_own_requests_in_whatever_company_it_is_built(spark: SparkSession) -> None:
    storm = events(spark, "connection", *(accepted(f"00:00:0{second}") for second in (1, 2)))
    request = events(spark, "request", asked(f"{BEFORE} 23:59:59"))
    assert storm_requests(storm, request, LIMITS).collect() == []


def test_without_a_storm_no_request_is_looked_at(spark: SparkSession) -> None:
    connection = events(spark, "connection", accepted("10:00:00"))
    unread = [F.raise_error(F.lit("read")).cast(field.dataType).alias(field.name) for field in event_schema("request")]
    assert storm_requests(connection, spark.range(1).select(*unread), LIMITS).collect() == []
