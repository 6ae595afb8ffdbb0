from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.buckets import BUCKET_US
from audit_pipeline.results.frames import result_schema
from audit_pipeline.results.storms import storm_sources, storms
from tests.support.audit.spark_frames import facts, results

DAY, NEXT = "2026-11-20", "2026-11-21"


def of(time: str, ip: str, principal: str, counts: tuple[int, int, int], **more: object) -> dict[str, object]:
    accepted, limited, refused = counts
    bin_start = time if " " in time else f"{DAY} {time}"
    return {
        "event_date": bin_start[:10], "bin": bin_start, "cluster_id": "c1", "listener": "EXTERNAL", "client_ip": ip,
        "principal": principal, "accepted": accepted, "limited": limited, "refused": refused, **more,
    }  # fmt: skip


BINS = [
    of("10:00:00", "10.0.0.9", "User:a", (100, 0, 0), client_id="app", software_name="java", software_version="3"),
    of("10:00:00", "10.0.0.9", "User:b", (100, 0, 0), software_name="java"),
    of("10:00:00", "10.0.0.9", "User:ANONYMOUS", (0, 0, 30), limit_met="max"),
    of("10:00:00", "10.0.0.10", "User:c", (229, 0, 0)),
    # After a calm of 60 seconds the next bin belongs to the same episode.
    of("10:01:10", "10.0.0.9", "User:b", (70, 0, 0), software_name="java"),
    of("10:01:10", "10.0.0.9", "User:a", (70, 0, 0), client_id="app", software_name="java", software_version="3"),
    of("10:01:10", "10.0.0.9", "User:ANONYMOUS", (0, 30, 0), limit_met="ip"),
    of("10:01:20", "10.0.0.10", "User:c", (100, 0, 0)),
    # A calm of 70 seconds, and another listener meanwhile.
    of("10:02:40", "10.0.0.2", "User:c", (6, 0, 0)),
    of("10:02:40", "10.0.0.11", "User:c", (6, 0, 0)),
    of("10:00:30", "10.0.0.2", "User:c", (2, 0, 0), client_id="second", listener="INTERNAL"),
    of("10:00:30", "10.0.0.2", "User:c", (2, 0, 0), client_id="first", listener="INTERNAL"),
    of("10:00:30", "10.0.0.2", "User:c", (2, 0, 0), listener="INTERNAL"),
    # Over midnight.
    of("23:59:50", "10.0.0.9", "User:d", (0, 0, 40), cluster_id="c2", limit_met="max"),
    of(f"{NEXT} 00:00:00", "10.0.0.9", "User:d", (3, 0, 0), cluster_id="c2"),
    of(f"{NEXT} 00:00:00", "10.0.0.9", "User:d", (0, 0, 1), cluster_id="c2", limit_met="max"),
]
FIRST, MEANWHILE, SECOND, MIDNIGHT = f"{DAY} 10:00:00", f"{DAY} 10:00:30", f"{DAY} 10:02:40", f"{DAY} 23:59:50"


def took(time: str, client_id: str | None, latency: dict[int, int], **more: object) -> dict[str, object]:
    start = time if " " in time else f"{DAY} {time}"
    row = {"event_date": start[:10], "window_start": start, "cluster_id": "c1", "api": "Produce", "latency": latency}
    return {**row, "client_id": client_id, **more}


LATENCY = [
    took("09:40:00", "x", {800: 1}),
    took("09:50:00", "x", {10: 98, 20: 1}),
    took("09:50:00", None, {30: 1}, api="Fetch"),
    took("09:50:00", "app", {900: 100}),  # the source of the first storm, but not of the others
    took("10:00:00", "another", {100: 1}),
    took("10:00:00", None, {110: 1}),
    took("10:00:00", None, {900: 1}, topic="orders"),
    took("10:00:00", "app", {900: 1}, api="Metadata"),
    took("10:00:00", "app", {900: 1}, cluster_id="c2"),
    took(f"{NEXT} 00:00:00", "x", {50: 1}, cluster_id="c2"),
]


def test_storms_have_their_source_and_their_effect_on_others(spark: SparkSession) -> None:
    at = BUCKET_US
    expected = results(
        spark,
        "storms",
        ("c1", "EXTERNAL", FIRST, f"{DAY} 10:01:30", 669, 30, 30, 459, 429, "ip",
         "10.0.0.9", "User:a", "app", "java 3", 400, at[20], at[110]),
        ("c1", "EXTERNAL", SECOND, f"{DAY} 10:02:50", 12, 0, 0, 12, None, None,
         "10.0.0.11", "User:c", None, None, 6, at[900], at[100]),
        ("c1", "INTERNAL", MEANWHILE, f"{DAY} 10:00:40", 6, 0, 0, 6, None, None,
         "10.0.0.2", "User:c", "first", None, 6, at[900], at[110]),
        ("c2", "EXTERNAL", MIDNIGHT, f"{NEXT} 00:00:10", 3, 0, 41, 40, 3, "max",
         "10.0.0.9", "User:d", None, None, 44, None, at[50]),
    )  # fmt: skip
    found = storms(facts(spark, "storm_bins", *BINS), facts(spark, "latency_hist", *LATENCY))
    assertDataFrameEqual(found, expected)


def test_storm_sources_lists_the_clients_of_each_storm(spark: SparkSession) -> None:
    expected = results(
        spark,
        "storm_sources",
        ("c1", FIRST, "EXTERNAL", "User:a", "app", "10.0.0.9", "java", "3", 170, 0, 0),
        ("c1", FIRST, "EXTERNAL", "User:b", None, "10.0.0.9", "java", None, 170, 0, 0),
        ("c1", FIRST, "EXTERNAL", "User:ANONYMOUS", None, "10.0.0.9", None, None, 0, 30, 30),
        ("c1", FIRST, "EXTERNAL", "User:c", None, "10.0.0.10", None, None, 329, 0, 0),
        ("c1", SECOND, "EXTERNAL", "User:c", None, "10.0.0.2", None, None, 6, 0, 0),
        ("c1", SECOND, "EXTERNAL", "User:c", None, "10.0.0.11", None, None, 6, 0, 0),
        ("c1", MEANWHILE, "INTERNAL", "User:c", "second", "10.0.0.2", None, None, 2, 0, 0),
        ("c1", MEANWHILE, "INTERNAL", "User:c", "first", "10.0.0.2", None, None, 2, 0, 0),
        ("c1", MEANWHILE, "INTERNAL", "User:c", None, "10.0.0.2", None, None, 2, 0, 0),
        ("c2", MIDNIGHT, "EXTERNAL", "User:d", None, "10.0.0.9", None, None, 3, 0, 41),
    )
    assertDataFrameEqual(storm_sources(facts(spark, "storm_bins", *BINS)), expected)


def test_without_a_storm_no_histogram_is_looked_at(spark: SparkSession) -> None:
    unread = [
        F.raise_error(F.lit("read")).cast(field.dataType).alias(field.name) for field in result_schema("latency_hist")
    ]
    assert storms(facts(spark, "storm_bins"), spark.range(1).select(*unread)).collect() == []
