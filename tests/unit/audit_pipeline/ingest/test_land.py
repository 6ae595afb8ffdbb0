"""From an audit log to segments and the verdict on them, with a lander that is interrupted at any point."""

import errno
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from audit_pipeline.errors import BadUseError
from audit_pipeline.ingest.land import Landed, land
from audit_pipeline.spool.spool_folder import AlreadyLandingError, forget_boot, landing, spools_of
from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.check import check
from audit_pipeline.upkeep.compact import compact
from audit_pipeline.upkeep.unfinished import clean_segments
from broker_runtime.apis.request.call import Ending
from broker_runtime.network.connection.connection_notices import NoticeKind
from broker_runtime.observers.surroundings import HostedPartition
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench


def rows(target: Path, table: str) -> list[dict[str, Any]]:
    found = [row for path in sorted(target.glob(f"{table}/**/*.parquet")) for row in pq.read_table(path).to_pylist()]
    return sorted(found, key=lambda row: (row["boot_id"], row["seq"]))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def write_boots(spools: Path) -> None:
    """Two boots, the first of which was killed, with a few segments each."""
    for boot, is_killed in (("0001", True), ("0002", False)):
        bench = AuditBench(OsFileSystem(), spools, boot, segment_ms="1000")
        for number in range(2):
            bench.connect(connection_id=number + 1)
            bench.produce("orders", number)
            bench.request(ending=Ending.CANCELLED)
            bench.timers.advance(0.7)
        bench.request()
        if is_killed:
            bench.kill()
        else:
            bench.log.close()


def test_what_a_broker_records_is_in_the_segments_once(tmp_path: Path) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    bench = AuditBench(OsFileSystem(), spools)
    bench.connect()
    bench.produce("orders", 3, 10)
    bench.request()
    bench.log.inventory(HostedPartition("orders", 3, 4096, 0, 10, True))
    bench.request(ending=Ending.REFUSED, refusal="unsupported-version")
    bench.log.close()

    landed = land(spools, FolderTarget(target))

    assert landed == Landed(spools=1, files=4, events=5, problems=())
    report = check(FolderTarget(target))
    assert report.findings == []
    assert report.events == 5
    (partition,) = rows(target, "partition")
    assert (partition["seq"], partition["topic"], partition["partition"], partition["records"]) == (2, "orders", 3, 10)
    requests = rows(target, "request")
    assert [row["api"] for row in requests] == ["Produce", "Metadata", "Metadata"]
    assert [row["acks"] for row in requests] == [1, None, None]
    assert [row["refusal"] for row in requests] == [None, None, "unsupported-version"]
    assert [row["total_us"] for row in requests] == [1000] * 3
    assert requests[0]["client_ip"] == "127.0.0.1"
    assert [row["event"] for row in rows(target, "connection")] == ["accepted"]
    assert [row["bytes"] for row in rows(target, "inventory")] == [4096]
    assert not list(spools.glob("*.spool"))


def test_a_spool_that_is_still_written_stays(tmp_path: Path) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    bench = AuditBench(OsFileSystem(), spools, segment_ms="1000")
    bench.request()
    bench.settle()
    assert land(spools, FolderTarget(target)).spools == 0
    bench.timers.advance(1)
    assert land(spools, FolderTarget(target)) == Landed(spools=1, files=1, events=1, problems=())
    assert check(FolderTarget(target)).findings == []
    assert [path.name for path in spools.glob("*.spool")] == ["0001-00000002.spool"]


def test_what_a_killed_broker_did_not_write_is_a_gap(tmp_path: Path) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    bench = AuditBench(OsFileSystem(), spools)
    bench.request()
    bench.settle()
    bench.request()
    bench.kill()

    land(spools, FolderTarget(target))

    (gap,) = rows(target, "gap")
    assert (gap["first_seq"], gap["reason"]) == (2, "killed")
    report = check(FolderTarget(target))
    assert [finding.kind for finding in report.findings] == ["gap"]
    assert report.missing == gap["events"]


