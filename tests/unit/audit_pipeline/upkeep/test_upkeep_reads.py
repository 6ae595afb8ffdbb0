"""The requests of upkeep to its target: each footer and each listing costs at least one request to an object store."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier

import pytest

from audit_pipeline.ingest.land import land
from audit_pipeline.spool import stored_segment
from audit_pipeline.spool.segment import Footer
from audit_pipeline.spool.targets import FolderTarget, Stored, Target
from audit_pipeline.upkeep.check import check
from audit_pipeline.upkeep.compact import compact
from audit_pipeline.upkeep.retention import RetentionLimits, expire
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench

HOUR_US = 3_600_000_000
BEGIN_US = 1_700_000_000_000_000
LATER_US = BEGIN_US + 10 * HOUR_US
MANY_BYTES = 1 << 30


def test_hours_that_were_merged_are_not_read_again(copied: Path, tmp_path: Path, read: list[str]) -> None:
    late = [path for path in copied.rglob("*.parquet") if path.stem[-2:] in ("35", "36")]
    for path in late:
        shutil.move(path, tmp_path / f"{path.relative_to(copied).parts[0]}-{path.name}")
    compact(FolderTarget(copied), LATER_US, MANY_BYTES)
    assert read
    read.clear()
    assert compact(FolderTarget(copied), LATER_US, MANY_BYTES) == 0
    assert read == []
    for path in late:
        shutil.move(tmp_path / f"{path.relative_to(copied).parts[0]}-{path.name}", path)
    assert compact(FolderTarget(copied), LATER_US, MANY_BYTES) > 0
    hours = {Path(path).parent.name for path in read}
    assert len(hours) == 1
    assert check(FolderTarget(copied)).findings == []


def test_what_is_as_large_as_files_may_be_is_not_read_to_be_merged(copied: Path, read: list[str]) -> None:
    assert compact(FolderTarget(copied), LATER_US, 1) == 0
    assert read == []


def test_retention_reads_only_what_is_to_go(copied: Path, read: list[str]) -> None:
    target = FolderTarget(copied)
    size = sum(path.stat().st_size for path in copied.rglob("*.parquet"))
    assert expire(target, RetentionLimits(BEGIN_US - HOUR_US, size)) == 0
    assert read == []
    gone = expire(target, RetentionLimits(BEGIN_US + HOUR_US, size))
    assert gone > 0
    assert len(read) == gone
    read.clear()
    assert expire(target, RetentionLimits(BEGIN_US + HOUR_US, size)) == 0
    assert len(read) == 1, "whether the last deletion of a boot came to its end, its first file says"


def test_a_size_limit_reads_only_the_hours_until_there_is_space(copied: Path, read: list[str]) -> None:
    size = sum(path.stat().st_size for path in copied.rglob("*.parquet"))
    assert expire(FolderTarget(copied), RetentionLimits(bytes_max=size - 1)) > 0
    assert len({Path(path).parent.name for path in read}) == 1


def test_the_oldest_segments_of_parallel_boots_are_deleted_first(tmp_path: Path) -> None:
    for boot_id in ("0001", "0002"):
        bench = AuditBench(OsFileSystem(), tmp_path / "spools", boot_id, segment_ms="1000")
        for _ in range(4):
            bench.produce()
            bench.timers.advance(2)
        bench.log.close()
    target = FolderTarget(tmp_path / "segments")
    land(tmp_path / "spools", target)
    size = sum(path.stat().st_size for path in (tmp_path / "segments").rglob("*.parquet"))
    expire(target, RetentionLimits(bytes_max=size // 2))
    assert {path.stem.split("-")[-2] for path in (tmp_path / "segments").rglob("*.parquet")} == {"0001", "0002"}
    assert check(target).findings == []


def test_footers_are_read_several_at_a_time(copied: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = Barrier(2, timeout=60)
    really = stored_segment.footer_at

    def meets(path: str, target: Target) -> Footer:
        together.wait()
        return really(path, target)

    monkeypatch.setattr(stored_segment, "footer_at", meets)
    paths = sorted(str(path.relative_to(copied)) for path in copied.glob("request/**/*.parquet"))[:4]
    found = stored_segment.footers_at(paths, FolderTarget(copied))
    assert [each.segments[0] for each in found if isinstance(each, Footer)] == [1, 2, 3, 4]


def test_the_whole_target_is_listed_once_however_much_is_merged(copied: Path) -> None:
    folders: list[str] = []

    class NotedTarget(FolderTarget):
        def files(self, folder: str = "") -> Iterator[Stored]:
            folders.append(folder)
            return super().files(folder)

    compact(NotedTarget(copied), LATER_US, MANY_BYTES)
    assert len(list(copied.glob("request/**/*.parquet"))) == 4
    assert folders.count("") == 2, "once for what was interrupted, and once for all that there is"
