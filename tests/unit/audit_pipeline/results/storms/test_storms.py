from datetime import datetime, timedelta
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.results.buckets import BUCKET_US
from audit_pipeline.results.frames import result_schema
from audit_pipeline.results.storms.storm_episodes import with_episode
from audit_pipeline.results.storms.storms import storm_sources, storms
from tests.support.audit.spark_frames import facts

DAY, NEXT = "2026-11-20", "2026-11-21"
LISTENER_RATE = "listener.name.external.max.connection.creation.rate"
TEN_S = [f"10:00:{second:02}" for second in range(10)]


def of(time: str, counts: tuple[int, int, int], rate: int | None = None, **more: Any) -> dict[str, object]:
    """Connections in the second of this time: accepted, limited and refused. Their events take half a second."""
    first = datetime.fromisoformat(time if " " in time else f"{DAY} {time}")
    accepted, limited, refused = counts
    return {
        "event_date": f"{first:%F}", "bin": f"{first:%F %T}", "cluster_id": "c1", "listener": "EXTERNAL",
        "client_ip": "10.0.0.9", "principal": "User:a", "listener_rate": rate, "first_ts": f"{first:%F %T.%f}",
        "last_ts": f"{first + timedelta(seconds=0.5):%F %T.%f}", "accepted": accepted, "limited": limited,
        "refused": refused, **more,
    }  # fmt: skip


def by(key: str, value: int | None, entity: str | None = None, quota: str | None = None) -> dict[str, Any]:
    return {"limit_key": key, "limit_value": value, "limit_entity": entity, "limit_quota": quota}


def took(time: str, client_id: str | None, latency: dict[int, int], **more: object) -> list[dict[str, object]]:
    at = time if " " in time else f"{DAY} {time}"
    row = {"event_date": at[:10], "bin": at, "seconds": 1, "cluster_id": "c1", "client_ip": "10.0.0.1"}
    named = {**row, "client_id": client_id, **more}
    return [{**named, "bucket": bucket, "measured": measured} for bucket, measured in latency.items()]


def found(
    spark: SparkSession, *bins: dict[str, object], requests: tuple[dict[str, object], ...] = ()
) -> list[dict[str, Any]]:
    rows = storms(with_episode(facts(spark, "storm_bins", *bins)), facts(spark, "storm_requests", *requests))
    return _rows(rows, "cluster_id", "listener", "started")


def _rows(frame: DataFrame, *order: str) -> list[dict[str, Any]]:
    times = {
        name: F.date_format(name, "HH:mm:ss.S").alias(name) for name, kind in frame.dtypes if kind.startswith("timest")
    }
    rows = frame.orderBy(*order).select(*(times.get(name, F.col(name)) for name in frame.columns))
    return [row.asDict() for row in rows.collect()]


def some(rows: list[dict[str, Any]], *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row[name] for name in names) for row in rows]


def test_a_storm_lasts_from_its_first_event_to_its_last(spark: SparkSession) -> None:
    bins = [of("10:00:00.3", (90, 0, 0)), of("10:00:01", (80, 0, 5)), of("10:00:04.1", (1, 0, 0))]
    rows = found(spark, *bins)
    assert some(rows, "started", "ended", "accepted", "limited", "refused", "peak_attempts") == [
        ("10:00:00.3", "10:00:04.6", 171, 0, 5, 90)
    ]
    assert some(rows, "listener_rate", "held_accepted", "limit_key") == [(None, None, None)]


@pytest.mark.full
def test_a_calm_of_more_than_ten_seconds_ends_a_storm_also_over_midnight(spark: SparkSession) -> None:
    bins = [
        of("23:59:58", (200, 0, 0)),
        of(f"{NEXT} 00:00:09", (200, 0, 0)),
        of(f"{NEXT} 00:00:21", (200, 0, 0)),
        of(f"{NEXT} 00:00:12", (200, 0, 0), listener="INTERNAL"),
    ]
    assert some(found(spark, *bins), "listener", "started", "accepted") == [
        ("EXTERNAL", "23:59:58.0", 400),
        ("EXTERNAL", "00:00:21.0", 200),
        ("INTERNAL", "00:00:12.0", 200),
    ]


