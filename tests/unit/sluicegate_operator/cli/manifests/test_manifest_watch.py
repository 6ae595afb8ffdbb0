import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sluicegate_operator.api import load_manifests
from sluicegate_operator.cli.manifests.manifest_watch import CHANGED_SCANS, REMOVED_SCANS, ManifestWatch, modified_at


def settled(watch: ManifestWatch, scans: int = CHANGED_SCANS) -> list[Path] | None:
    """Return the result of the last of `scans` scans; the ones before it report nothing."""
    assert [watch.changed() for _ in range(scans - 1)] == [None] * (scans - 1)
    return watch.changed()


def test_nothing_changed_is_none(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("a")
    watch = ManifestWatch([tmp_path])
    assert watch.changed() is None


def test_new_changed_and_removed_files_are_seen_once(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("a")
    watch = ManifestWatch([tmp_path])
    second.write_text("b")
    assert settled(watch) == [second]
    first.write_text("other")
    assert settled(watch) == [first]
    first.unlink()
    assert settled(watch, REMOVED_SCANS) == [first]
    assert watch.changed() is None


def test_a_file_that_is_read_while_it_is_written_is_reported_with_its_last_content(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")
    watch = ManifestWatch([path])
    for part in ("", "a: ", "a: 2"):
        path.write_text(part)
        assert watch.changed() is None
        assert watch.is_changing
    assert watch.changed() == [path]
    assert not watch.is_changing


def test_a_file_that_is_replaced_by_removing_it_first_is_reported_as_changed_only(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a: 1")
    watch = ManifestWatch([tmp_path])
    path.unlink()
    assert [watch.changed() for _ in range(REMOVED_SCANS - 1)] == [None] * (REMOVED_SCANS - 1)
    path.write_text("a: 1")
    assert settled(watch) is None
    path.unlink()
    assert watch.changed() is None
    path.write_text("a: 2")
    assert settled(watch) == [path]


def test_a_file_of_the_same_size_and_time_is_seen_when_it_was_replaced(tmp_path: Path) -> None:
    path, draft = tmp_path / "a.yaml", tmp_path / "draft"
    path.write_text("one")
    watch = ManifestWatch([path])
    stat = path.stat()
    draft.write_text("two")
    os.utime(draft, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    draft.replace(path)
    assert settled(watch) == [path]


def test_a_touched_file_and_files_of_other_kinds_are_no_change(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a")
    watch = ManifestWatch([tmp_path])
    os.utime(path, (1.0, 1.0))
    (tmp_path / "a.yaml.swp").write_text("")
    (tmp_path / "notes.txt").write_text("")
    assert settled(watch) is None


def test_a_named_file_that_appears_later_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    watch = ManifestWatch([path])
    path.write_text("a")
    assert settled(watch) == [path]


def test_the_change_counts_from_the_file_unless_its_time_cannot_be_true(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("a")
    os.utime(path, (1000.0, 1000.0))
    assert modified_at([path], now_s=1000.1, oldest_s=999.9) == 1000.0
    assert modified_at([path], now_s=2000.0, oldest_s=1999.9) == 2000.0, "moved here with its old time"
    assert modified_at([path], now_s=900.0, oldest_s=899.9) == 900.0, "a time to come"
    assert modified_at([tmp_path / "gone"], now_s=5.0, oldest_s=4.9) == 5.0


def test_a_folder_that_may_not_be_read_is_said_and_no_crash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(_: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuses)
    assert ManifestWatch([tmp_path]).changed() is None
    assert [str(error) for error in load_manifests([tmp_path]).errors] == [
        f"{tmp_path}: cannot be read: Permission denied"
    ]
