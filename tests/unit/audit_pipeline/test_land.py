"""From an audit log to segments and to the verdict about them."""

from pathlib import Path

import pyarrow.parquet as pq

from audit_pipeline.check import check
from audit_pipeline.land import land
from audit_pipeline.targets import FolderTarget
from broker_runtime.storage.filesystem import OsFileSystem
from tests.support.audit import AuditBench


def rows(target: Path, table: str) -> list[dict[str, object]]:
    return [row for path in sorted(target.glob(f"{table}/**/*.parquet")) for row in pq.read_table(path).to_pylist()]


def test_what_a_broker_records_is_in_the_segments_once(tmp_path: Path) -> None:
    spools, target = tmp_path / "spools", tmp_path / "segments"
    bench = AuditBench(OsFileSystem(), spools)
    bench.connect()
    bench.produce("orders", 3, 10)
    bench.request()
    bench.log.close()
    del bench

    landed = land(spools, FolderTarget(target))

    assert (landed.spools, landed.events, landed.problems) == (1, 3, ())
    report = check(FolderTarget(target))
    assert report.findings == []
    assert report.events == 3
    (partition,) = rows(target, "partition")
    assert (partition["seq"], partition["topic"], partition["partition"], partition["records"]) == (2, "orders", 3, 10)
    assert [row["api"] for row in rows(target, "request")] == ["Produce", "Metadata"]
    assert [row["event"] for row in rows(target, "connection")] == ["accepted"]
    assert not list(spools.glob("*.spool"))
