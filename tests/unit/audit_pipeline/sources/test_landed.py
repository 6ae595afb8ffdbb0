"""Differences between two readings of segment folders, if files have changed between them."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from audit_pipeline.hours import hours_of_day
from audit_pipeline.sources.landed import LandedSegments
from tests.support.audit.audit_weeks.week import Week, write_week

WEEK = Week(days=2, clusters=1, brokers=1, hours=1, segments=1, events=40, storm=0, topics=2, principals=2, spoils=())
DAY = WEEK.first_day
FIRST, SECOND = (set(hours_of_day(DAY + timedelta(days=number))[:2]) for number in range(2))
"""Brokers run in the first hour of each day, and stop in the second one."""


def look(folder: Path, remembered: bytes | None = None) -> LandedSegments:
    return LandedSegments([str(folder)], remembered, WEEK.now_us)


def test_an_hour_is_touched_until_it_is_settled_whatever_is_built_beside_it(tmp_path: Path) -> None:
    write_week(WEEK, tmp_path)
    first = look(tmp_path)
    assert first.touched == FIRST | SECOND
    first.settle(FIRST)
    assert (first.touched, first.lost) == (SECOND, set())
    assert look(tmp_path, first.remembered()).touched == SECOND


def test_rows_are_counted_for_all_tables_or_for_some(tmp_path: Path) -> None:
    write_week(WEEK, tmp_path)
    found, hours = look(tmp_path), FIRST | SECOND
    rows = {table: found.rows_of(hours, tables=[table]) for table in ("request", "connection", "partition")}
    assert min(rows.values()) > 0
    assert found.rows_of(hours, tables=rows) == sum(rows.values()) < found.rows_of(hours)
    assert found.rows_of(hours, tables=()) == 0


def test_files_that_go_while_a_build_is_at_work_are_those_of_an_hour_that_it_has_built(tmp_path: Path) -> None:
    """Even without an earlier build of it: a new one would lose events of the hour."""
    write_week(WEEK, tmp_path)
    source = look(tmp_path)
    source.settle(FIRST)
    for path in tmp_path.rglob("*.parquet"):
        path.unlink()
    assert source.scan_again(SECOND)
    assert (source.lost, source.touched) == (FIRST, set())
    after = look(tmp_path, source.remembered())
    assert (after.lost, list(after.set_aside)) == (FIRST, list(source.set_aside))


def test_a_file_damaged_after_its_hour_was_built_is_reported_by_each_later_read(tmp_path: Path) -> None:
    write_week(WEEK, tmp_path)
    first = look(tmp_path)
    first.settle(first.touched)
    path = min(tmp_path.glob(f"request/arrival_date={DAY}/*/*.parquet"))
    data = path.read_bytes()
    column = pq.read_metadata(path).row_group(0).column(0)
    last = column.data_page_offset + column.total_compressed_size - 1
    path.write_bytes(data[:last] + bytes([data[last] ^ 0xFF]) + data[last + 1 :])
    second = look(tmp_path, first.remembered())
    third = look(tmp_path, second.remembered())
    for source in (second, third):
        assert (source.touched, source.lost) == (set(), {min(FIRST)})
        (told,) = source.set_aside
        assert (told.path, told.reason) == (path.relative_to(tmp_path).as_posix(), "corrupt")
        assert str(told.detail).endswith(f"the results of {DAY} 00:00 to 01:00 were built before and include it")
    path.write_bytes(data)
    mended = look(tmp_path, third.remembered())
    assert (mended.touched, mended.lost, list(mended.set_aside)) == (set(), set(), [])


def test_a_copy_that_was_left_out_is_nothing_that_results_were_built_of(tmp_path: Path) -> None:
    write_week(WEEK, tmp_path)
    path = min(tmp_path.glob(f"request/arrival_date={DAY}/*/*.parquet"))
    copy = path.parent.with_name("arrival_hour=23") / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    first = look(tmp_path)
    assert [each.reason for each in first.set_aside] == ["duplicate"]
    first.settle(first.touched)
    copy.unlink()
    second = look(tmp_path, first.remembered())
    assert (second.touched, second.lost, list(second.set_aside)) == (set(), set(), [])
    assert [replace(entry, counts=True) for entry in second.found.entries] == list(second.found.entries)


def test_a_file_that_spark_does_not_know_how_to_read_is_read_by_arrow(spark: SparkSession, tmp_path: Path) -> None:
    write_week(WEEK, tmp_path)
    path = min(tmp_path.glob(f"request/arrival_date={DAY}/*/*.parquet"))
    # Spark has no codec of that name.
    pq.write_table(pq.read_table(path, partitioning=None), path, compression="brotli")
    source = look(tmp_path)
    with pytest.raises(Py4JJavaError, match="FAILED_READ_FILE"):
        source.events(spark, FIRST).request.collect()
    assert source.scan_again(FIRST)
    expected = sum(entry.rows for entry in source.found.touching(FIRST) if entry.table == "request")
    assert len(source.events(spark, FIRST).request.collect()) == expected > 0
    assert list(source.set_aside) == []
    assert not source.scan_again(FIRST), "there is no third way to read it"
