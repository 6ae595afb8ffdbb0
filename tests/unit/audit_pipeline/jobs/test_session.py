"""The process state that pyspark changes, and must restore."""

import logging
import signal
from collections.abc import Iterator

import pytest
from py4j import java_gateway
from pyspark.sql import SparkSession

from audit_pipeline.jobs.session import (
    FEW_ROWS,
    LITTLE_BYTES,
    LITTLE_ROWS,
    SOME_BYTES,
    for_events,
    for_results,
    is_not_of_py4j,
    own_interrupts,
)


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


_KEYS = ("spark.sql.codegen.wholeStage", "spark.sql.adaptive.enabled")
_INTERPRETED, _PLANNED_ONCE, _AS_USUAL = ["false", "false"], ["true", "false"], ["true", "true"]


@pytest.fixture
def usual(spark: SparkSession) -> Iterator[SparkSession]:
    """The session as users have it: it compiles queries, and plans them again after each shuffle."""
    former = {key: spark.conf.get(key) for key in _KEYS}
    for key in former:
        spark.conf.set(key, "true")
    yield spark
    for key, value in former.items():
        spark.conf.set(key, str(value))


@pytest.mark.parametrize(
    ("rows", "inside"),
    [
        (0, _INTERPRETED),
        (LITTLE_ROWS - 1, _INTERPRETED),
        (LITTLE_ROWS, _PLANNED_ONCE),
        (FEW_ROWS - 1, _PLANNED_ONCE),
        (FEW_ROWS, _AS_USUAL),
    ],
)
def test_queries_of_few_events_are_planned_once_and_of_very_few_interpreted(
    usual: SparkSession, rows: int, inside: list[str]
) -> None:
    with for_events(usual, rows):
        assert [usual.conf.get(key) for key in _KEYS] == inside
    assert [usual.conf.get(key) for key in _KEYS] == _AS_USUAL


@pytest.mark.parametrize(
    ("size", "inside"),
    [
        (0, _INTERPRETED),
        (LITTLE_BYTES - 1, _INTERPRETED),
        (LITTLE_BYTES, _PLANNED_ONCE),
        (SOME_BYTES - 1, _PLANNED_ONCE),
        (SOME_BYTES, _AS_USUAL),
    ],
)
def test_queries_of_small_results_are_planned_once_and_of_very_small_ones_interpreted(
    usual: SparkSession, size: int, inside: list[str]
) -> None:
    with for_results(usual, size):
        assert [usual.conf.get(key) for key in _KEYS] == inside
    assert [usual.conf.get(key) for key in _KEYS] == _AS_USUAL
