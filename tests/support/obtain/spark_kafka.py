"""Spark's own connector for Kafka: `python -m tests.support.obtain.spark_kafka` obtains its jars once.

The jars are in the folder that SLUICEGATE_SPARK_KAFKA_LIBS names, else in the cache, where Maven puts them
(spark-kafka-pom.xml). Tests only look for the jars: every download happens before them.
"""

import os
import sys
from pathlib import Path

from audit_pipeline.sources.connector import LIBS_VARIABLE, VERSION
from tests.support.obtain.cache import ObtainError, cache_root, main, obtained
from tests.support.obtain.maven import fetch_jars

POM = Path(__file__).with_name("spark-kafka-pom.xml")


def spark_kafka_libs() -> Path:
    """The folder with the connector's jars. Raises ObtainError if they are missing."""
    folder = _folder()
    if not _is_complete(folder):
        raise ObtainError(f"{folder} has not Spark's connector for Kafka: `make spark-kafka` fetches it")
    return folder


def obtain() -> Path:
    """The folder with the connector's jars; fetch them if they are missing. Raises ObtainError."""
    if os.environ.get(LIBS_VARIABLE):
        return spark_kafka_libs()
    return obtained(_folder(), _is_complete, _fetch)


def _folder() -> Path:
    return Path(os.environ.get(LIBS_VARIABLE) or cache_root() / f"spark-kafka-{VERSION}" / "libs")


def _is_complete(folder: Path) -> bool:
    """Whether the folder is complete: Maven writes to another one that is renamed at the end, so one jar is enough."""
    return (folder / f"spark-sql-kafka-0-10_2.13-{VERSION}.jar").is_file()


def _fetch(fresh: Path) -> None:
    fetch_jars(f"Spark's connector for Kafka {VERSION}", POM, fresh, variable=LIBS_VARIABLE, target="spark-kafka")


if __name__ == "__main__":
    sys.exit(main(obtain))
