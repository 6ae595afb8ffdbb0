"""A Java is found, or one line says how to obtain it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.obtain.cache import ObtainError
from tests.support.obtain.java import PACKAGE, java, obtain


@pytest.fixture(autouse=True)
def looked_for_anew() -> Iterator[None]:
    java.cache_clear()
    yield
    java.cache_clear()


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All programs that are on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(folder: Path, name: str, script: str) -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def java_of(release: str) -> str:
    return f"echo 'openjdk version \"{release}\"' >&2"


def test_a_java_that_is_there_is_taken(programs: Path) -> None:
    put(programs, "java", java_of("21.0.2"))
    assert obtain() == programs / "java"


def test_one_that_is_too_old_is_refused(programs: Path) -> None:
    put(programs, "java", java_of("11.0.2"))
    with pytest.raises(ObtainError, match=r"Java 17 or later, and .*java is 11\.0\.2: install one"):
        obtain()


def test_the_error_without_root_says_how_to_install_java(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    put(programs, "apt-get", "exit 9")
    with pytest.raises(ObtainError, match=f"java is not on the PATH: sudo apt-get install {PACKAGE}$"):
        obtain()


def test_root_on_debian_has_it_installed(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    put(programs, "packed-java", java_of("17.0.1"))
    installed = f'/bin/cp -p "{programs}/packed-java" "{programs}/java"'
    put(programs, "apt-get", f'echo "$@" >> "{programs}/asked"; case "$2" in install) {installed};; esac')
    assert obtain() == programs / "java"
    assert (programs / "asked").read_text().splitlines() == [
        "-q update",
        f"-q install -y --no-install-recommends {PACKAGE}",
    ]


def test_an_installation_that_fails_says_so(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    put(programs, "apt-get", "exit 100")
    with pytest.raises(ObtainError, match="apt-get -q update failed with exit code 100"):
        obtain()
