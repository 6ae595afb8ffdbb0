"""Checks that there is a Java that Spark can run on, before pyspark fails to start one with a stack trace."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from audit_pipeline.errors import BadUseError, first_line

LEAST: Final = 17
_ADVICE: Final = "on Debian and Ubuntu: apt-get install openjdk-17-jre-headless"
_TIMEOUT_S: Final = 30
_VERSION: Final = re.compile(r'version "([^"]+)"')


def require_java(environment: Mapping[str, str]) -> None:
    """Check the Java in JAVA_HOME, else on PATH, like Spark's scripts. Raises BadUseError, which says what to do."""
    home = environment.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    if found is None or not os.access(found, os.X_OK):
        where = f"JAVA_HOME is {home}, which has no bin/java" if home else "java is not on the PATH"
        raise BadUseError(f"Spark needs Java {LEAST} or later, but {where}; {_ADVICE}")
    release = _release(found)
    first = release.split(".")[0]
    if first.isdecimal() and int(first) < LEAST:
        raise BadUseError(f"Spark needs Java {LEAST} or later, but {found} is {release}; {_ADVICE}")


def _release(java: str) -> str:
    """Return the version that Java reports."""
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadUseError(_does_not_run(java, first_line(error))) from None
    if told.returncode:
        lines = told.stderr.strip().splitlines()
        raise BadUseError(_does_not_run(java, lines[0] if lines else f"exit code {told.returncode}"))
    found = _VERSION.search(told.stderr)
    if found is None:
        raise BadUseError(_does_not_run(java, "it does not report its version"))
    return found[1]


def _does_not_run(java: str, why: str) -> str:
    return f"Spark needs Java {LEAST} or later, but {java} does not run ({why}); {_ADVICE}"
