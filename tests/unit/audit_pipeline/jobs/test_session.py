"""The process state that pyspark changes, and must restore."""

import logging
import signal

import pytest
from py4j import java_gateway
from pyspark.sql import SparkSession

from audit_pipeline.jobs.session import for_few_rows, is_not_of_py4j, own_interrupts


def test_ctrl_c_does_what_it_did_before_pyspark_took_it() -> None:
    former = signal.getsignal(signal.SIGINT)
    with own_interrupts():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGINT) is former


def test_the_filter_recognizes_records_that_py4j_logs_by_the_root_logger() -> None:
    def record(path: str) -> logging.LogRecord:
        return logging.LogRecord("root", logging.ERROR, path, 1, "KeyboardInterrupt while sending command.", (), None)

    assert not is_not_of_py4j(record(java_gateway.__file__))
    assert is_not_of_py4j(record(__file__))


@pytest.mark.parametrize(("is_wanted", "compiles"), [(True, "false"), (False, "true")])
def test_queries_of_few_rows_are_not_compiled(spark: SparkSession, is_wanted: bool, compiles: str) -> None:
    key = "spark.sql.codegen.wholeStage"
    former = spark.conf.get(key)
    spark.conf.set(key, "true")
    try:
        with for_few_rows(spark, is_wanted=is_wanted):
            assert spark.conf.get(key) == compiles
        assert spark.conf.get(key) == "true"
    finally:
        spark.conf.set(key, str(former))
