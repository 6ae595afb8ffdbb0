"""Spark's own connector for Kafka: pyspark does not include it, and a session must be started with it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VERSION: Final = "4.2.0"
"""Version of Spark's Kafka connector: the newest on Maven Central, which works with Spark 4.3.0."""
COORDINATES: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}"
LIBS_VARIABLE: Final = "SLUICEGATE_SPARK_KAFKA_LIBS"


def connector_config(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the session's configuration for the Kafka connector.

    It names the jars in the folder that the variable names; without this, Spark downloads them.
    """
    folder = environment.get(LIBS_VARIABLE)
    return {"spark.jars": jars_in(Path(folder))} if folder else {"spark.jars.packages": COORDINATES}


def jars_in(folder: Path) -> str:
    """Return the jars of a folder in Spark's notation."""
    return ",".join(sorted(map(str, folder.glob("*.jar"))))
