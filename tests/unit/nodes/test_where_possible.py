import os
import shutil
import subprocess
from pathlib import Path

import pytest

from e2e.nodes import __main__ as entry
from tests.support.cache import ObtainError
from tools.image.apt import Apt
from tools.image.errors import ImageError


@pytest.fixture
def a_machine_that_has_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(Apt, "update", lambda _: None)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0))


def no_way_to_them(_: Apt) -> None:
    raise ImageError("there is no way to them")


@pytest.mark.usefixtures("a_machine_that_has_all")
def test_a_machine_that_has_all_has_no_excuse() -> None:
    assert entry.why_not() is None


@pytest.mark.usefixtures("a_machine_that_has_all")
@pytest.mark.parametrize(
    ("lacking", "reason"),
    [("root", "not root"), ("apt-get", "no apt-get"), ("namespaces", "namespaces"), ("packages", "no way to them")],
)
def test_what_is_lacking_is_named_and_the_run_ends_well_where_it_was_asked_to(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], lacking: str, reason: str
) -> None:
    if lacking == "root":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    elif lacking == "apt-get":
        monkeypatch.setattr(shutil, "which", lambda name: None if name == "apt-get" else f"/usr/bin/{name}")
    elif lacking == "packages":
        monkeypatch.setattr(Apt, "update", no_way_to_them)
    else:
        monkeypatch.setattr(subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 1))
    assert entry.main(["short", "--where-possible"]) == 0
    assert reason in capsys.readouterr().err


@pytest.mark.usefixtures("a_machine_that_has_all")
def test_what_fails_on_a_machine_that_has_all_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object) -> int:
        raise ObtainError("Go could not build it")

    monkeypatch.setattr(entry, "run", fails)
    assert entry.main(["short", "--where-possible"]) == 1
    assert "Go could not build it" in capsys.readouterr().err
