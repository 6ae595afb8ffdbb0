import os
import platform
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from e2e.nodes import __main__ as entry
from e2e.nodes.site import machine
from tests.support.obtain.cache import ObtainError
from tools.image.errors import ImageError

NOBODY = 65534


@pytest.fixture
def a_machine_that_has_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(machine, "debians_python", lambda: "3.11")
    monkeypatch.setattr(machine, "check_python", lambda _: None)
    monkeypatch.setattr(machine, "CGROUP_ROOT", tmp_path / "cgroup")
    (tmp_path / "cgroup" / "cpu").mkdir(parents=True)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(platform, "freedesktop_os_release", lambda: {"ID": "debian"})
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))
    monkeypatch.setattr(entry, "end_on_sigterm", lambda: None)


def refuses(*_: object) -> str:
    raise ImageError("there is no way to them")


LACKING = {
    "root": (os, "geteuid", lambda: NOBODY, "not root"),
    "apt-get": (shutil, "which", lambda name: None if name == "apt-get" else f"/usr/bin/{name}", "no apt-get"),
    "Go": (shutil, "which", lambda name: None if name == "go" else f"/usr/bin/{name}", "there is no go"),
    "Debian": (platform, "freedesktop_os_release", lambda: {"ID": "arch", "PRETTY_NAME": "Arch"}, "this is Arch"),
    "namespaces": (subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1, "", "not so"), "not so"),
    "control groups": (machine, "control_groups_are_writable", lambda _: False, "control groups"),
    "packages": (machine, "debians_python", refuses, "no way to them"),
    "Debian's Python": (machine, "check_python", refuses, "no way to them"),
}


@pytest.mark.usefixtures("a_machine_that_has_all")
def test_a_machine_that_has_all_has_no_excuse() -> None:
    assert machine.why_not() is None


@pytest.mark.usefixtures("a_machine_that_has_all")
@pytest.mark.parametrize("lacking", LACKING)
def test_a_missing_requirement_is_named_and_exits_with_0_if_optional(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lacking: str
) -> None:
    place, name, instead, reason = LACKING[lacking]
    monkeypatch.setattr(place, name, instead)
    assert entry.main(["short", "--where-possible"]) == 0
    assert reason in capsys.readouterr().err


def test_control_groups_that_are_nobodys_to_make_are_not_writable(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert not machine.control_groups_are_writable(tmp_path / "there is none")
    (tmp_path / "cpu").mkdir()
    (tmp_path / "memory").mkdir()
    assert machine.control_groups_are_writable(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, _: path != tmp_path / "memory")
    assert not machine.control_groups_are_writable(tmp_path)
    (tmp_path / "cgroup.controllers").touch()
    assert machine.control_groups_are_writable(tmp_path)


def test_a_deadline_is_one_for_what_is_made_before_the_scenarios_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(entry, "end_on_sigterm", lambda: None)
    monkeypatch.setattr(entry, "prepare", lambda: threading.Event().wait(20))
    assert entry.main(["short", "--deadline-s", "1"]) == 1
    assert "--deadline-s" in capsys.readouterr().err
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


@pytest.mark.usefixtures("a_machine_that_has_all")
def test_what_fails_on_a_machine_that_has_all_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> int:
        raise ObtainError("Go could not build it")

    monkeypatch.setattr(entry, "run", fails)
    assert entry.main(["short", "--where-possible"]) == 1
    assert "Go could not build it" in capsys.readouterr().err


@pytest.mark.usefixtures("a_machine_that_has_all")
def test_tests_are_named_before_options_or_after_them(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def runs(_: str, tests: list[str], __: float) -> int:
        asked.append(tests)
        return 0

    monkeypatch.setattr(entry, "run", runs)
    assert entry.main(["short", "a.py", "--where-possible"]) == 0
    assert entry.main(["short", "--where-possible", "a.py"]) == 0
    assert asked == [["a.py"], ["a.py"]]
