"""One Spark session for all tests of a run that need one: it takes seconds to start, and a test a tenth of that."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from audit_pipeline.jobs.session import spark_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    config = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}
    with spark_session("tests", config) as session:
        yield session
