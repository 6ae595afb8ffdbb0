"""Packages of Debian, installed by root where a program is wanted that is not there."""

import os
import shutil
import subprocess
import sys

from tests.support.cache import ObtainError, show

_INSTALL_TIMEOUT_S = 900


def can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def install(of: str, *packages: str) -> None:
    """Raises ObtainError."""
    show(of, f"installing {' and '.join(packages)} with apt-get ...")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", *packages]):
        command = ["apt-get", "-q", *arguments]
        # What apt-get says is its progress; a path is all that belongs on standard output.
        done = subprocess.run(command, stdout=sys.stderr, timeout=_INSTALL_TIMEOUT_S, check=False, env=environment)
        if done.returncode != 0:
            raise ObtainError(f"{' '.join(command)} failed with exit code {done.returncode}: see what it says above")
