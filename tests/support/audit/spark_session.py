"""One Spark session for all tests of a run that need one: it takes seconds to start, and a test a tenth of that."""

from collections.abc import Iterator
from typing import Final

import pytest
from pyspark.sql import SparkSession

from audit_pipeline.jobs.session import spark_session
from audit_pipeline.sources.connector import jars_in
from tests.support.obtain.cache import ObtainError
from tests.support.obtain.java import java
from tests.support.obtain.spark_kafka import spark_kafka_libs

FEW_ROWS: Final = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for builds of a few thousand rows: compiling and replanning would be most of their time."""


_AS_SHIPPED: Final = dict(zip(FEW_ROWS, ("true", "true", "FALLBACK"), strict=True))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    java()
    config = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", **FEW_ROWS, **connector()}
    with spark_session("tests", config) as session:
        yield session


@pytest.fixture(scope="module")
def compiling_spark(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with users' settings: it compiles queries, and replans them meanwhile."""
    for key, value in _AS_SHIPPED.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in FEW_ROWS.items():
        spark.conf.set(key, value)


def connector() -> dict[str, str]:
    """Settings with the connector's jars, if they are there: tests that need no Kafka run without them."""
    try:
        return {"spark.jars": jars_in(spark_kafka_libs())}
    except ObtainError:
        return {}
