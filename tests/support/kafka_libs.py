"""Apache Kafka's jars and a Java that runs them: `python -m tests.support.kafka_libs` has them ready, once.

The jars are in the folder that SLUICEGATE_KAFKA_LIBS names, else in the cache, where Maven puts them (kafka-pom.xml).
Tests only look for the jars: what is fetched is fetched before them.
"""

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from tests.support.cache import ObtainError, cache_root, main, obtained, show

VERSION = "4.3.0"
POM = Path(__file__).with_name("kafka-pom.xml")
LIBS_VARIABLE = "SLUICEGATE_KAFKA_LIBS"
MAVEN_TIMEOUT_S = 600


def kafka_libs() -> Path:
    """The folder with Kafka's jars. Raises ObtainError when they are not there."""
    folder = _folder()
    if not _is_complete(folder):
        raise ObtainError(f"{folder} has no kafka_2.13-{VERSION}.jar: `make kafka` fetches Apache Kafka")
    return folder


def obtain() -> Path:
    """The folder with Kafka's jars, fetched when it is not there yet. Raises ObtainError."""
    java()
    if os.environ.get(LIBS_VARIABLE):
        return kafka_libs()
    return obtained(_folder(), _is_complete, _fetch)


def _folder() -> Path:
    return Path(os.environ.get(LIBS_VARIABLE) or cache_root() / f"kafka-{VERSION}" / "libs")


def _is_complete(folder: Path) -> bool:
    """Maven writes to another folder that is renamed at the end, so one jar stands for all."""
    return (folder / f"kafka_2.13-{VERSION}.jar").is_file()


def _fetch(fresh: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise ObtainError(
            f"Apache Kafka {VERSION} is not in {_folder()} and Maven (mvn) is not installed to fetch it; "
            f"install Maven, or let {LIBS_VARIABLE} name a folder with its jars"
        )
    show("kafka", f"fetching Apache Kafka {VERSION} with Maven ...")
    pom = shutil.copy(POM, fresh.with_name("pom.xml"))
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False)
    if done.returncode != 0 or not _is_complete(fresh):
        raise ObtainError(f"Maven could not fetch Apache Kafka {VERSION}: {(done.stdout + done.stderr)[-800:]}")


@cache
def java() -> str:
    """The path of a Java of release 17 or later. Raises ObtainError."""
    found = shutil.which("java")
    if found is None:
        raise ObtainError(f"Apache Kafka {VERSION} needs Java 17 or later, and java is not on the PATH; install it")
    shown = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    release = shown.split('"')[1] if '"' in shown else shown
    if int(release.split(".")[0]) < 17:
        raise ObtainError(f"Apache Kafka {VERSION} needs Java 17 or later; {found} is {release}")
    return found


if __name__ == "__main__":
    sys.exit(main(obtain))
