"""Files of the audit log: spools of brokers, landed segments, manifests of results and plans of compactions."""

import json
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import pyarrow as pa

from audit_pipeline.errors import BadUseError
from audit_pipeline.spool.listing import CompactionPlan, plan_path, segment_paths
from audit_pipeline.spool.manifest_file import read_manifest_file
from audit_pipeline.spool.segment import NoSegmentError, segment_files
from audit_pipeline.spool.spool import NoSpoolError, OtherVersionError, SpoolContent, read_header, read_spool
from audit_pipeline.spool.stored_segment import footer_at, row_groups_at
from audit_pipeline.spool.tables import gaps_of, tables_of
from audit_pipeline.spool.targets import FolderTarget
from broker_runtime.storage.disk.filesystem import read_file
from tests.fuzz.target import Target
from tests.support.audit.audit import AuditBench
from tests.support.fakes.disks.memory_filesystem import MemoryFileSystem

_AUDIT = Path("/audit")
_SEGMENT = "segment.parquet"
_MANIFEST = "manifest.json"
_FORMAT = 3


@dataclass(frozen=True, slots=True)
class _Manifest:
    format: int
    tables: dict[str, list[str]]
    built_us: int | None = None


@cache
def _killed() -> tuple[bytes, bytes]:
    """Return the spool and the lock of a broker that was killed."""
    fs = MemoryFileSystem()
    bench = AuditBench(fs, _AUDIT)
    for _ in range(2):
        bench.connect()
        bench.produce()
        bench.request()
        bench.settle()
    return read_file(fs, _AUDIT / "0001-00000001.spool"), read_file(fs, _AUDIT / "0001.lock")


@cache
def _folder() -> tuple[Path, FolderTarget]:
    folder = Path(tempfile.mkdtemp(prefix="sluicegate-fuzz-"))
    return folder, FolderTarget(folder)


def _spool(data: bytes) -> None:
    """What a lander reads: each number is in a block or in a gap, at most once."""
    with suppress(NoSpoolError, OtherVersionError):
        read_header(data)
        content = read_spool(data, read_header(_killed()[1]))
        _check_numbers(content)
        tables_of(content, list(gaps_of(content, None, ended=True)))


def _check_numbers(content: SpoolContent) -> None:
    covered = sorted(
        [(block.first_seq, block.last_seq) for block in content.blocks]
        + [(gap.first_seq, gap.last_seq) for gap in gaps_of(content, None, ended=True)]
    )
    for (_, last), (first, _) in pairwise(covered):
        assert last < first


def _segment(data: bytes) -> None:
    folder, target = _folder()
    (folder / _SEGMENT).write_bytes(data)
    with suppress(NoSegmentError):
        footer_at(_SEGMENT, target)
        for rows in row_groups_at(_SEGMENT, "request", target):
            assert isinstance(rows, pa.Table)


def _segments() -> Iterable[bytes]:
    content = read_spool(_killed()[0])
    return [file.data for file in segment_files(content, (), ended=True) if file.path.startswith("request/")]


def _manifest(data: bytes) -> None:
    folder, target = _folder()
    (folder / _MANIFEST).write_bytes(data)
    with suppress(BadUseError):
        found = read_manifest_file(target, _MANIFEST, _Manifest, _FORMAT, "the results", "build them again")
        assert found is not None
        assert found.format == _FORMAT


def _plan(data: bytes) -> None:
    folder, target = _folder()
    (folder / plan_path("1")).write_bytes(data)
    with suppress(BadUseError):
        segment_paths(target)


def _plans() -> Iterable[bytes]:
    yield CompactionPlan(("request/a.parquet",), (("request/_b.parquet", "request/b.parquet"),), True).packed()
    yield CompactionPlan(("request/a.parquet",), (), False).packed()


TARGETS = (
    Target("audit-spool", _spool, _killed, 8_192),
    Target("audit-segment", _segment, _segments, 65_536),
    Target("audit-manifest", _manifest, lambda: (json.dumps({"format": _FORMAT, "tables": {"a": ["b"]}}).encode(),)),
    Target("audit-plan", _plan, _plans),
)
