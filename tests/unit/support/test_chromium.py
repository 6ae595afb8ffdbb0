"""A Chromium is found, or one line says how to obtain it."""

import os
from pathlib import Path

import pytest

from tests.support.obtain.cache import ObtainError
from tests.support.obtain.chromium import NAMES, obtain


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All programs that are on the PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def put(folder: Path, name: str, script: str = "true") -> None:
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.mark.parametrize("name", NAMES)
def test_an_installed_chromium_is_used(programs: Path, name: str) -> None:
    put(programs, name)
    assert obtain() == programs / name


def test_the_error_without_chromium_says_how_to_install_it(programs: Path) -> None:
    with pytest.raises(ObtainError, match="`make chromium` installs it as root on Debian; else install it"):
        obtain()


def test_root_on_debian_has_it_installed(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    found = programs / NAMES[0]
    chmod = os.path.realpath("/bin/chmod")
    makes = f"printf '#!/bin/sh\\n' > {found}; {chmod} 755 {found}"
    installs = f'case "$*" in *install*{NAMES[0]}*) {makes};; esac'
    put(programs, "apt-get", installs)
    assert obtain() == found
