"""Programs with Kafka Streams and the Java client: `python -m tests.support.java_clients.programs` builds them once.

The sources are the Java files of this folder. Maven puts the jars that pom.xml names into the cache, unless
SLUICEGATE_KAFKA_STREAMS_LIBS names a folder that has them.
"""

import os
import sys
from hashlib import sha256
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, main, obtained
from tests.support.obtain.java import java, javac
from tests.support.obtain.long_command import run_long
from tests.support.obtain.maven import fetch_jars

VERSION = "4.3.0"
FOLDER = Path(__file__).parent
LIBS_VARIABLE = "SLUICEGATE_KAFKA_STREAMS_LIBS"
TARGET = "java-clients"


def command(program: str, *arguments: str, options: tuple[str, ...] = ()) -> list[str]:
    """The command that runs a program of this folder. Raises ObtainError if `make java-clients` has not built it."""
    libs, classes = _libs(), _classes()
    if not _has_streams(libs) or not classes.is_dir():
        raise ObtainError(f"{classes} is not there: `make {TARGET}` builds the programs with Kafka Streams")
    return [java(), *options, "-cp", f"{classes}{os.pathsep}{libs}/*", program, *arguments]


def obtain() -> Path:
    """The folder with the compiled programs; fetch their jars and compile them if needed. Raises ObtainError."""
    libs = _libs()
    if os.environ.get(LIBS_VARIABLE) and not _has_streams(libs):
        raise ObtainError(f"{libs}, which {LIBS_VARIABLE} names, has no kafka-streams-{VERSION}.jar")
    obtained(libs, _has_streams, _fetch)
    return obtained(_classes(), Path.is_dir, _compile)


def _libs() -> Path:
    return Path(os.environ.get(LIBS_VARIABLE) or cache_root() / f"kafka-streams-{VERSION}" / "libs")


def _has_streams(folder: Path) -> bool:
    """Whether the folder is complete: Maven writes to another one that is renamed at the end, so one jar is enough."""
    return (folder / f"kafka-streams-{VERSION}.jar").is_file()


def _fetch(fresh: Path) -> None:
    fetch_jars(f"Kafka Streams {VERSION}", FOLDER / "pom.xml", fresh, variable=LIBS_VARIABLE, target=TARGET)


def _sources() -> list[Path]:
    return sorted(FOLDER.glob("*.java"))


def _classes() -> Path:
    content = b"".join(path.read_bytes() for path in (*_sources(), FOLDER / "pom.xml"))
    return cache_root() / f"java-clients-{sha256(content).hexdigest()[:12]}" / "classes"


def _compile(fresh: Path) -> None:
    compiler = [javac(), "-Xlint:all,-processing", "-Werror", "-cp", f"{_libs()}/*", "-d", str(fresh)]
    run_long(TARGET, "the build of the Java clients", [*compiler, *map(str, _sources())], count=lambda _: "")


if __name__ == "__main__":
    sys.exit(main(obtain))
