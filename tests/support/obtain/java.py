"""A Java for Spark and for Apache Kafka: `python -m tests.support.obtain.java` obtains it once.

It is the one on the PATH. If there is none, root installs it on Debian.
"""

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.support.obtain import debian
from tests.support.obtain.cache import ObtainError, main

LEAST = 17
PACKAGE = "openjdk-17-jre-headless"
COMPILER_PACKAGE = "openjdk-17-jdk-headless"
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a Java that ends before its better compiler pays off."""


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
    """The path of Java; install it if it is missing and Debian's packages are available. Raises ObtainError."""
    if shutil.which("java") is None and debian.can_install():
        debian.install("java", PACKAGE)
    return Path(java())


def javac() -> str:
    """The path of Java's compiler; install it if it is missing and Debian's packages are available.

    Raises ObtainError.
    """
    if shutil.which("javac") is None and debian.can_install():
        debian.install("java", COMPILER_PACKAGE)
    found = shutil.which("javac")
    if found is None:
        raise ObtainError(
            f"Java programs for tests need a compiler, and javac is not on the PATH: {_advice(COMPILER_PACKAGE)}"
        )
    return found


def _advice(package: str = PACKAGE) -> str:
    if shutil.which("apt-get"):
        return f"sudo apt-get install {package}"
    return "install one, such as Temurin of https://adoptium.net, and have it on the PATH"


if __name__ == "__main__":
    sys.exit(main(obtain))
