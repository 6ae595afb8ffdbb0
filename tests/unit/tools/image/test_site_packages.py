"""Packages for another architecture are taken as wheels for it: no program of that architecture runs here."""

import subprocess
from pathlib import Path

import pytest

from tools.image.site_packages import install, wheels_for


class Pip:
    """pip, that notes its calls and requirements, and installs nothing."""

    def __init__(self) -> None:
        self.calls: list[tuple[list[str], str]] = []

    def run(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.calls.append((command, Path(command[-1]).read_text(encoding="utf-8")))
        return subprocess.CompletedProcess(command, 0, "", "")


@pytest.fixture
def pip(monkeypatch: pytest.MonkeyPatch) -> Pip:
    made = Pip()
    monkeypatch.setattr(subprocess, "run", made.run)
    return made


def test_wheels_are_those_of_the_architecture_for_the_c_library_of_debian_12() -> None:
    options = wheels_for("arm64")
    assert options[0] == "--only-binary=:all:"
    assert {"manylinux_2_17_aarch64", "manylinux_2_36_aarch64", "manylinux2014_aarch64"} <= set(options)
    assert not any("2_37" in option or "x86_64" in option for option in options)


def test_this_machines_packages_are_what_pip_chooses(tmp_path: Path, pip: Pip) -> None:
    install(tmp_path, ["duckdb==1", "pyspark==4"])
    ((command, asked),) = pip.calls
    assert "--platform" not in command
    assert asked == "duckdb==1\npyspark==4\n"


def test_a_package_without_a_wheel_is_built_for_any_architecture(tmp_path: Path, pip: Pip) -> None:
    install(tmp_path, ["duckdb==1", "pyspark==4"], "arm64")
    (wheels, of_wheels), (sources, of_sources) = pip.calls
    assert ("--platform" in wheels, of_wheels) == (True, "duckdb==1\n")
    assert ("--platform" in sources, of_sources) == (False, "pyspark==4\n")
