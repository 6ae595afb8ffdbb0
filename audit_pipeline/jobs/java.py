"""Whether there is a Java that Spark can run on, before pyspark fails to start one with a trace of its own."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from audit_pipeline.errors import BadUseError

LEAST: Final = 17
_ADVICE: Final = "on Debian and Ubuntu: apt-get install openjdk-17-jre-headless"
_TIMEOUT_S: Final = 30


def require_java(environment: Mapping[str, str]) -> None:
    """Of JAVA_HOME, else of PATH, as Spark's own scripts look for it. Raises BadUseError, which says what to do."""
    home = environment.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java", path=environment.get("PATH"))
    if found is None or not os.access(found, os.X_OK):
        where = f"JAVA_HOME is {home}, and there is no bin/java in it" if home else "java is not on the PATH"
        raise BadUseError(f"Spark needs Java {LEAST} or later, and {where}; {_ADVICE}")
    told = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=_TIMEOUT_S, check=False).stderr
    release = told.split('"')[1] if told.count('"') >= 2 else ""
    first = release.split(".")[0]
    if first.isdecimal() and int(first) < LEAST:
        raise BadUseError(f"Spark needs Java {LEAST} or later, and {found} is {release}; {_ADVICE}")
