"""Jars from Maven Central by a pom that pins them."""

import shutil
from pathlib import Path

from tests.support.obtain.cache import ObtainError
from tests.support.obtain.long_command import run_long


def fetch_jars(name: str, pom: Path, into: Path, *, variable: str, target: str) -> None:
    """Fetch the artifacts that the pom names, and their dependencies, into a folder.

    `variable` names a folder of jars that a user may have already; `target` is the `make` target that runs this.
    Raises ObtainError.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise ObtainError(
            f"{name} is not in {into.parent} and Maven (mvn) is not installed to fetch it; install Maven, or let "
            f"{variable} name a folder with its jars"
        )
    copied = shutil.copy(pom, into.with_name("pom.xml"))
    command = [maven, "-B", "-ntp", "-f", str(copied), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    run_long(target, f"the download of {name} by Maven", [*command, f"-DoutputDirectory={into}"], count=lambda _: "")
