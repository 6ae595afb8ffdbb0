"""Landed segments, the paths whose footers a test reads, and the Spark session that tests of results share."""

import shutil
from pathlib import Path

import pytest

from audit_pipeline.ingest.land import land
from audit_pipeline.spool import stored_segment
from audit_pipeline.spool.segment import Footer
from audit_pipeline.spool.targets import FolderTarget, Target
from broker_runtime.storage.disk.filesystem import OsFileSystem
from tests.support.audit.audit import AuditBench
from tests.support.audit.spark_session import compiling_spark, spark

__all__ = ["compiling_spark", "copied", "landed", "read", "spark"]


@pytest.fixture(scope="module")
def landed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three hours of one boot in segments of two minutes; the broker still runs."""
    root = tmp_path_factory.mktemp("landed")
    bench = AuditBench(OsFileSystem(), root / "spools", segment_ms="120000")
    for number in range(3 * 12):
        bench.connect(connection_id=number + 1)
        bench.produce("orders", number % 3)
        bench.timers.advance(300)
    bench.request()
    bench.settle()
    land(root / "spools", FolderTarget(root / "segments"))
    return root


@pytest.fixture
def copied(landed: Path, tmp_path: Path) -> Path:
    shutil.copytree(landed / "segments", tmp_path / "segments")
    return tmp_path / "segments"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths whose footers were read: each costs at least one request to an object store."""
    paths: list[str] = []
    really = stored_segment.footer_at

    def noted(path: str, target: Target) -> Footer:
        paths.append(path)
        return really(path, target)

    monkeypatch.setattr(stored_segment, "footer_at", noted)
    return paths