@pytest.mark.parametrize("is_killed", [True, False])
def test_a_boot_that_ends_while_nothing_happens_is_known_to_be_whole(tmp_path: Path, is_killed: bool) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    bench = AuditBench(OsFileSystem(), spools, segment_ms="1000")
    bench.request()
    bench.timers.advance(2)
    assert land(spools, FolderTarget(target)).spools == 1
    if is_killed:
        bench.kill()
    else:
        bench.log.close()
    later = AuditBench(OsFileSystem(), spools, "0002")
    later.request()
    later.log.close()

    land(spools, FolderTarget(target))

    report = check(FolderTarget(target))
    assert report.findings == []
    assert (report.boots, report.events) == (2, 2)
    assert rows(target, "gap") == []
    compact(FolderTarget(target), bench.clock.wall_ms() * 1000 + 3_600_000_000, 1 << 30)
    assert check(FolderTarget(target)).findings == []
    assert not list(target.glob("gap/**/*.parquet"))


class CrashingTarget(FolderTarget):
    """Simulates the end of its process at the n-th action: before it, or half-way through."""

    def __init__(self, root: Path, crash_at: int) -> None:
        super().__init__(root)
        self._left = crash_at

    def put(self, path: str, data: bytes) -> None:
        self._step()
        draft = self._root / path
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.with_name(f"_{draft.name}.1").write_bytes(data[: len(data) // 2])
        self._step()
        super().put(path, data)
        self._step()

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise KeyboardInterrupt


def test_a_lander_that_is_killed_anywhere_and_begun_again_comes_to_the_same_files(tmp_path: Path) -> None:
    write_boots(tmp_path / "spools")
    shutil.copytree(tmp_path / "spools", tmp_path / "begin")
    land(tmp_path / "spools", FolderTarget(tmp_path / "expected"))
    expected = files(tmp_path / "expected")
    for step in range(3 * len(expected) + 1):
        spools, segments = tmp_path / f"spools-{step}", tmp_path / f"segments-{step}"
        shutil.copytree(tmp_path / "begin", spools)
        try:
            land(spools, CrashingTarget(segments, step))
        except KeyboardInterrupt:
            land(spools, FolderTarget(segments))
        clean_segments(FolderTarget(segments))
        assert files(segments) == expected
        assert not list(spools.glob("*.spool"))
    report = check(FolderTarget(tmp_path / "expected"))
    assert [finding.kind for finding in report.findings] == ["gap"], "of the boot that was killed"


def test_two_landers_at_once_are_refused_and_would_do_no_harm(tmp_path: Path) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    write_boots(spools)
    with landing(spools), pytest.raises(AlreadyLandingError, match="another lander"), landing(spools):
        pass
    before = {path: path.read_bytes() for path in spools.glob("*.spool")}
    land(spools, FolderTarget(target))
    once = files(target)
    for path, data in before.items():
        path.write_bytes(data)
    assert land(spools, FolderTarget(target)).problems == ()
    assert files(target) == once


class InterruptedTarget(FolderTarget):
    """A target in whose n-th step another lander lands everything."""

    def __init__(self, root: Path, spools: Path, at: int) -> None:
        super().__init__(root)
        self._spools = spools
        self._left = at

    def put(self, path: str, data: bytes) -> None:
        self._step()
        super().put(path, data)
        self._step()

    def _step(self) -> None:
        self._left -= 1
        if self._left == -1:
            assert land(self._spools, FolderTarget(self._root)).problems == ()


def test_two_landers_with_interleaved_steps_write_the_files_of_one(tmp_path: Path) -> None:
    """As on file systems without working locks, for example some network ones."""
    write_boots(tmp_path / "begin")
    shutil.copytree(tmp_path / "begin", tmp_path / "spools")
    land(tmp_path / "spools", FolderTarget(tmp_path / "expected"))
    expected = files(tmp_path / "expected")
    for step in range(2 * len(expected)):
        spools, segments = tmp_path / f"spools-{step}", tmp_path / f"segments-{step}"
        shutil.copytree(tmp_path / "begin", spools)
        assert land(spools, InterruptedTarget(segments, spools, step)).problems == ()
        assert files(segments) == expected
        assert not list(spools.glob("*.spool"))


class FullTarget(FolderTarget):
    """A disk with space for so many more files."""

    def __init__(self, root: Path, files: int) -> None:
        super().__init__(root)
        self._left = files

    def put(self, path: str, data: bytes) -> None:
        self._left -= 1
        if self._left < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().put(path, data)


def test_a_target_that_is_full_anywhere_costs_nothing_but_time(tmp_path: Path) -> None:
    write_boots(tmp_path / "begin")
    shutil.copytree(tmp_path / "begin", tmp_path / "spools")
    land(tmp_path / "spools", FolderTarget(tmp_path / "expected"))
    expected = files(tmp_path / "expected")
    for room in range(len(expected)):
        spools, segments = tmp_path / f"spools-{room}", tmp_path / f"segments-{room}"
        shutil.copytree(tmp_path / "begin", spools)
        with pytest.raises(OSError, match="No space left"):
            land(spools, FullTarget(segments, room))
        land(spools, FolderTarget(segments))
        assert files(segments) == expected


def test_spools_that_cannot_be_deleted_are_landed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    write_boots(spools)

    def refuse(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    with monkeypatch.context() as read_only:
        read_only.setattr(Path, "unlink", refuse)
        for _ in range(2):
            problems = land(spools, FolderTarget(target)).problems
            assert len(problems) == len(list(spools.glob("*.spool"))) > 2
            assert all("is landed, but cannot be deleted: " in problem for problem in problems)
    assert land(spools, FolderTarget(target)).problems == ()
    assert {finding.kind for finding in check(FolderTarget(target)).findings} == {"gap"}
    assert not list(spools.glob("*.spool"))


def test_a_folder_of_spools_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    monkeypatch.setattr(Path, "open", refuse)
    with (
        pytest.raises(BadUseError, match=r"cannot be written .Read-only file system., but a lander must"),
        landing(tmp_path),
    ):
        pass


def test_a_segment_that_is_there_already_with_other_events_is_left_alone(tmp_path: Path) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    for count in (1, 2):
        bench = AuditBench(OsFileSystem(), spools)
        for _ in range(count):
            bench.request()
        bench.log.close()
        landed = land(spools, FolderTarget(target))
    (problem,) = landed.problems
    assert "has other events" in problem
    assert len(rows(target, "request")) == 1
    assert list(spools.glob("*.spool"))


def test_a_segment_that_is_half_there_is_written_again(tmp_path: Path) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    write_boots(spools)
    before = {path: path.read_bytes() for path in spools.iterdir()}
    land(spools, FolderTarget(target))
    path = next(target.glob("request/**/*.parquet"))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    for spool, data in before.items():
        spool.write_bytes(data)
    land(spools, FolderTarget(target))
    assert path.read_bytes() == whole


def test_a_boot_that_runs_is_not_forgotten_also_when_it_has_no_spool(tmp_path: Path) -> None:
    spools = tmp_path / "spools"
    running = [AuditBench(OsFileSystem(), spools, boot) for boot in ("0001", "0002")]
    (spools / "0001-00000001.spool").unlink()
    land(spools, FolderTarget(tmp_path / "segments"))
    assert (spools / "0001.lock").exists()
    running[0].kill()
    land(spools, FolderTarget(tmp_path / "segments"))
    assert not (spools / "0001.lock").exists()


def test_spools_are_read_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spools that were not landed for days would not fit into the memory of a sidecar."""
    bench = AuditBench(OsFileSystem(), tmp_path, segment_ms="1000")
    for _ in range(4):
        bench.request()
        bench.timers.advance(2)
    bench.log.close()
    read: list[str] = []
    really = Path.read_bytes

    def noted(path: Path) -> bytes:
        read.append(path.name)
        return really(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    first = next(spools_of(tmp_path, "0001"))
    assert (first.is_complete, first.ended) == (True, False)
    assert read == ["0001.lock", "0001-00000001.spool", "0001-00000002.spool"]
    assert len(list(tmp_path.glob("*.spool"))) == 5


def test_spools_that_a_lander_takes_away_meanwhile_are_passed_over(tmp_path: Path) -> None:
    bench = AuditBench(OsFileSystem(), tmp_path, segment_ms="1000")
    for _ in range(4):
        bench.request()
        bench.timers.advance(2)
    found = spools_of(tmp_path, "0001")
    assert next(found).content.header.segment == 1
    for number in (1, 2, 3):
        (tmp_path / f"0001-{number:08d}.spool").unlink()
    assert [spool.content.header.segment for spool in found] == [2, 4, 5]


def test_a_spool_that_is_cut_in_the_middle_costs_its_tail_and_says_so(tmp_path: Path) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    write_boots(spools)
    middle = sorted(spools.glob("0002-*.spool"))[1]
    data = middle.read_bytes()
    middle.write_bytes(data[: len(data) // 2])
    land(spools, FolderTarget(target))
    kinds = [finding.kind for finding in check(FolderTarget(target)).findings]
    assert kinds == ["gap", "gap"]
    assert [row["reason"] for row in rows(target, "gap")] == ["killed", "damaged"]


def test_a_spool_of_another_version_is_left_alone_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    monkeypatch.setattr("broker_runtime.observers.audit_log.spool.SCHEMA_VERSION", 2)
    AuditBench(OsFileSystem(), spools).log.close()
    (problem,) = land(spools, FolderTarget(target)).problems
    assert "schema version 2" in problem
    assert list(spools.glob("*.spool"))


def test_every_kind_of_connection_notice_has_its_row(tmp_path: Path) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    bench = AuditBench(OsFileSystem(), spools, level="connections")
    for kind in NoticeKind:
        bench.connect(kind)
    bench.log.close()
    land(spools, FolderTarget(target))
    assert [row["event"] for row in rows(target, "connection")] == ["accepted", "limited", "refused", "closed"]


def test_a_boot_that_ends_while_it_is_looked_at_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spools, target = tmp_path / "spools", FolderTarget(tmp_path / "segments")
    bench = AuditBench(OsFileSystem(), spools, "0001")
    first = spools / "0001-00000001.spool"
    first.rename(tmp_path / "not-begun")
    AuditBench(OsFileSystem(), spools, "0002")

    def begin_and_end(folder: Path, boot_id: str) -> None:
        if not first.exists() and boot_id == "0001":
            (tmp_path / "not-begun").rename(first)
            bench.request()
            bench.settle()
            bench.kill()
        forget_boot(folder, boot_id)

    monkeypatch.setattr("audit_pipeline.ingest.land.forget_boot", begin_and_end)
    land(spools, target)
    monkeypatch.undo()
    land(spools, target)
    assert [row["seq"] for row in rows(tmp_path / "segments", "request")] == [1]


def test_a_file_that_a_killed_broker_was_about_to_begin_is_not_landed_later(tmp_path: Path) -> None:
    spools, target = tmp_path / "spools", FolderTarget(tmp_path / "segments")
    bench = AuditBench(OsFileSystem(), spools)
    bench.request()
    bench.settle()
    bench.kill()
    (spools / "0001-00000002.spool").touch()
    for _ in range(2):
        land(spools, target)
    assert {finding.kind for finding in check(target).findings} <= {"gap"}


def test_spools_with_mixed_up_names_are_reported_and_kept(tmp_path: Path) -> None:
    """Otherwise the last spool would not be recognized, and events lost by the broker's kill would not be reported."""
    spools, target = tmp_path / "spools", FolderTarget(tmp_path / "segments")
    bench = AuditBench(OsFileSystem(), spools, segment_ms="1000")
    for _ in range(2):
        bench.request()
        bench.timers.advance(2)
    bench.request()
    bench.kill()
    first, last = spools / "0001-00000001.spool", spools / "0001-00000003.spool"
    whole = first.read_bytes(), last.read_bytes()
    first.write_bytes(whole[1])
    last.write_bytes(whole[0])
    assert "its content is that of 0001-00000003.spool" in land(spools, target).problems[0]
    first.write_bytes(whole[0])
    last.write_bytes(whole[1])
    copied = spools / "0001-00000001-copied.spool"
    copied.write_bytes(whole[0])
    assert "move it to another folder" in land(spools, target).problems[0]
    copied.unlink()
    assert land(spools, target).problems == ()
    assert {finding.kind for finding in check(target).findings} == {"gap"}
