"""A log that is built hour by hour gives the results of one build, byte for byte, and an hour is built once or twice.

The storm begins in the first minute of hour 7: it decides which requests of hour 6 are counted around it.
"""

import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from audit_pipeline.hours import hours_of_day, named
from audit_pipeline.results.settings import RESOURCES, Objective, Prices, Settings, StormLimits
from audit_pipeline.results.tables import result_tables
from tests.support.audit.audit_builds import built, published
from tests.support.audit.audit_weeks.week import Week, arrivals, cluster_id, put

pytestmark = pytest.mark.full

WEEK = Week(days=1, hours=12, segments=12, events=1_200, storm=20, topics=3, principals=4, spoils=())
SETTINGS = Settings(
    Prices("EUR", dict.fromkeys(RESOURCES, 1.0)),
    (Objective("produce", "Produce", 5.0, 0.99),),
    WEEK.mirrors,
    StormLimits(15, 4),
)
HOURS = hours_of_day(WEEK.first_day)
LATE = 2
"""The hour of the segment of one broker that arrives last."""


def test_builds_by_hour_give_the_bytes_of_one_build(spark: SparkSession, tmp_path: Path) -> None:
    source, by_hour, at_once = (tmp_path / name for name in ("landed", "by-hour", "at-once"))
    files = [file for batch in arrivals(WEEK)[0] for file in batch]
    late = [file for file in files if f"{cluster_id(0)}-0-" in file.path and _hour(file.path) == LATE]
    assert len({file.path.partition("/")[0] for file in late}) == len(late) > 1
    computed = []
    for hours in (range(7), range(7, 8), range(8, 12)):
        for file in files:
            if file not in late and _hour(file.path) in hours:
                put(file, source)
        if max(hours) == 11:
            for file in late:
                put(file, source)
        computed.append(built(spark, source, by_hour, WEEK.now_us, SETTINGS).summary["hours"])
    # A segment ends in the first seconds of the next hour.
    assert computed == [
        named(HOURS[:8]),
        named(HOURS[7:9]),
        named([*HOURS[LATE : LATE + 2], *HOURS[8:13]]),
    ]
    built(spark, source, at_once, WEEK.now_us, SETTINGS)
    found, expected = published(by_hour), published(at_once)
    assert [name for name, table in expected.items() if not table.num_rows] == ["what_if", "tried_limits", "quarantine"]
    assert [name for name in expected if _bytes(name, found[name]) != _bytes(name, expected[name])] == []


def _hour(path: str) -> int:
    return int(path.partition("arrival_hour=")[2][:2])


def _bytes(name: str, rows: pa.Table) -> bytes:
    """All rows in the order of their key, as Arrow writes them."""
    ordered = rows.sort_by([(column, "ascending") for column in result_tables()[name].key]).combine_chunks()
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, ordered.schema) as writer:
        writer.write_table(ordered)
    return sink.getvalue()
