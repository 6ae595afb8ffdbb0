"""The table change is landed, checked and compacted like the others, also beside files of earlier landers."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from audit_pipeline.ingest.land import land
from audit_pipeline.reading.query import Events
from audit_pipeline.spool.segment import FOOTER_KEY
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.check import check
from audit_pipeline.upkeep.compact import compact
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench

LATER_US = 1_700_000_000_000_000 + 10 * 3_600_000_000
MANY_BYTES = 1 << 30


@pytest.fixture
def segments(tmp_path: Path) -> Path:
    """Three segments of one boot, each with a change and its request, and the end of the boot."""
    spools, folder = tmp_path / "spools", tmp_path / "segments"
    bench = AuditBench(OsFileSystem(), spools, segment_ms="1000")
    for broker_id in (7, 8, 9):
        bench.change(64, 0, {"broker_id": broker_id}, {"error_code": 102, "error_message": None})
        bench.timers.advance(2)
    bench.log.close()
    land(spools, FolderTarget(folder))
    return folder


def told(folder: Path) -> list[tuple[object, ...]]:
    return list(Events(FolderTarget(folder)).ask("SELECT seq, resource_name, error_code FROM change ORDER BY seq")[1])


EXPECTED = [(2, "7", 102), (4, "8", 102), (6, "9", 102)]


def test_changes_are_landed_and_their_numbers_count(segments: Path) -> None:
    assert told(segments) == EXPECTED
    report = check(FolderTarget(segments))
    assert (report.findings, report.events) == ([], 6)


def test_a_file_of_changes_that_is_gone_is_found(segments: Path) -> None:
    next(segments.glob("change/**/*.parquet")).unlink()
    (finding,) = check(FolderTarget(segments)).findings
    assert (finding.kind, "table change with 1 rows is missing" in finding.text) == ("hole", True)


def test_changes_are_merged(segments: Path) -> None:
    assert compact(FolderTarget(segments), LATER_US, MANY_BYTES) == 4
    assert len(list(segments.glob("change/**/*.parquet"))) == 1
    assert told(segments) == EXPECTED
    assert check(FolderTarget(segments)).findings == []


def test_a_segment_of_an_earlier_lander_is_merged_with_later_ones(segments: Path) -> None:
    first = min(segments.glob("request/**/*.parquet"), key=lambda path: path.name)
    rows = pq.read_table(first)
    old = rows.drop_columns(["group_id"])
    schema = old.schema.set(
        old.schema.get_field_index("error_code"), pa.field("error_code", pa.int16(), nullable=False)
    )
    pq.write_table(old.cast(schema).replace_schema_metadata({FOOTER_KEY: rows.schema.metadata[FOOTER_KEY]}), first)

    assert compact(FolderTarget(segments), LATER_US, MANY_BYTES) == 4
    columns, found = Events(FolderTarget(segments)).ask("SELECT error_code, group_id FROM request ORDER BY seq")
    assert (columns, found) == (["error_code", "group_id"], [(102, None)] * 3)
    assert check(FolderTarget(segments)).findings == []
