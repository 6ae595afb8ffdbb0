from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.frames import event_schema
from audit_pipeline.results.storms.storm_requests import storm_requests
from tests.support.audit.spark_frames import events, facts, results

DAY, BEFORE = "2026-11-20", "2026-11-19"


def stormy(*seconds: str) -> list[dict[str, object]]:
    return [
        {"event_date": DAY, "bin": f"{DAY} {second}", "cluster_id": "c1", "listener": "EXTERNAL", "client_ip": ip}
        for second in seconds
        for ip in ("10.0.0.8", "10.0.0.9")
    ]


def asked(ts: str, total_us: int = 1, **more: object) -> dict[str, object]:
    row = {"ts": ts if "-" in ts else f"{DAY} {ts}", "cluster_id": "c1", "api": "Produce", "ending": "answered"}
    return {**row, "client_ip": "10.0.0.1", "client_id": "app", "total_us": total_us, **more}


def test_requests_count_by_the_second_in_storms_and_by_the_minute_before_them(spark: SparkSession) -> None:
    storm = facts(spark, "storm_bins", *stormy("00:12:30", "00:12:38"))
    request = events(
        spark,
        "request",
        asked("00:02:00"),
        asked("00:02:30", 1_000, api="Fetch", api_key=1, wait_us=999),
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
    assertDataFrameEqual(storm_requests(storm, request), expected)


def test_minutes_before_a_storm_may_be_of_the_day_before(spark: SparkSession) -> None:
    storm = facts(spark, "storm_bins", *stormy("00:00:01"))
    request = events(spark, "request", asked(f"{BEFORE} 23:59:59"), asked(f"{BEFORE} 23:49:59"))
    expected = results(spark, "storm_requests", (BEFORE, f"{BEFORE} 23:59:00", 60, "c1", "10.0.0.1", "app", 0, 1))
    assertDataFrameEqual(storm_requests(storm, request), expected)


def test_without_a_storm_no_request_is_looked_at(spark: SparkSession) -> None:
    unread = [F.raise_error(F.lit("read")).cast(field.dataType).alias(field.name) for field in event_schema("request")]
    assert storm_requests(facts(spark, "storm_bins"), spark.range(1).select(*unread)).collect() == []
