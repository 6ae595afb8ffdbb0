"""Spark's own connector for Kafka: pyspark does not have it, and a session has to be begun with it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VERSION: Final = "4.2.0"
"""The newest at Maven Central; Spark 4.3.0 takes it."""
COORDINATES: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{VERSION}"
LIBS_VARIABLE: Final = "SLUICEGATE_SPARK_KAFKA_LIBS"


def connector_config(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the session needs: the jars in the folder that the variable names, else Spark fetches them by itself."""
    folder = environment.get(LIBS_VARIABLE)
    return {"spark.jars": jars_in(Path(folder))} if folder else {"spark.jars.packages": COORDINATES}


def jars_in(folder: Path) -> str:
    """As Spark takes them."""
    return ",".join(sorted(map(str, folder.glob("*.jar"))))
