"""Unfinished files beside segments are deleted, but no files of other owners."""

import os
from pathlib import Path

import pytest

from audit_pipeline.spool.targets import FolderTarget
from audit_pipeline.upkeep.unfinished import clean_segments

OF_OTHERS = (
    "_notes.2024",
    "mine/_app.log.1",
    "_libfoo.so.1",
    "_.1",
    "_expired.json.12",
    "mine/__expired.json.12",
    "_cluster-7-0001-00000001.parquet.4711",
    "mine/arrival_date=2026-11-22/arrival_hour=05/_cluster-7-0001-00000001.parquet.4711",
    "request/arrival_date=2026-11-22/arrival_hour=05/_mine.parquet.4711",
    "request/arrival_date=2026-11-22/arrival_hour=05/mine/_cluster-7-0001-00000001.parquet.4711",
    "request/arrival_date=2026-11-22/arrival_hour=05/_cluster-7-0001-00000001.parquet.\N{SUPERSCRIPT TWO}",
    "request/arrival_date=2026-11-22/arrival_hour=05/_cluster-7-0001-00000002.parquet.5/a-folder",
)


def test_drafts_of_a_killed_process_are_deleted_once_it_cannot_write_them_any_more(tmp_path: Path) -> None:
    folder = tmp_path / "request/arrival_date=2026-11-22/arrival_hour=05"
    folder.mkdir(parents=True)
    segment = folder / "cluster-7-0001-00000001.parquet"
    segment.touch()
    os.utime(segment, (0, 0))
    drafts = [
        folder / "_cluster-7-0001-00000001.parquet.4711",
        folder / "__cluster-7-0001-00000001-00000002.parquet.4711",
        tmp_path / "__expired.json.12",
        tmp_path / "__compacting-cluster-7.json.13",
    ]
    for draft in drafts:
        draft.touch()
    clean_segments(FolderTarget(tmp_path), 3600)
    assert all(draft.exists() for draft in drafts)
    for draft in drafts:
        os.utime(draft, (0, 0))
    clean_segments(FolderTarget(tmp_path), 3600)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [segment]


def test_files_of_other_owners_are_kept_whatever_their_names(tmp_path: Path) -> None:
    for path in OF_OTHERS:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
        os.utime(tmp_path / path, (0, 0))
    clean_segments(FolderTarget(tmp_path))
    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == {*OF_OTHERS}


def test_landers_with_the_same_process_id_do_not_write_into_the_same_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts = []
    really = os.rename

    def noted(source: Path, to: Path) -> None:
        drafts.append(source)
        really(source, to)

    monkeypatch.setattr(os, "rename", noted)
    for _ in range(2):
        FolderTarget(tmp_path).put("a.parquet", b"")
    assert len(set(drafts)) == 2
    path = tmp_path / drafts[0].name
    path.touch()
    FolderTarget(tmp_path).clean(lambda path: path == "a.parquet")
    assert not path.exists()
