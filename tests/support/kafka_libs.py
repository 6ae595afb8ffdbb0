"""Apache Kafka's jars and a Java that runs them: `python -m tests.support.kafka_libs` has them ready, once.

The jars are in the folder that SLUICEGATE_KAFKA_LIBS names, else in the cache, where Maven puts them (kafka-pom.xml).
Runs that need the same cache wait for each other, and a folder appears in it complete or not at all. Tests only look
for the jars: what is fetched is fetched before them.
"""

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

VERSION = "4.3.0"
POM = Path(__file__).with_name("kafka-pom.xml")
LIBS_VARIABLE = "SLUICEGATE_KAFKA_LIBS"
MAVEN_TIMEOUT_S = 600


class KafkaUnavailable(Exception):  # noqa: N818 - says a state of this machine, not a mistake
    """This machine cannot run Apache Kafka yet; the sentence says what to do."""


def kafka_libs() -> Path:
    """The folder with Kafka's jars. Raises KafkaUnavailable when they are not there."""
    folder = _folder()
    if not _is_complete(folder):
        raise KafkaUnavailable(f"{folder} has no kafka_2.13-{VERSION}.jar: `make kafka` fetches Apache Kafka")
    return folder


def obtain() -> Path:
    """The folder with Kafka's jars, fetched when it is not there yet. Raises KafkaUnavailable."""
    java()
    folder = _folder()
    if os.environ.get(LIBS_VARIABLE) or _is_complete(folder):
        return kafka_libs()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _exclusive(folder.with_suffix(".lock")):
        if not _is_complete(folder):
            _fetch(folder)
    return folder


def _folder() -> Path:
    if chosen := os.environ.get(LIBS_VARIABLE):
        return Path(chosen)
    cache_root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache_root / "sluicegate" / f"kafka-{VERSION}" / "libs"


def _is_complete(folder: Path) -> bool:
    """Maven writes to another folder that is renamed at the end, so one jar stands for all."""
    return (folder / f"kafka_2.13-{VERSION}.jar").is_file()


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """The kernel lets the lock go when its holder ends, however it ends."""
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise KafkaUnavailable(
            f"Apache Kafka {VERSION} is not in {folder} and Maven (mvn) is not installed to fetch it; "
            f"install Maven, or let {LIBS_VARIABLE} name a folder with its jars"
        )
    _show(f"fetching Apache Kafka {VERSION} with Maven ...")
    for left_by_a_killed_run in folder.parent.glob("fetch-*"):
        shutil.rmtree(left_by_a_killed_run)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetch-") as scratch:
        shutil.copy(POM, Path(scratch) / "pom.xml")
        command = [maven, "-q", "-B", "-f", f"{scratch}/pom.xml"]
        command += ["dependency:copy-dependencies", f"-DoutputDirectory={scratch}/libs"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=MAVEN_TIMEOUT_S, check=False)
        if done.returncode != 0 or not _is_complete(Path(scratch) / "libs"):
            raise KafkaUnavailable(
                f"Maven could not fetch Apache Kafka {VERSION}: {(done.stdout + done.stderr)[-800:]}"
            )
        shutil.rmtree(folder, ignore_errors=True)
        (Path(scratch) / "libs").rename(folder)


@cache
def java() -> str:
    """The path of a Java of release 17 or later. Raises KafkaUnavailable."""
    found = shutil.which("java")
    if found is None:
        raise KafkaUnavailable(
            f"Apache Kafka {VERSION} needs Java 17 or later, and java is not on the PATH; install it"
        )
    shown = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    release = shown.split('"')[1] if '"' in shown else shown
    if int(release.split(".")[0]) < 17:
        raise KafkaUnavailable(f"Apache Kafka {VERSION} needs Java 17 or later; {found} is {release}")
    return found


def _show(line: str) -> None:
    sys.stderr.write(f"[kafka] {line}\n")
    sys.stderr.flush()


def main() -> int:
    try:
        folder = obtain()
    except KafkaUnavailable as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
