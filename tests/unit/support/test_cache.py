"""Obtained places: complete or absent, made by one run at a time."""

import fcntl
import threading
from pathlib import Path
from queue import Queue

import pytest

from tests.support.obtain.cache import ObtainError, cache_root, main, obtained


def write_whole(fresh: Path) -> None:
    fresh.with_name("notes").write_text("what it takes to make it")
    fresh.write_text("whole")


def is_whole(place: Path) -> bool:
    return place.is_file() and place.read_text() == "whole"


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_the_cache_is_the_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_root() == tmp_path / "sluicegate"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_root() == tmp_path / ".cache" / "sluicegate"


def test_an_incomplete_file_is_made_again_once(tmp_path: Path) -> None:
    place = tmp_path / "made" / "program"
    place.parent.mkdir()
    place.write_text("half")
    made: list[Path] = []

    def make(fresh: Path) -> None:
        made.append(fresh)
        write_whole(fresh)

    for _ in range(2):
        assert obtained(place, is_whole, make) == place
        assert place.read_text() == "whole"
    assert len(made) == 1
    assert names_in(place.parent) == {"program", "program.lock"}


def test_a_failed_build_leaves_the_cache_unchanged(tmp_path: Path) -> None:
    def fail(fresh: Path) -> None:
        fresh.write_text("hal")
        raise ObtainError("there is no compiler")

    place = tmp_path / "program"
    place.write_text("half")
    with pytest.raises(ObtainError):
        obtained(place, is_whole, fail)
    assert place.read_text() == "half"
    assert names_in(tmp_path) == {"program", "program.lock"}


def test_what_a_killed_run_has_left_is_cleared_away(tmp_path: Path) -> None:
    left = tmp_path / "program.part-killed"
    left.mkdir()
    (left / "program").write_text("hal")
    other = tmp_path / "other.part-running"
    other.mkdir()
    obtained(tmp_path / "program", is_whole, write_whole)
    assert names_in(tmp_path) == {"program", "program.lock", other.name}


def test_a_run_reports_that_it_waits_and_uses_what_the_other_run_obtained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "program"
    made: list[Path] = []
    said: Queue[tuple[str, str]] = Queue()
    monkeypatch.setattr("tests.support.obtain.cache.show", lambda *what: said.put(what))
    waiting = threading.Thread(target=obtained, args=(place, is_whole, made.append))
    with (tmp_path / "program.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting.start()
        assert said.get(timeout=30) == ("cache", f"another run has {place}; waiting for it")
        place.write_text("whole")
    waiting.join()
    assert made == []


def test_the_command_prints_the_place_or_what_to_do(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> Path:
        raise ObtainError("install Go")

    assert main(lambda: tmp_path) == 0
    assert main(fail) == 1
    assert capsys.readouterr() == (f"{tmp_path}\n", "error: install Go\n")
