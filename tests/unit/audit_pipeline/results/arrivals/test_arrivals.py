"""Connections by second, their parts, and seconds in which they may wait: small frames, and a definition by hand."""

from random import Random

import pytest
from pyspark.sql import SparkSession

from audit_pipeline.results.arrivals.arrival_parts import arrival_parts, storm_runs, storm_seconds
from audit_pipeline.results.arrivals.connection_seconds import connection_seconds
from audit_pipeline.results.arrivals.waits import LEAD_S, counted_spans, wait_spans, waiting_seconds
from tests.support.audit.spark_frames import events, facts, frame

DAY = "2026-11-20"
AT = {"cluster_id": "c", "broker_id": 1, "listener": "EXTERNAL", "client_ip": "10.0.0.1"}
NOON_S = 1_795_176_000
"""2026-11-20 12:00:00 UTC."""
_SERIES = "cluster_id string, broker_id int, kind string, target string, second bigint, attempts bigint"
_RATES = "cluster_id string, kind string, target string, rate bigint"
_PARTS = "cluster_id string, broker_id int, second bigint, attempts bigint"


def of(event: str, ts: str, **more: object) -> dict[str, object]:
    return {**AT, "event": event, "ts": f"{DAY} {ts}", **more}


def second(at_s: int, **more: object) -> dict[str, object]:
    return {**AT, "event_date": DAY, "second": f"{DAY} 12:{at_s // 60:02}:{at_s % 60:02}", **more}


def test_connections_count_in_the_second_in_which_they_came(spark: SparkSession) -> None:
    connection = events(
        spark,
        "connection",
        of("accepted", "12:00:01.9"),
        of("limited", "12:00:01.9", limit_key="max.connections"),
        # It came two seconds earlier, and was then delayed.
        of("accepted", "12:00:03.5", arrived_us=7_000_000, decided_us=9_000_000),
        of("refused", "12:00:01", limit_key="connection_creation_rate"),
        of("refused", "12:00:01", reason="max.connections"),
        of("refused", "12:00:01", reason="its client closed it before it was accepted"),
        of("closed", "12:00:04.5", duration_us=3_000_000),
        of("closed", "12:05:00", duration_us=60_000_000),
    )
    rows = connection_seconds(connection).collect()
    assert [(f"{row.second:%H:%M:%S}", row.attempts, row.refused, row.short) for row in rows] == [("12:00:01", 4, 2, 1)]


@pytest.mark.full
def test_a_storm_ends_soon_and_a_deployment_stays(spark: SparkSession) -> None:
    seconds = [
        *(second(at_s, attempts=100, short=90) for at_s in range(20)),
        second(5, client_ip="10.0.0.2", attempts=3),
        # A deployment, which the numbers call a storm.
        *(second(at_s, attempts=100, short=30) for at_s in range(600, 620)),
        second(1200, attempts=5, short=5),
        second(0, listener="INTERNAL", attempts=500, short=500),
    ]
    started = [(NOON_S, NOON_S + 19), (NOON_S + 600, NOON_S + 619)]
    storms = facts(
        spark,
        "storms",
        *(
            {**{name: AT[name] for name in ("cluster_id", "listener")}, "started": at(first), "ended": at(last)}
            for first, last in started
        ),
    )
    found = facts(spark, "connection_seconds", *seconds)
    of_storms = storm_seconds(found, storms).persist()
    assert [tuple(row) for row in storm_runs(of_storms).collect()] == [("c", "EXTERNAL", NOON_S, NOON_S + 19)]
    parts = arrival_parts(found, of_storms).groupBy("part").sum("attempts").collect()
    assert dict(map(tuple, parts)) == {"storm": 2_000, "beside": 3, "usual": 2_005}


def at(second_s: int) -> str:
    after = second_s - NOON_S
    return f"{DAY} 12:{after // 60:02}:{after % 60:02}.5"


def test_seconds_in_which_a_connection_may_wait_are_those_of_the_definition(spark: SparkSession) -> None:
    random = Random(71)
    series = {
        f"L{number}": {random.randrange(200): random.randrange(1, 9) for _ in range(random.randrange(1, 40))}
        for number in range(12)
    }
    rates = {target: random.randrange(1, 8) for target in series}
    rows = [("c", 1, "listener", target, at_s, n) for target, counts in series.items() for at_s, n in counts.items()]
    found = waiting_seconds(
        frame(spark, _SERIES, rows),
        frame(spark, _RATES, [("c", "listener", target, rate) for target, rate in rates.items()]),
    )
    expected = sorted(
        last
        for target, counts in series.items()
        for last in counts
        if any(
            sum(count for at_s, count in counts.items() if first <= at_s <= last)
            > rates[target] * (max(0, last - first - 1) + 1)
            for first in counts
            if first <= last
        )
    )
    assert sorted(row.second for row in found.collect()) == expected


def test_spans_are_around_waits_and_end_where_too_many_connections_come(spark: SparkSession) -> None:
    waiting = frame(
        spark, "cluster_id string, broker_id int, second bigint", [("c", 1, 1000), ("c", 1, 1100), ("c", 1, 9000)]
    )
    spans = wait_spans(waiting).persist()
    assert sorted(map(tuple, spans.collect())) == [
        ("c", 1, 1000 - LEAD_S, 1100 + LEAD_S + 1),
        ("c", 1, 9000 - LEAD_S, 9000 + LEAD_S + 1),
    ]
    parts = [
        ("c", 1, 1000, 150_000),
        ("c", 1, 1001, 40_000),
        ("c", 1, 1002, 40_000),
        ("c", 1, 9000, 7),
        ("c", 2, 1000, 1),
    ]
    counted = counted_spans(frame(spark, _PARTS, parts), spans).collect()
    assert sorted((row.from_s, row.connections, row.tried, row.until_s) for row in counted) == [
        (940, 230_000, 190_000, 1002),
        (8940, 7, 7, 9061),
    ]
