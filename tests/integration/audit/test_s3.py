"""Landing into an object store: a real S3 server."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from audit_pipeline.ingest.land import land
from audit_pipeline.reading.query import Events
from audit_pipeline.spool.targets import open_target
from audit_pipeline.upkeep.check import check
from audit_pipeline.upkeep.compact import compact
from audit_pipeline.upkeep.retention import RetentionLimits, expire
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench
from tests.support.processes.clients.broker_admin import until
from tests.support.processes.s3_server import ACCESS_KEY, SECRET_KEY, S3Server

pytestmark = pytest.mark.full

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
    # The sixth segment has no events: it records the end of the broker.
    assert compact(target, LATER_US, 1 << 30) == 6
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


def test_a_continuous_lander_waits_for_credentials_and_survives_their_expiry(server: S3Server, tmp_path: Path) -> None:
    spools, secret, log = tmp_path / "spools", tmp_path / "secret", tmp_path / "log"
    secret.mkdir()
    write_spools(spools, 2)
    command = [sys.executable, "-m", "audit_pipeline", "keep", "--variables", str(secret), str(spools), server.bare_uri]
    # Hide the credentials of this machine, too.
    lost = {"AWS_EC2_METADATA_DISABLED": "true", "HOME": str(tmp_path)}
    with log.open("wb") as output:
        kept = subprocess.Popen([*command, "--interval-s", "0.2"], env={**os.environ, **lost}, stderr=output)
    try:
        until(lambda: "the spools are kept" in log.read_text(), "it says that it has no credentials")
        (secret / "AWS_SECRET_ACCESS_KEY").write_text(SECRET_KEY)
        (secret / "AWS_ACCESS_KEY_ID").write_text(f"{ACCESS_KEY}\n")
        until(lambda: not list(spools.glob("*.spool")), "all is landed")
        (child,) = children_of(kept.pid)
        os.kill(child, signal.SIGKILL)
        until(lambda: "landing ended (exit code -9)" in log.read_text(), "its end is told")
        until(lambda: children_of(kept.pid) not in ([], [child]), "it has begun again")
        assert kept.poll() is None
    finally:
        kept.terminate()
        assert kept.wait(60) == 0
    assert check(open_target(server.uri)).findings == []
    assert SECRET_KEY not in log.read_text()


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
