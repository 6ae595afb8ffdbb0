"""A Java for Spark and for Apache Kafka: `python -m tests.support.java` has one ready, once.

It is the one on the PATH. On Debian, as root, it is installed when there is none.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.support.cache import ObtainError, main, show

LEAST = 17
PACKAGE = "openjdk-17-jre-headless"
_INSTALL_TIMEOUT_S = 900


@cache
def java() -> str:
    """The path of a Java of release 17 or later. Raises ObtainError."""
    found = shutil.which("java")
    if found is None:
        raise ObtainError(
            f"Spark and Apache Kafka need Java {LEAST} or later, and java is not on the PATH: {_advice()}"
        )
    shown = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    release = shown.split('"')[1] if '"' in shown else shown
    if int(release.split(".")[0]) < LEAST:
        raise ObtainError(f"Spark and Apache Kafka need Java {LEAST} or later, and {found} is {release}: {_advice()}")
    return found


def obtain() -> Path:
    """A Java, installed when there is none and Debian's packages can be. Raises ObtainError."""
    if shutil.which("java") is None and _can_install():
        _install()
    return Path(java())


def _can_install() -> bool:
    return os.geteuid() == 0 and shutil.which("apt-get") is not None


def _advice() -> str:
    if shutil.which("apt-get"):
        return f"sudo apt-get install {PACKAGE}"
    return "install one, such as Temurin of https://adoptium.net, and have it on the PATH"


def _install() -> None:
    show("java", f"installing {PACKAGE} with apt-get ...")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", PACKAGE]):
        command = ["apt-get", "-q", *arguments]
        # What apt-get says is its progress; the path of the Java is all that belongs on standard output.
        done = subprocess.run(command, stdout=sys.stderr, timeout=_INSTALL_TIMEOUT_S, check=False, env=environment)
        if done.returncode != 0:
            raise ObtainError(f"{' '.join(command)} failed with exit code {done.returncode}: see what it says above")


if __name__ == "__main__":
    sys.exit(main(obtain))
