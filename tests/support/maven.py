"""Jars from Maven Central by a pom that pins them."""

import shutil
import subprocess
from pathlib import Path

from tests.support.cache import ObtainError, show

_TIMEOUT_S = 600


def fetch_jars(name: str, pom: Path, into: Path, variable: str) -> None:
    """All that the pom names, and what that needs, into a folder. `variable` is named to who cannot fetch them.

    Raises ObtainError.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise ObtainError(
            f"{name} is not in {into.parent} and Maven (mvn) is not installed to fetch it; install Maven, or let "
            f"{variable} name a folder with its jars"
        )
    show("maven", f"fetching {name} with Maven ...")
    copied = shutil.copy(pom, into.with_name("pom.xml"))
    command = [maven, "-q", "-B", "-f", str(copied), "dependency:copy-dependencies", "-DincludeScope=runtime"]
    done = subprocess.run(
        [*command, f"-DoutputDirectory={into}"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
    )
    if done.returncode != 0:
        raise ObtainError(f"Maven could not fetch {name}: {(done.stdout + done.stderr)[-800:]}")
