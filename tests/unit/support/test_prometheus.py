"""A Prometheus is obtained from Debian's package, without root, or one line says how to obtain it."""

import os
from pathlib import Path

import pytest

from tests.support.obtain.cache import ObtainError
from tests.support.processes.prometheus import obtain, program

UNPACK = "/bin/mkdir -p $3/usr/bin; for one in prometheus promtool; do echo > $3/usr/bin/$one; done"
"""dpkg -x ARCHIVE FOLDER."""


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All programs that are on the PATH; the cache is empty."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    return tmp_path


def put(folder: Path, name: str, script: str = "exit 9") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_an_installed_prometheus_is_used(programs: Path) -> None:
    for name in ("prometheus", "promtool", "apt-get", "dpkg"):
        put(programs, name)
    assert obtain() == programs / "prometheus"


def test_the_package_is_unpacked_into_the_cache_once(programs: Path) -> None:
    put(programs, "apt-get", f'echo "$@" >> {programs}/asked; echo > prometheus_1_amd64.deb')
    put(programs, "dpkg", UNPACK)
    for _ in range(2):
        assert obtain() == programs / "cache" / "sluicegate" / "prometheus-of-debian" / "usr" / "bin" / "prometheus"
    assert (programs / "asked").read_text().splitlines() == ["-q download prometheus"]


def test_the_error_without_root_says_who_may_update_package_lists(programs: Path) -> None:
    put(programs, "apt-get")
    put(programs, "dpkg", UNPACK)
    with pytest.raises(ObtainError, match=r"let root run `apt-get update`, and try again$"):
        obtain()


def test_root_fetches_lists_of_packages_that_are_not_there(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    lists = programs / "lists"
    put(programs, "apt-get", f"[ $2 = update ] && echo > {lists}; [ -f {lists} ] && echo > prometheus_1_amd64.deb")
    put(programs, "dpkg", UNPACK)
    assert obtain().name == "prometheus"


def test_the_error_without_apt_says_where_promtool_is_expected(programs: Path) -> None:
    with pytest.raises(ObtainError, match=r"promtool is not there: `make prometheus` .* have it on the PATH$"):
        obtain()
    with pytest.raises(ObtainError):
        program("prometheus")
