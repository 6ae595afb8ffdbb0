import os
from pathlib import Path

from e2e.kind.daemon import Daemon


def daemon(folder: Path) -> Daemon:
    return Daemon(folder / "disks", folder / "run", os.environ.copy)


def test_a_daemon_that_never_was_does_not_run(tmp_path: Path) -> None:
    assert daemon(tmp_path).pid is None


def test_a_process_that_got_the_number_of_a_daemon_that_ended_is_not_taken_for_it(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    stat = Path("/proc/self/stat").read_text()
    began = stat.rpartition(")")[2].split()[19]
    (tmp_path / "run" / "first-process").write_text(stat)
    assert daemon(tmp_path).pid == os.getpid()
    (tmp_path / "run" / "first-process").write_text(stat.replace(f" {began} ", f" {int(began) - 1} "))
    assert daemon(tmp_path).pid is None


def test_a_note_that_a_killed_run_left_half_written_is_no_daemon(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "first-process").write_text(f"{os.getpid()} (pyth")
    assert daemon(tmp_path).pid is None
