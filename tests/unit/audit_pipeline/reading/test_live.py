"""What `follow` publishes: batches by their numbers, once."""

from pathlib import Path

import pytest

from audit_pipeline.errors import BadUseError
from audit_pipeline.reading.live import KEPT_US, LiveBatch, LiveManifest, publish_live, read_live
from audit_pipeline.spool.targets import FolderTarget


def batch(name: str, published_us: int = 0, rows: int = 3) -> LiveBatch:
    return LiveBatch((f"usage/event_date=2026-11-22/{name}.parquet",), rows, published_us)


def two() -> LiveManifest:
    return LiveManifest("s").with_batch("request", 0, batch("a", 1)).with_batch("partition", 0, batch("b", KEPT_US))


def test_batches_are_counted_by_query_and_number() -> None:
    live = two().with_batch("request", 1, batch("c"))
    assert live.has("request", 1)
    assert not live.has("partition", 1)
    assert [path[-9:] for path in live.files] == ["a.parquet", "b.parquet", "c.parquet"]
    assert live.rows == 9


def test_late_events_are_added_up_once_per_batch() -> None:
    live = two().with_told("request", 0, 5, 1).with_told("request", 0, 5, 1).with_told("request", 7, 100, 100)
    assert (live.late, live.skewed) == ({"request": 5}, {"request": 1})
    assert live.batches["request"]["0"].late == 5
    assert live.batches["partition"]["0"].late is None


def test_old_batches_are_left_to_the_build_and_stay_counted() -> None:
    live = two().with_told("request", 0, 5, 0).without_old(KEPT_US + 2)
    assert not live.has("request", 0)
    assert live.has("partition", 0)
    assert live.late == {"request": 5}


def test_a_published_live_manifest_reads_back(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path)
    assert read_live(target) is None
    live = two().with_told("request", 0, 5, 0)
    target.put("usage/old.parquet", b"")
    publish_live(target, live, ["usage/old.parquet"])
    assert read_live(target) == live
    assert not (tmp_path / "usage" / "old.parquet").exists()


@pytest.mark.parametrize("torn", [b"", b'{"format": 2, "sou', b"[]", b'{"format": 2}'])
def test_a_damaged_live_manifest_is_reported(tmp_path: Path, torn: bytes) -> None:
    target = FolderTarget(tmp_path)
    target.put("_manifest.json", torn)
    with pytest.raises(BadUseError, match="of the live results is damaged"):
        read_live(target)


def test_another_format_is_refused(tmp_path: Path) -> None:
    target = FolderTarget(tmp_path)
    target.put("_manifest.json", b'{"format": 1}')
    with pytest.raises(BadUseError, match="have format 1, but this version reads format 2"):
        read_live(target)
