"""The verdict on files: hostile ones are set aside, and mended ones count again."""

import gc
import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.sources.catalogue import SegmentEntry, SetAside
from audit_pipeline.sources.segments import look
from audit_pipeline.spool.segment import FOOTER_KEY, Footer, NoSegmentError, packed, read_footer
from audit_pipeline.spool.stored_segment import row_groups_at
from audit_pipeline.spool.tables import arrow_schema
from audit_pipeline.spool.targets import FolderTarget

OPENED_US = 1_795_132_800_000_000
NOW_US = OPENED_US + 3_600_000_000
PATH = "gap/arrival_date=2026-11-20/arrival_hour=00/c-1-b-00000001.parquet"
FOOTER = Footer(1, "c", 1, "b", (1, 1), 1, 2, OPENED_US, OPENED_US + 1_000_000, "next", {"gap": 2})


def rows(*ts: int) -> pa.Table:
    schema = arrow_schema("gap")
    made = {field.name: pa.array([_value(field.type)] * len(ts), field.type) for field in schema}
    made["ts"] = pa.array(ts, schema.field("ts").type)
    return pa.table(made, schema=schema)


def _value(of: pa.DataType) -> object:
    return "x" if pa.types.is_string(of) else 1


def looked_at(folder: Path, *known: SegmentEntry) -> SegmentEntry | SetAside:
    told = {(each.source, each.path, each.size): each for each in known}
    entries, unread = look({"s": FolderTarget(folder)}, told, NOW_US)
    found: list[SegmentEntry | SetAside] = [*entries, *unread]
    (one,) = found
    return one


def test_a_time_of_a_year_that_dates_do_not_have_is_an_impossible_one(tmp_path: Path) -> None:
    FolderTarget(tmp_path).put(PATH, packed(rows(OPENED_US, 2**62), FOOTER))
    found = looked_at(tmp_path)
    assert isinstance(found, SegmentEntry)
    assert (found.fault, found.rows, found.clock_rows, found.ts_max) == (None, 1, 1, OPENED_US)


@pytest.mark.parametrize(
    "wrong",
    [
        {"opened_us": "yesterday"},
        {"closed_us": 2**62},
        {"broker_id": 2**40},
        {"segments": [2, 1]},
        {"segments": [1]},
        {"rows": {"gap": None}},
        {"rows": 3},
        {"cluster_id": None},
    ],
)
def test_a_footer_with_impossible_numbers_is_set_aside(wrong: dict[str, object], tmp_path: Path) -> None:
    data = rows(OPENED_US)
    told = {name: getattr(FOOTER, name) for name in FOOTER.__slots__} | wrong
    (tmp_path / PATH).parent.mkdir(parents=True)
    pq.write_table(data.replace_schema_metadata({FOOTER_KEY: json.dumps(told).encode()}), tmp_path / PATH)
    found = looked_at(tmp_path)
    assert isinstance(found, SetAside)
    assert found.reason == "corrupt"


@pytest.mark.parametrize("fault", ["corrupt", "version"])
def test_a_file_that_was_set_aside_counts_when_it_is_fine_now(fault: str, tmp_path: Path) -> None:
    """A restored file has the size it had, and a later release may know its version."""
    FolderTarget(tmp_path).put(PATH, packed(rows(OPENED_US), FOOTER))
    found = looked_at(tmp_path)
    assert isinstance(found, SegmentEntry)
    again = looked_at(tmp_path, replace(found, fault=fault, detail="x"))
    assert again == found


def test_a_page_that_is_damaged_is_not_forgotten(tmp_path: Path) -> None:
    data = bytearray(packed(rows(*range(OPENED_US, OPENED_US + 500)), FOOTER))
    data[100] ^= 0xFF
    FolderTarget(tmp_path).put(PATH, bytes(data))
    found = looked_at(tmp_path)
    assert isinstance(found, SegmentEntry)
    again = looked_at(tmp_path, replace(found, fault="corrupt", detail="x"))
    assert isinstance(again, SegmentEntry)
    assert again.fault == "corrupt"


