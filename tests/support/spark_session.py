"""One Spark session for all tests of a run that need one: it takes seconds to start, and a test a tenth of that."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from audit_pipeline.jobs.session import spark_session
from audit_pipeline.sources.connector import jars_in
from tests.support.cache import ObtainError
from tests.support.java import java
from tests.support.spark_kafka import spark_kafka_libs


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    java()
    config = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2", **connector()}
    with spark_session("tests", config) as session:
        yield session


def connector() -> dict[str, str]:
    """Tests that need no Kafka run without it."""
    try:
        return {"spark.jars": jars_in(spark_kafka_libs())}
    except ObtainError:
        return {}
