"""Apache Kafka's jars: `python -m tests.support.obtain.kafka_libs` obtains them once.

The jars are in the folder that SLUICEGATE_KAFKA_LIBS names, else in the cache, where Maven puts them (kafka-pom.xml).
Tests only look for the jars: every download happens before them.
"""

import os
import sys
from pathlib import Path

from tests.support.obtain.cache import ObtainError, cache_root, main, obtained
from tests.support.obtain.maven import fetch_jars

VERSION = "4.3.0"
POM = Path(__file__).with_name("kafka-pom.xml")
LIBS_VARIABLE = "SLUICEGATE_KAFKA_LIBS"


def kafka_libs() -> Path:
    """The folder with Kafka's jars. Raises ObtainError if they are missing."""
    folder = _folder()
    if not _is_complete(folder):
        raise ObtainError(f"{folder} has no kafka_2.13-{VERSION}.jar: `make kafka` fetches Apache Kafka")
    return folder


def obtain() -> Path:
    """The folder with Kafka's jars; fetch them if they are missing. Raises ObtainError."""
    if os.environ.get(LIBS_VARIABLE):
        return kafka_libs()
    return obtained(_folder(), _is_complete, _fetch)


def _folder() -> Path:
    return Path(os.environ.get(LIBS_VARIABLE) or cache_root() / f"kafka-{VERSION}" / "libs")


def _is_complete(folder: Path) -> bool:
    """Whether the folder is complete: Maven writes to another one that is renamed at the end, so one jar is enough."""
    return (folder / f"kafka_2.13-{VERSION}.jar").is_file()


def _fetch(fresh: Path) -> None:
    fetch_jars(f"Apache Kafka {VERSION}", POM, fresh, variable=LIBS_VARIABLE, target="kafka")


if __name__ == "__main__":
    sys.exit(main(obtain))
