"""The facts of storms in an hour need the events of a minute before it and of eleven minutes after it."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from audit_pipeline.hours import hours_of_day
from audit_pipeline.jobs.computing import arrival_facts, storm_facts
from audit_pipeline.results.clean import in_hours
from audit_pipeline.results.settings import StormLimits
from audit_pipeline.results.storms.storm_bins import AFTER, BEFORE, storm_bins, stormy_seconds
from audit_pipeline.results.storms.storm_times import is_near, stormy_minutes
from tests.support.audit.spark_frames import events

LIMITS = StormLimits(connections=9, held=5)
MIDNIGHT = datetime(2026, 11, 20, tzinfo=UTC)
HOURS = hours_of_day(MIDNIGHT.date())
WHERE = {"cluster_id": "c1", "broker_id": 1, "boot_id": "a", "listener": "EXTERNAL", "client_ip": "10.0.0.1"}


def at(hour: int, seconds: float) -> str:
    return f"{MIDNIGHT + timedelta(hours=hour, seconds=seconds):%F %H:%M:%S.%f}"


def storm(hour: int, first: int, seconds: int) -> list[dict[str, object]]:
    """One connection a second: only ten of them in a row are stormy. Each tells its client nine minutes later."""
    accepted = [
        {**WHERE, "event": "accepted", "connection_id": hour * 10_000 + second, "seq": 1, "ts": at(hour, second)}
        for second in range(first, first + seconds)
    ]
    closed = {"event": "closed", "client_id": "storm", "seq": 2}
    return [row for each in accepted for row in (each, {**each, **closed, "ts": later(each["ts"], 540)})]


def later(ts: object, seconds: int) -> str:
    return f"{datetime.fromisoformat(str(ts)) + timedelta(seconds=seconds):%F %H:%M:%S.%f}"


def asked(hour: int, seconds: float) -> dict[str, object]:
    row = {**WHERE, "ts": at(hour, seconds), "connection_id": 1, "api": "Produce", "ending": "answered", "seq": 3}
    return {**row, "client_id": "app", "total_us": 5}


@pytest.mark.full
@pytest.mark.parametrize("first", [-5, 599])
def test_hours_that_are_computed_one_by_one_have_the_storms_of_all_hours(spark: SparkSession, first: int) -> None:
    """A storm begins so many seconds after the start of hour 7, and lasts 20 seconds."""
    connection = events(spark, "connection", *storm(7, first, 20)).persist()
    requests = [asked(hour, second) for hour in (6, 7) for second in (0, 590, 605, 2_990, 3_010, 3_598)]
    request = events(spark, "request", *requests).persist()

    def computed(*hours: int) -> list[DataFrame]:
        wanted = [HOURS[hour] for hour in hours]
        near = [frame.where(in_hours(frame["ts"], wanted, BEFORE, AFTER)) for frame in (connection, request)]
        seconds = stormy_seconds(near[0], LIMITS)
        minutes = [row["minute"] for row in stormy_minutes(seconds).collect()]
        read = [frame.where(is_near(frame["ts"], minutes)) for frame in near]
        bins = storm_bins(seconds, read[0], read[1])
        return [*storm_facts(bins, read[1], wanted).values(), *arrival_facts(near[0], wanted).values()]

    whole, parts = computed(6, 7), [computed(hour) for hour in (6, 7)]
    for place, expected in enumerate(whole):
        assertDataFrameEqual(parts[0][place].unionByName(parts[1][place]), expected)
        assert expected.count() > 0