@pytest.mark.parametrize("changed_s", [0, 1])
def test_a_file_that_is_written_again_is_read_again_to_its_end(changed_s: int, tmp_path: Path) -> None:
    """The size and the footer of the file do not show a changed page."""
    data = bytearray(packed(rows(*range(OPENED_US, OPENED_US + 500)), FOOTER))
    FolderTarget(tmp_path).put(PATH, bytes(data))
    counted = looked_at(tmp_path)
    assert isinstance(counted, SegmentEntry)
    assert looked_at(tmp_path, counted) == counted
    data[100] ^= 0xFF
    (tmp_path / PATH).write_bytes(bytes(data))
    assert counted.changed_ns is not None
    changed_ns = counted.changed_ns + changed_s * 1_000_000_000
    os.utime(tmp_path / PATH, ns=(changed_ns, changed_ns))
    again = looked_at(tmp_path, counted)
    assert isinstance(again, SegmentEntry)
    assert again.fault == ("corrupt" if changed_s else None)


def with_column(field: pa.Field) -> pa.Table:
    made = rows(OPENED_US, OPENED_US + 1)
    return made.append_column(field, pa.array([1, 2], field.type))


def test_an_unknown_column_that_may_be_null_does_not_set_a_file_aside(tmp_path: Path) -> None:
    """A later minor version has added it."""
    FolderTarget(tmp_path).put(PATH, packed(with_column(pa.field("later", pa.int64())), FOOTER))
    found = looked_at(tmp_path)
    assert isinstance(found, SegmentEntry)
    assert (found.fault, found.rows) == (None, 2)
    (read,) = row_groups_at(PATH, "gap", FolderTarget(tmp_path))
    assert read.schema.names == arrow_schema("gap").names
    with pytest.raises(NoSegmentError, match="has columns of a later version: later"):
        list(row_groups_at(PATH, "gap", FolderTarget(tmp_path), is_to_rewrite=True))


def test_an_unknown_column_that_must_have_values_sets_a_file_aside(tmp_path: Path) -> None:
    FolderTarget(tmp_path).put(PATH, packed(with_column(pa.field("later", pa.int64(), nullable=False)), FOOTER))
    found = looked_at(tmp_path)
    assert isinstance(found, SegmentEntry)
    assert (found.fault, found.detail) == ("corrupt", "it does not have the columns of the table gap")


def test_only_a_column_that_may_be_null_may_be_absent(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path)
    target.put(PATH, packed(rows(OPENED_US).drop_columns(["detail"]), replace(FOOTER, rows={"gap": 1})))
    found = looked_at(tmp_path)
    assert isinstance(found, SegmentEntry)
    assert found.fault is None
    (read,) = row_groups_at(PATH, "gap", target)
    assert read["detail"].to_pylist() == [None]
    target.put(PATH, packed(rows(OPENED_US).drop_columns(["reason"]), replace(FOOTER, rows={"gap": 1})))
    found = looked_at(tmp_path)
    assert isinstance(found, SegmentEntry)
    assert found.fault == "corrupt"


def test_a_footer_may_tell_more_than_is_known() -> None:
    told = json.dumps({**asdict(FOOTER), "segments": [1, 1], "later": True})
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, arrow_schema("gap")) as writer:
        writer.add_key_value_metadata({FOOTER_KEY: told})
    with pa.BufferReader(sink.getvalue()) as opened:
        assert read_footer(pq.read_metadata(opened)) == FOOTER


def test_the_metadata_of_a_file_is_released_when_it_has_been_read(tmp_path: Path) -> None:
    """Each takes 30 kB: with a hundred thousand files, none may wait for the garbage collector."""
    FolderTarget(tmp_path).put(PATH, packed(rows(OPENED_US), FOOTER))
    gc.disable()
    try:
        looked_at(tmp_path)
        assert [each for each in gc.get_objects() if isinstance(each, pq.FileMetaData)] == []
    finally:
        gc.enable()
