"""Landing into an object store: a real S3 server."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from audit_pipeline.check import check
from audit_pipeline.compact import compact
from audit_pipeline.land import land
from audit_pipeline.query import Events
from audit_pipeline.retention import RetentionLimits, expire
from audit_pipeline.targets import open_target
from broker_runtime.storage.filesystem import OsFileSystem
from tests.support.audit import AuditBench
from tests.support.s3_server import S3Server

LATER_US = 1_700_000_000_000_000 + 36_000_000_000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S3Server]:
    with S3Server(tmp_path / "objects") as running:
        yield running


def write_spools(folder: Path, segments: int) -> None:
    bench = AuditBench(OsFileSystem(), folder, segment_ms="1000")
    for _ in range(segments):
        bench.produce()
        bench.connect()
        bench.timers.advance(2)
    bench.log.close()


def test_segments_are_objects_that_can_be_checked_asked_compacted_and_deleted(server: S3Server, tmp_path: Path) -> None:
    write_spools(tmp_path / "spools", 5)
    target = open_target(server.uri)

    assert land(tmp_path / "spools", target).spools >= 5

    assert check(target).findings == []
    count = "SELECT count(*) FROM request"
    assert Events(target).ask(count)[1] == [(5,)]
    assert compact(target, LATER_US, 1 << 30) == 5
    assert check(target).findings == []
    assert Events(target).ask(count)[1] == [(5,)]
    assert [stored.path.partition("/")[0] for stored in target.files()] == ["connection", "partition", "request"]
    assert expire(target, RetentionLimits(before_us=LATER_US)) == 3
    assert check(target).findings == []
    assert Events(target).ask(count)[1] == [(0,)]


def test_a_store_that_is_gone_for_a_while_costs_nothing(server: S3Server, tmp_path: Path) -> None:
    write_spools(tmp_path / "spools", 2)
    server.stop()
    with pytest.raises(OSError):
        land(tmp_path / "spools", open_target(server.uri))
    assert len(list((tmp_path / "spools").glob("*.spool"))) >= 2
    server.start()
    land(tmp_path / "spools", open_target(server.uri))
    report = check(open_target(server.uri))
    assert (report.findings, report.events) == ([], 4)
