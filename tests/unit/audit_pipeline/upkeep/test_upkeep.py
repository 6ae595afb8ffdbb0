"""Compaction, retention and questions, on segments as they are landed."""

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from audit_pipeline.errors import StoppedError
from audit_pipeline.ingest.land import land
from audit_pipeline.reading.query import Events
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.spool import stored_segment
from audit_pipeline.spool.targets import FolderTarget, Stored, Target
from audit_pipeline.upkeep.check import check
from audit_pipeline.upkeep.compact import compact, finish_interrupted
from audit_pipeline.upkeep.retention import RetentionLimits, expire
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench

HOUR_US = 3_600_000_000
BEGIN_US = 1_700_000_000_000_000
LATER_US = BEGIN_US + 10 * HOUR_US
MANY_BYTES = 1 << 30


def all_rows(folder: Path, spools: Path | None = None) -> list[Any]:
    events = Events(FolderTarget(folder), [spools] if spools else [])
    found = []
    for table in ("request", "partition", "connection"):
        found.append(events.ask(f"SELECT * EXCLUDE (arrival_date, arrival_hour) FROM {table} ORDER BY seq")[1])
    return found


def test_compaction_leaves_a_file_for_each_table_and_hour_and_the_same_events(copied: Path) -> None:
    before = all_rows(copied)
    assert compact(FolderTarget(copied), LATER_US, MANY_BYTES) == 36
    assert all_rows(copied) == before
    assert len(list(copied.glob("request/**/*.parquet"))) == 4
    report = check(FolderTarget(copied))
    assert report.findings == []
    assert report.segments == 4
    assert compact(FolderTarget(copied), LATER_US, MANY_BYTES) == 0, "there is nothing left to do"
    assert not list(copied.rglob("_*"))


def test_the_hour_that_is_not_over_is_left_alone(copied: Path) -> None:
    assert compact(FolderTarget(copied), BEGIN_US + HOUR_US, MANY_BYTES) < 36


def test_a_segment_that_reappears_after_its_merge_is_not_merged_again(copied: Path) -> None:
    """The merged file and a new one would share events, and only one of them could count."""
    first, second = sorted({path.name.rpartition("-")[2] for path in copied.glob("request/**/*.parquet")})[:2]
    before = all_rows(copied)
    again = {path: path.read_bytes() for name in (first, second) for path in copied.rglob(f"*-{name}")}
    for path in copied.rglob(f"*-{first}"):
        path.unlink()
    compact(FolderTarget(copied), LATER_US, MANY_BYTES)
    for path, data in again.items():
        path.write_bytes(data)
    compact(FolderTarget(copied), LATER_US, MANY_BYTES)
    assert {each.reason for each in LandedSegments([str(copied)], None, LATER_US).set_aside} == {"duplicate"}
    for path in copied.rglob(f"*-{second}"):
        path.unlink()
    assert all_rows(copied) == before


def test_compacted_files_have_a_limit(copied: Path) -> None:
    size = sum(path.stat().st_size for path in copied.rglob("*.parquet")) // 36
    compact(FolderTarget(copied), LATER_US, 5 * size)
    assert len(list(copied.glob("request/**/*.parquet"))) >= 36 // 5
    assert check(FolderTarget(copied)).findings == []


class SteppedTarget(FolderTarget):
    """Steps before each thing that it changes."""

    def __init__(self, root: Path, at: int) -> None:
        super().__init__(root)
        self.left = at

    def put(self, path: str, data: bytes) -> None:
        self.step()
        super().put(path, data)

    def rename(self, path: str, to: str) -> None:
        self.step()
        super().rename(path, to)

    def delete(self, path: str) -> None:
        self.step()
        super().delete(path)

    def step(self) -> None:
        self.left -= 1


class CrashingTarget(SteppedTarget):
    """Simulates the end of its process before its n-th change."""

    def step(self) -> None:
        super().step()
        if self.left < 0:
            raise KeyboardInterrupt


