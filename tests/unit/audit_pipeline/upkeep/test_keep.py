from pathlib import Path
from threading import Event

import pytest

from audit_pipeline.__main__ import main
from audit_pipeline.upkeep.keep import read_variables


def test_arguments_that_landing_would_refuse_each_time_end_it_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = Event()
    stopped.set()
    with pytest.raises(SystemExit) as ended:
        main(["keep", "spools", "segments", "--intervall", "1"], stopped)
    assert ended.value.code == 2
    assert "unrecognized arguments: --intervall 1" in capsys.readouterr().err
    assert main(["keep", "spools", "segments", "--retention-days", "3"], stopped) == 2
    assert "have no effect without --upkeep" in capsys.readouterr().err


def test_arguments_that_are_right_are_kept(tmp_path: Path) -> None:
    stopped = Event()
    stopped.set()
    assert main(["keep", "--variables", str(tmp_path), "spools", "segments", "--upkeep"], stopped) == 0


def test_each_file_of_a_mounted_secret_is_a_variable_and_other_entries_are_reported(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "AWS_ACCESS_KEY_ID").write_text("someone\n")
    (tmp_path / "AWS_SECRET_ACCESS_KEY").write_text("of great length=")
    (tmp_path / "notes.txt").write_text("not a variable")
    (tmp_path / "BINARY").write_bytes(b"\xff")
    (tmp_path / "ZERO").write_bytes(b"a\0b")
    (tmp_path / "FOLDER").mkdir()
    found, problems = read_variables(tmp_path)
    assert found == {"AWS_ACCESS_KEY_ID": "someone", "AWS_SECRET_ACCESS_KEY": "of great length="}
    assert [problem.split()[0].rpartition("/")[2] for problem in problems] == ["BINARY", "FOLDER", "ZERO", "notes.txt"]


def test_a_secret_that_is_not_there_has_no_variables(tmp_path: Path) -> None:
    assert read_variables(tmp_path / "nothing") == ({}, [])
    assert read_variables(None) == ({}, [])