@pytest.mark.full
def test_a_changed_rate_of_the_listener_begins_another_storm(spark: SparkSession) -> None:
    """In the second of the change, each connection counts under the rate that it met."""
    limit = by(LISTENER_RATE, 50)
    bins = [
        of("10:00:00", (2000, 0, 0)),
        of("10:00:01", (1000, 0, 0)),
        of("10:00:01.5", (40, 1, 800), 50, **limit),
        *(of(f"10:00:0{second}", (50, 50, 0), 50, **limit) for second in range(2, 6)),
        of("10:00:06", (3, 1, 0), 50, **limit),
    ]
    rows = found(spark, *bins)
    assert some(rows, "started", "ended", "accepted", "limited", "refused", "peak_attempts", "listener_rate") == [
        ("10:00:00.0", "10:00:01.5", 3000, 0, 0, 2000, None),
        ("10:00:01.5", "10:00:06.5", 243, 202, 800, 840, 50),
    ]
    assert some(rows, "limit_key", "limit_entity", "limit_value", "limit_quota") == [
        (None, None, None, None),
        (LISTENER_RATE, None, 50, None),
    ]


@pytest.mark.full
def test_who_waited_when_the_rate_changed_belongs_to_the_storm_before(spark: SparkSession) -> None:
    limit = by(LISTENER_RATE, 50)
    bins = [
        *(of(second, (2000, 0, 0)) for second in TEN_S[:8]),
        of("10:00:08.2", (40, 30, 800), 50, **limit),
        of("10:00:09", (30, 30, 0), 50, **limit),
        of("10:00:25", (60, 20, 0), 50, **limit),
        of("10:00:26", (50, 50, 0), 50, **limit),
    ]
    rows = found(spark, *bins)
    assert some(rows, "started", "accepted", "limited", "refused", "peak_attempts", "limit_key") == [
        ("10:00:00.0", 16_070, 60, 800, 2000, None),
        ("10:00:25.0", 110, 70, 0, 60, LISTENER_RATE),
    ]


@pytest.mark.full
def test_another_limit_that_changes_begins_another_storm_but_not_after_a_calm(spark: SparkSession) -> None:
    slow, quick, other = (by("connection_creation_rate", value, "ip=10.0.0.9") for value in (5, 20, 30))
    bins = [
        *(of(second, (5, 0, 50), **slow) for second in TEN_S[:3]),
        *(of(second, (20, 0, 50), **quick) for second in TEN_S[3:5]),
        of(TEN_S[4], (0, 0, 9), **by("connection_creation_rate", 1, "ip=10.0.0.8")),
        of("10:01:00", (200, 0, 0)),
        of("10:01:01", (30, 0, 50), **other),
    ]
    assert some(found(spark, *bins), "started", "accepted", "limit_entity", "limit_value") == [
        ("10:00:00.0", 15, "ip=10.0.0.9", 5),
        ("10:00:03.0", 40, "ip=10.0.0.9", 20),
        ("10:01:00.0", 230, "ip=10.0.0.9", 30),
    ]


@pytest.mark.full
def test_only_seconds_that_were_wholly_under_the_limit_tell_what_it_admitted(spark: SparkSession) -> None:
    """The first one has the burst from before the limit was reached, the last one ends when nobody is held any more."""
    limit = by("max_connections", 9, "connection-group=shop/storm", "shop/storm")
    bins = [
        of("10:00:00.1", (99, 0, 0), 500),
        of("10:00:00.3", (0, 10, 0), 500, **limit),
        of("10:00:01", (48, 10, 0), 500, **limit),
        of("10:00:02", (51, 10, 0), 500, **limit),
        of("10:00:03", (70, 0, 9), 500, **limit),
    ]
    rows = found(spark, *bins)
    assert some(rows, "held_accepted", "peak_attempts", "limit_quota", "limit_key", "limit_value") == [
        (51, 99, "shop/storm", "max_connections", 9)
    ]
    assert some(found(spark, *bins[:2]), "held_accepted", "limit_quota") == [(None, "shop/storm")]