class MeanwhileTarget(SteppedTarget):
    """Runs `meanwhile` before its n-th change."""

    def __init__(self, root: Path, at: int, meanwhile: Callable[[], object]) -> None:
        super().__init__(root, at)
        self.meanwhile = meanwhile

    def step(self) -> None:
        super().step()
        if self.left == -1:
            self.meanwhile()


def plain_files(folder: Path) -> list[str]:
    """Files that a reader without knowledge of plans finds."""
    return [path.name for path in folder.glob("request/**/*.parquet") if not path.name.startswith("_")]


def test_compaction_that_is_killed_anywhere_never_shows_an_event_twice(landed: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(landed / "segments", source)
    for path in source.rglob("*.parquet"):
        # One hour is enough.
        if "arrival_hour=23" not in str(path) or path.stem[-2:] > "12":
            path.unlink()
    rows = Events(FolderTarget(source)).ask("SELECT count(*), count(DISTINCT seq), sum(seq) FROM request")[1]
    for step in range(1000):
        folder = tmp_path / f"at-{step}"
        shutil.copytree(source, folder)
        target = CrashingTarget(folder, step)
        try:
            compact(target, LATER_US, MANY_BYTES)
        except KeyboardInterrupt:
            names = plain_files(folder)
            merged = [name for name in names if name.count("-") == 4]
            assert not merged or len(names) == 1
            # A reader that knows the plan finds everything at any moment.
            asked = Events(FolderTarget(folder)).ask("SELECT count(*), count(DISTINCT seq), sum(seq) FROM request")[1]
            assert asked == rows
            finish_interrupted(FolderTarget(folder))
            assert (
                Events(FolderTarget(folder)).ask("SELECT count(*), count(DISTINCT seq), sum(seq) FROM request")[1]
                == rows
            )
            assert not list(folder.rglob("_*"))
        else:
            assert step >= 15
            return
    pytest.fail("it never came to an end")


def test_expired_segments_are_deleted_and_not_reported_as_lost(copied: Path) -> None:
    total = check(FolderTarget(copied)).events
    removed = expire(FolderTarget(copied), RetentionLimits(before_us=BEGIN_US + HOUR_US))
    assert removed > 0
    report = check(FolderTarget(copied))
    assert report.findings == []
    assert 0 < report.events < total


def test_the_oldest_segments_are_deleted_first_to_meet_the_size_limit(copied: Path) -> None:
    size = sum(path.stat().st_size for path in copied.rglob("*.parquet"))
    expire(FolderTarget(copied), RetentionLimits(bytes_max=size // 2))
    assert sum(path.stat().st_size for path in copied.rglob("*.parquet")) <= size // 2
    assert check(FolderTarget(copied)).findings == []
    noted = json.loads((copied / "_expired.json").read_text())
    assert [boot for _, _, boot, _ in noted] == ["0001"]


def test_a_hole_behind_what_has_expired_is_still_found(copied: Path) -> None:
    expire(FolderTarget(copied), RetentionLimits(before_us=BEGIN_US + HOUR_US))
    for path in copied.rglob("*-00000030.parquet"):
        path.unlink()
    assert [finding.kind for finding in check(FolderTarget(copied)).findings] == ["hole"]


def test_a_question_sees_what_is_still_in_the_spool(landed: Path) -> None:
    segments = FolderTarget(landed / "segments")
    count = "SELECT count(*), max(seq) FROM request"
    ((in_segments, _),) = Events(segments).ask(count)[1]
    ((in_both, last),) = Events(segments, [landed / "spools"]).ask(count)[1]
    assert (in_both, last) == (in_segments + 1, 73)
    assert Events(None, [landed / "spools"]).ask(count)[1] == [(1, 73)]


def test_a_spool_that_has_been_landed_and_not_deleted_yet_counts_once(tmp_path: Path) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path / "spools")
    bench.request()
    bench.log.close()
    shutil.copytree(tmp_path / "spools", tmp_path / "again")
    land(tmp_path / "spools", FolderTarget(tmp_path / "segments"))
    events = Events(FolderTarget(tmp_path / "segments"), [tmp_path / "again"])
    assert events.ask("SELECT count(*) FROM request")[1] == [(1,)]


def test_a_damaged_page_and_a_missing_file_are_found(copied: Path) -> None:
    path = next(copied.glob("partition/**/*-00000005.parquet"))
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    next(copied.glob("partition/**/*-00000007.parquet")).unlink()
    kinds = [(finding.kind, "00005" in finding.where) for finding in check(FolderTarget(copied)).findings]
    assert ("corrupt", True) in kinds
    assert ("hole", False) in kinds


class BusyTarget(FolderTarget):
    """Runs an action behind the first listing, and another behind each that follows."""

    def __init__(self, root: Path, *happens: Callable[[], object]) -> None:
        super().__init__(root)
        self._happens = list(happens)

    def files(self, folder: str = "") -> Iterator[Stored]:
        found = list(super().files(folder))
        if self._happens:
            self._happens.pop(0)()
        yield from found


def test_what_is_landed_during_a_check_is_not_called_missing(copied: Path, tmp_path: Path) -> None:
    late = next(copied.glob("partition/**/*-00000036.parquet"))
    late.rename(tmp_path / "late")
    assert {finding.kind for finding in check(FolderTarget(copied)).findings} == {"hole"}
    assert check(BusyTarget(copied, lambda: (tmp_path / "late").rename(late))).findings == []


def test_what_is_merged_during_a_check_is_not_called_corrupt(copied: Path) -> None:
    busy = BusyTarget(copied, lambda: compact(FolderTarget(copied), LATER_US, MANY_BYTES))
    report = check(busy)
    assert report.findings == []
    assert report.segments < 36


def test_a_check_that_takes_longer_than_it_takes_to_merge_comes_to_an_end(copied: Path, read: list[str]) -> None:
    """Each file that it checks is merged before it is read, one hour after the other, into larger and larger files."""
    size = sum(path.stat().st_size for path in copied.rglob("*.parquet")) // 36
    merges = [
        partial(compact, FolderTarget(copied), BEGIN_US + hour * HOUR_US, int(times * size))
        for hour in (1, 2)
        for times in (2.2, 3, 4)
    ]
    files = len(list(copied.rglob("*.parquet")))
    merged = iter(merges)
    report = check(BusyTarget(copied, *[lambda: next(merged)()] * len(merges)))
    assert report.findings == []
    assert report.events == check(FolderTarget(copied)).events
    assert len(read) < 4 * files


def test_rows_of_a_segment_merged_during_a_check_are_found_in_its_successor(
    copied: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, merged = stored_segment.row_groups_at, [False]

    def late(path: str, table: str, target: Target) -> Iterator[pa.Table]:
        if not merged[0]:
            merged[0] = True
            compact(FolderTarget(copied), LATER_US, MANY_BYTES)
        return really(path, table, target)

    monkeypatch.setattr("audit_pipeline.upkeep.check.row_groups_at", late)
    report = check(FolderTarget(copied))
    assert report.findings == []
    assert report.segments == 4


def test_segments_that_expire_during_a_check_are_not_reported_as_lost(copied: Path) -> None:
    busy = BusyTarget(copied, lambda: expire(FolderTarget(copied), RetentionLimits(before_us=BEGIN_US + HOUR_US)))
    assert check(busy).findings == []


def test_a_segment_deleted_during_a_check_is_a_hole(copied: Path) -> None:
    """Even without a following segment that would miss it."""
    last = list(copied.rglob("*-00000036.parquet"))

    def delete() -> None:
        for path in last:
            path.unlink()

    report = check(BusyTarget(copied, delete))
    assert {finding.kind for finding in report.findings} == {"hole"}
    assert {finding.where for finding in report.findings} == {str(path.relative_to(copied)) for path in last}


def test_a_second_pass_reads_only_new_files(copied: Path, tmp_path: Path, read: list[str]) -> None:
    late = next(copied.glob("partition/**/*-00000036.parquet"))
    late.rename(tmp_path / "late")
    files = len(list(copied.rglob("*.parquet")))
    assert check(BusyTarget(copied, lambda: (tmp_path / "late").rename(late))).findings == []
    assert len(read) == files + 1


def test_a_check_of_constantly_changing_files_reports_undecided_instead_of_corrupt_or_missing(copied: Path) -> None:
    numbers = count(90)
    folder = str(next(copied.glob("request/**/*-00000036.parquet")).parent.relative_to(copied))

    class RestlessTarget(FolderTarget):
        def files(self, folder_: str = "") -> Iterator[Stored]:
            yield from super().files(folder_)
            yield Stored(f"{folder}/cluster-7-0001-{next(numbers):08d}.parquet", 4711)

    report = check(RestlessTarget(copied))
    assert {finding.kind for finding in report.findings} == {"undecided"}
    assert "check again" in report.findings[-1].text


def test_a_segment_that_is_there_twice_is_found(copied: Path) -> None:
    path = next(copied.glob("request/**/*-00000005.parquet"))
    shutil.copy(path, path.with_name("copied.parquet"))
    assert "duplicate" in {finding.kind for finding in check(FolderTarget(copied)).findings}


def test_a_spool_that_is_still_there_when_its_segment_was_merged_is_not_landed_again(tmp_path: Path) -> None:
    """The lander was killed before it deleted the spool, and another lander of the same target does the upkeep."""
    spools, target = tmp_path / "spools", FolderTarget(tmp_path / "segments")
    bench = AuditBench(OsFileSystem(), spools, segment_ms="1000")
    for _ in range(4):
        bench.produce()
        bench.timers.advance(2)
    bench.log.close()
    shutil.copytree(spools, tmp_path / "before")
    land(spools, target)
    compact(target, LATER_US, MANY_BYTES)
    shutil.rmtree(spools)
    shutil.copytree(tmp_path / "before", spools)
    assert Events(target, [spools]).ask("SELECT count(*), count(DISTINCT seq) FROM request")[1] == [(4, 4)]
    land(spools, target)
    assert check(target).findings == []
    assert len(list((tmp_path / "segments").glob("request/**/*.parquet"))) == 1
    assert not list(spools.glob("*.spool"))


def damage_page(folder: Path, pattern: str) -> Path:
    path = next(folder.glob(pattern))
    data = bytearray(path.read_bytes())
    data[60] ^= 0xFF
    path.write_bytes(data)
    return path


def test_a_damaged_segment_stays_and_keeps_nothing_else_from_being_compacted(copied: Path) -> None:
    damage_page(copied, "partition/**/*-00000005.parquet")
    compact(FolderTarget(copied), LATER_US, MANY_BYTES)
    assert len(list(copied.glob("request/**/*.parquet"))) < 36
    assert len(list(copied.glob("request/**/*-00000005.parquet"))) == 1
    assert not list(copied.rglob("_*"))
    assert {finding.kind for finding in check(FolderTarget(copied)).findings} >= {"corrupt"}


def test_the_next_expiry_finishes_an_interrupted_deletion_without_findings(copied: Path) -> None:
    limits = RetentionLimits(bytes_max=sum(path.stat().st_size for path in copied.rglob("*.parquet")) // 2)
    target = CrashingTarget(copied, 4)
    with pytest.raises(KeyboardInterrupt):
        expire(target, limits)
    assert check(FolderTarget(copied)).findings == []
    expire(FolderTarget(copied), RetentionLimits(bytes_max=MANY_BYTES))
    assert not list(copied.rglob("*-00000002.parquet"))
    assert check(FolderTarget(copied)).findings == []


@pytest.mark.full
def test_check_reports_any_damage_and_continues(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path / "segments")
    bench = AuditBench(OsFileSystem(), tmp_path / "spools")
    bench.connect()
    bench.request()
    bench.log.close()
    land(tmp_path / "spools", target)
    path = next((tmp_path / "segments").glob("request/**/*.parquet"))
    whole = path.read_bytes()
    for at in range(0, len(whole), 13):
        data = bytearray(whole)
        data[at] ^= 0xFF
        path.write_bytes(data)
        check(target)
        compact(target, LATER_US, MANY_BYTES)
        expire(target, RetentionLimits(bytes_max=MANY_BYTES))


@pytest.fixture
def few(tmp_path: Path) -> Path:
    """Five segments of a boot that has ended, and its spools as they were."""
    bench = AuditBench(OsFileSystem(), tmp_path / "spools", segment_ms="1000")
    for _ in range(4):
        bench.produce()
        bench.timers.advance(2)
    bench.log.close()
    shutil.copytree(tmp_path / "spools", tmp_path / "as-written")
    land(tmp_path / "spools", FolderTarget(tmp_path / "few"))
    return tmp_path / "few"


COUNTED = "SELECT count(*), count(DISTINCT seq) FROM request"


def test_two_that_compact_at_once_lose_nothing(few: Path, tmp_path: Path) -> None:
    for step in range(16):
        folder = tmp_path / f"at-{step}"
        shutil.copytree(few, folder)
        meanwhile = MeanwhileTarget(folder, step, partial(finish_interrupted, FolderTarget(folder)))
        with suppress(OSError):
            compact(meanwhile, LATER_US, MANY_BYTES)
        finish_interrupted(FolderTarget(folder))
        assert Events(FolderTarget(folder)).ask(COUNTED)[1] == [(4, 4)], step
        assert check(FolderTarget(folder)).findings == [], step


def test_only_one_at_a_time_compacts_a_folder(few: Path) -> None:
    with FolderTarget(few).upkeep() as first, FolderTarget(few).upkeep() as second:
        assert (first, second) == (True, False)
    with FolderTarget(few).upkeep() as third:
        assert third


def test_a_spool_counts_once_while_the_segment_that_it_is_merged_into_is_a_draft(few: Path, tmp_path: Path) -> None:
    for step in range(16):
        folder = tmp_path / f"at-{step}"
        shutil.copytree(few, folder)
        with suppress(KeyboardInterrupt):
            compact(CrashingTarget(folder, step), LATER_US, MANY_BYTES)
        assert Events(FolderTarget(folder), [tmp_path / "as-written"]).ask(COUNTED)[1] == [(4, 4)], step


def stopped_at(question: int) -> Callable[[], bool]:
    """A stop check that returns True from that question on."""
    asked = iter(range(question))
    return lambda: next(asked, None) is None


def test_compaction_that_is_stopped_anywhere_leaves_nothing_half_done(few: Path, tmp_path: Path) -> None:
    for step in count():
        folder = tmp_path / f"at-{step}"
        shutil.copytree(few, folder)
        try:
            compact(FolderTarget(folder), LATER_US, MANY_BYTES, stopped_at(step))
        except StoppedError:
            assert not list(folder.rglob("_*"))
            assert check(FolderTarget(folder)).findings == []
        else:
            assert len(list(folder.glob("request/**/*.parquet"))) == 1
            break
    assert step > 15, "it is heard between any two files"


def test_retention_that_is_stopped_is_ended_by_the_next(few: Path) -> None:
    target = FolderTarget(few)
    files = len(list(few.rglob("*.parquet")))
    with pytest.raises(StoppedError):
        expire(target, RetentionLimits(before_us=LATER_US), stopped_at(files + 3))
    assert 0 < len(list(few.rglob("*.parquet"))) < files
    assert check(target).findings == []
    expire(target, RetentionLimits())
    assert not list(few.rglob("*.parquet"))
