"""Packages of Debian, which root installs if a required program is missing."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.support.obtain.cache import ObtainError, show

_INSTALL_TIMEOUT_S = 900


def can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(of: str, *packages: str) -> None:
    """Install packages with apt-get. Raises ObtainError."""
    show(of, f"installing {' and '.join(packages)} with apt-get ...")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        command = ["apt-get", "-q", *arguments]
        # apt-get prints its progress; only a path belongs on standard output.
        done = subprocess.run(command, stdout=sys.stderr, timeout=_INSTALL_TIMEOUT_S, check=False, env=environment)
        if done.returncode != 0:
            raise ObtainError(f"{' '.join(command)} failed with exit code {done.returncode}: see what it says above")


def can_download() -> bool:
    """Whether `download` may be tried: every user may, root or not."""
    return all(map(shutil.which, ("apt-get", "dpkg")))


def download(package: str, place: Path) -> None:
    """Unpack a package's files below `place` without installing it.

    This suits programs that need no other package. Raises ObtainError.
    """
    scratch = place.with_name("package")
    scratch.mkdir()
    show(package, f"downloading Debian's package {package} ...")
    if _run(["apt-get", "-q", "download", package], scratch) != 0:
        # The package lists may be old, or missing: root must update them.
        if not can_install() or _run(["apt-get", "-q", "update"], scratch) != 0:
            raise ObtainError(f"apt-get cannot download {package}: let root run `apt-get update`, and try again")
        if _run(["apt-get", "-q", "download", package], scratch) != 0:
            raise ObtainError(f"apt-get cannot download {package}: see what it says above")
    [archive] = scratch.glob("*.deb")
    place.mkdir()
    if _run(["dpkg", "-x", str(archive), str(place)], scratch) != 0:
        raise ObtainError(f"dpkg cannot unpack {archive.name}: see what it says above")


def _run(command: list[str], folder: Path) -> int:
    """Run a command, with its progress on standard error: only a path belongs on standard output."""
    return subprocess.run(command, cwd=folder, stdout=sys.stderr, timeout=_INSTALL_TIMEOUT_S, check=False).returncode