@pytest.mark.full
def test_the_limit_that_held_most_is_named(spark: SparkSession) -> None:
    bins = [
        of("10:00:00", (0, 9, 0), **by("b", 1)),
        of("10:00:00", (0, 0, 9), **by("a", 2)),
        of("10:00:00", (0, 4, 4), **by("c", 3)),
    ]
    assert some(found(spark, *bins), "limit_key", "limit_value") == [("a", 2)]


@pytest.mark.full
def test_no_attempt_counts_twice_and_refused_ones_are_their_client_s(spark: SparkSession) -> None:
    """A delayed connection is accepted, too; a refused one tells its address only."""
    app: dict[str, Any] = {"principal": "User:a", "client_id": "app", "software_name": "java", "software_version": "3"}
    nobody: dict[str, Any] = {"principal": "User:ANONYMOUS"}
    other: dict[str, Any] = {"client_ip": "10.0.0.8", **nobody}
    bins = [
        of("10:00:00", (54, 0, 0), **app),
        of("10:00:00", (7, 0, 0), principal="User:b", client_id="second"),
        of("10:00:01", (0, 50, 346), **nobody, **by("x", 1)),
        of("10:00:01", (0, 500, 30), **other, **by("x", 1)),
    ]
    assert some(found(spark, *bins), "source_ip", "source_client_id", "source_software", "source_attempts") == [
        ("10.0.0.9", "app", "java 3", 407)
    ]
    sources = _rows(storm_sources(with_episode(facts(spark, "storm_bins", *bins))), "client_ip", "client_id")
    assert some(sources, "client_ip", "principal", "client_id", "accepted", "limited", "refused") == [
        ("10.0.0.8", "User:ANONYMOUS", None, 0, 500, 30),
        ("10.0.0.9", "User:a", "app", 54, 50, 346),
        ("10.0.0.9", "User:b", "second", 7, 0, 0),
    ]


def test_others_are_those_who_asked_during_the_storm(spark: SparkSession) -> None:
    storm = [of("10:00:05.3", (200, 0, 0), client_id="app"), of("10:00:07", (200, 0, 0), client_id="app")]
    requests = (
        *took("09:50:00", "x", {10: 98}, seconds=60),
        *took("09:49:00", "x", {800: 99}, seconds=60),
        *took("10:00:00", "x", {800: 99}, seconds=60),
        *took("10:00:04", "x", {20: 2}),
        *took("10:00:05", None, {100: 1}),
        *took("10:00:06", "x", {110: 1}),
        *took("10:00:07", "app", {800: 9}),
        *took("10:00:08", "x", {800: 9}),
        *took("10:00:06", "x", {800: 9}, cluster_id="c2"),
    )
    names = [f"others_{what}" for what in ("requests_before", "p99_before_us", "requests_during", "p99_during_us")]
    assert some(found(spark, *storm, requests=requests), *names) == [(100, BUCKET_US[20], 2, BUCKET_US[110])]


@pytest.mark.full
def test_no_requests_of_others_is_an_answer(spark: SparkSession) -> None:
    names = [f"others_{what}" for what in ("requests_before", "p99_before_us", "requests_during", "p99_during_us")]
    # In the first second of a minute there is none of the same minute before.
    rows = found(spark, of("10:00:00", (200, 0, 0)), requests=tuple(took("09:59:00", "x", {5: 1})))
    assert some(rows, *names) == [(0, None, 0, None)]


def test_a_source_without_a_client_id_is_known_by_its_address(spark: SparkSession) -> None:
    requests = (*took("10:00:00", None, {800: 1}, client_ip="10.0.0.9"), *took("10:00:00", None, {5: 1}))
    rows = found(spark, of("10:00:00", (200, 0, 0)), requests=requests)
    assert some(rows, "others_requests_during", "others_p99_during_us") == [(1, BUCKET_US[5])]


def test_without_a_storm_no_request_is_looked_at(spark: SparkSession) -> None:
    fields = result_schema("storm_requests")
    unread = [F.raise_error(F.lit("read")).cast(field.dataType).alias(field.name) for field in fields]
    assert storms(with_episode(facts(spark, "storm_bins")), spark.range(1).select(*unread)).collect() == []
