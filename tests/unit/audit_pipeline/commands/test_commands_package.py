"""The output of `package`: two files that give Python the pipeline, without the rest of this project."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from threading import Event

import pytest

from audit_pipeline import __main__ as program

ROOT = Path(__file__).parents[4]


@pytest.fixture
def made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert program.main(["package", "--out", str(tmp_path / "dist")], Event()) == 0
    assert "spark-submit --py-files" in capsys.readouterr().out
    return tmp_path / "dist"


def test_the_archive_has_every_file_of_its_packages_and_its_schemas_are_no_links(made: Path) -> None:
    with zipfile.ZipFile(made / "audit_pipeline.zip") as archive:
        names = archive.namelist()
        for name in (
            "audit_pipeline/audit_event.v1.json",
            "audit_pipeline/audit_event.v1.1.json",
            "audit_pipeline/audit_event.v1.2.json",
            "audit_pipeline/audit_event.v1.3.json",
            "audit_pipeline/audit_event.v1.4.json",
            "audit_pipeline/results/audit_result.v1.json",
        ):
            assert archive.read(name) == (ROOT / "schemas" / name.rpartition("/")[2]).read_bytes()
    packages = (ROOT / "audit_pipeline", ROOT / "connection_limits", ROOT / "kafka_bytes")
    there = [path for package in packages for path in package.rglob("*") if path.is_file()]
    expected = {str(path.relative_to(ROOT)) for path in there if "__pycache__" not in path.parts}
    assert set(names) == expected
    assert len(names) == len(expected)


def test_the_archive_is_the_same_each_time(made: Path) -> None:
    before = (made / "audit_pipeline.zip").read_bytes()
    assert program.main(["package", "--out", str(made)], Event()) == 0
    assert (made / "audit_pipeline.zip").read_bytes() == before


def test_the_program_runs_the_archive_and_finds_the_schemas_in_it(made: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(made / "audit_pipeline.zip")}
    command = [sys.executable, str(made / "audit_build.py"), "query", "SELECT 1 AS one", "--target", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "one\n1\n"), done.stderr


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a-file").touch()
    for out in (tmp_path / "a-file", tmp_path / "a-file" / "dist"):
        assert program.main(["package", "--out", str(out)], Event()) == 2
        assert f"{out} cannot be written: " in capsys.readouterr().err
