from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.results.settings import StormLimits
from audit_pipeline.results.storms.storm_bins import storm_bins, stormy_seconds
from audit_pipeline.results.storms.storm_times import is_near, stormy_minutes
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


def counted(spark: SparkSession, limits: StormLimits, *connections: dict[str, object]) -> list[tuple[object, ...]]:
    """The stormy seconds with their accepted, limited and refused connections."""
    connection = events(spark, "connection", *connections)
    frame = storm_bins(stormy_seconds(connection, limits), connection, events(spark, "request"))
    rows = frame.groupBy("bin").agg(*(F.sum(name) for name in ("accepted", "limited", "refused"))).orderBy("bin")
    return [(f"{row[0]:%H:%M:%S}", *row[1:]) for row in rows.collect()]


def paced(rate: int, seconds: int, begin: str = "10:00:07") -> list[dict[str, object]]:
    at = datetime.fromisoformat(f"{DAY} {begin}")
    return [
        {**of("accepted", "", number), "ts": f"{at + timedelta(seconds=number / rate):%F %H:%M:%S.%f}"}
        for number in range(rate * seconds)
    ]


def test_connections_of_stormy_bins_by_who_they_turned_out_to_be(spark: SparkSession) -> None:
    told = {"principal": "User:a", "client_id": None, "software_name": "java"}
    by_rate = {"limit_key": "connection_creation_rate", "limit_entity": "ip=10.0.0.1", "limit_value": 5}
    by_quota = {"limit_key": "max_connections", "limit_entity": "connection-group=shop/a", "limit_quota": "shop/a"}
    connection = events(
        spark,
        "connection",
        *(of("accepted", "10:00:00.1", id, listener_rate=90) for id in (1, 2, 3)),
        of("accepted", "10:00:00.999999", 4, reason="not a limit", listener_rate=90),
        of("accepted", "10:00:00.5", 2, broker_id=2, listener_rate=90),
        of("limited", "10:00:00.5", None, reason="ip-rate", listener_rate=90, **by_rate),
        of("refused", "10:00:00.4", None, reason="groups", listener_rate=90, limit_value=8, **by_quota),
        # Of version 1: a reason without spaces is a limit.
        of("refused", "10:00:00.3", None, reason="max.connections"),
        of("refused", "10:00:00.3", None, reason="its client closed it"),
        # Their identities: 1 by its end, 2 by its first request, 3 unknown, as its end is of another boot, 4 by none in
        # ten minutes.
        of("closed", "10:09:59.999999", 1, **told),
        of("closed", "10:00:09", 3, boot_id="b", **told),
        of("closed", "10:10:00", 4, **told),
        # One less, at another listener, and on another day.
        *(of("accepted", "10:00:00", id, listener="INTERNAL") for id in range(10, 14)),
        *({**of("accepted", "10:00:00", id), "ts": f"{NEXT} 10:00:00"} for id in range(20, 24)),
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
    first, rate, end = f"{at}.1", f"{at}.5", f"{at}.999999"
    ip, who, anonymous = "10.0.0.1", ("c1", "EXTERNAL"), ("User:ANONYMOUS", None)
    nothing, no_limit = (None, None), (90, None, None, None, None)
    expected = results(
        spark,
        "storm_bins",
        (DAY, at, *who, "User:a", None, ip, "java", None, *no_limit, first, first, 1, 0, 0),
        (DAY, at, *who, "User:b", "app", ip, "java", "3.9", *no_limit, first, first, 1, 0, 0),
        (DAY, at, *who, "User:of another broker", "app", ip, "java", "3.9", *no_limit, rate, rate, 1, 0, 0),
        (DAY, at, *who, *anonymous, ip, *nothing, *no_limit, first, end, 2, 0, 0),
        (DAY, at, *who, *anonymous, ip, *nothing, 90, None, "connection_creation_rate", "ip=10.0.0.1", 5, rate, rate,
         0, 1, 0),
        (DAY, at, *who, *anonymous, ip, *nothing, 90, "shop/a", "max_connections", "connection-group=shop/a", 8,
         f"{at}.4", f"{at}.4", 0, 0, 1),
        (DAY, at, *who, *anonymous, ip, *nothing, None, None, "max.connections", None, None, f"{at}.3", f"{at}.3",
         0, 0, 1),
        (DAY, at, *who, *anonymous, ip, *nothing, None, None, None, None, None, f"{at}.3", f"{at}.3", 0, 0, 1),
        (DAY, later, *who, "User:b", "app", ip, "java", "3.9", None, None, "ip-rate", None, None, later, later,
         0, 1, 0),
        (DAY, later, *who, *anonymous, ip, *nothing, None, None, "ip-rate", None, None, later, later, 0, 0, 1),
    )  # fmt: skip
    assertDataFrameEqual(storm_bins(stormy_seconds(connection, LIMITS), connection, request), expected)


def test_ninety_a_second_are_ninety_in_each_second_wherever_ten_seconds_of_the_clock_begin(spark: SparkSession) -> None:
    found = counted(spark, StormLimits(), *paced(90, 5))
    assert found == [(f"10:00:{second:02}", 90, 0, 0) for second in range(7, 12)]


def test_a_few_connections_before_or_after_a_storm_are_not_of_it(spark: SparkSession) -> None:
    few = [of("accepted", f"10:00:{second:02}", 9_000 + second) for second in (1, 2, 15)]
    found = counted(spark, StormLimits(), *few, *paced(90, 5))
    assert [second for second, *_ in found] == [f"10:00:{second:02}" for second in range(7, 12)]


def test_the_last_second_of_a_storm_has_few_and_is_of_it(spark: SparkSession) -> None:
    last = [of("accepted", "10:00:12", 9_000), of("limited", "10:00:13", None, reason="rate")]
    found = counted(spark, StormLimits(), *paced(90, 5), *last)
    assert found[-2:] == [("10:00:12", 1, 0, 0), ("10:00:13", 0, 1, 0)]


@pytest.mark.full
def test_connections_that_no_limit_closed_are_not_held(spark: SparkSession) -> None:
    gone = [of("refused", "10:00:00", None, reason="its client closed it") for _ in range(20)]
    assert counted(spark, StormLimits(), *gone) == []
    assert counted(spark, StormLimits(connections=20), *gone) == [("10:00:00", 0, 0, 20)]


def test_the_minutes_of_storms_tell_which_events_are_near(spark: SparkSession) -> None:
    connection = events(spark, "connection", *paced(90, 5, "10:00:57"), *paced(90, 5, "13:30:00"))
    minutes = [row["minute"] for row in stormy_minutes(stormy_seconds(connection, StormLimits())).collect()]
    names = [f"{datetime.fromtimestamp(60 * minute, UTC):%H:%M}" for minute in sorted(minutes)]
    assert names == ["10:00", "10:01", "13:30"]
    times = ["09:49:59.9", "09:50", "10:11:59.9", "10:12", "13:19:59", "13:20", "13:40:59", "13:41"]
    asks = events(spark, "request", *(asked(time, 1, 1, "User:a") for time in times))
    near = asks.where(is_near(F.col("ts"), minutes)).orderBy("ts").collect()
    assert [f"{row['ts']:%H:%M:%S}" for row in near] == ["09:50:00", "10:11:59", "13:20:00", "13:40:59"]


def test_very_many_storms_are_near_everything_between_the_first_and_the_last(spark: SparkSession) -> None:
    asks = events(spark, "request", *(asked(f"10:{minute}", 1, 1, "User:a") for minute in (0, 30)))
    first = int(datetime(2026, 11, 20, 10, tzinfo=UTC).timestamp()) // 60
    minutes = [first - 30 * number for number in range(102)]
    assert asks.where(is_near(F.col("ts"), minutes)).count() == 1
    assert asks.where(is_near(F.col("ts"), [*minutes, first + 60])).count() == 2
