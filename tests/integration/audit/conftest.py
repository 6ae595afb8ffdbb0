"""Fixtures of tests that build results with Spark.

The root conftest does not import Spark, so that other tests start fast.
"""

from tests.support.audit.spark_session import compiling_spark, spark
from tests.support.audit.two_days import two_days

__all__ = ["compiling_spark", "spark", "two_days"]
