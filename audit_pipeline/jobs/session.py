"""The Spark session of a job, configured to run the same on a laptop, in a pod and by spark-submit."""

import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from audit_pipeline.jobs.java import require_java

LOCAL: Final = "local[*]"
HEAP: Final = "1g"

_ALWAYS: Final = {
    "spark.sql.session.timeZone": "UTC",
    # A page that does not match its checksum is an error, not numbers.
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",
    "spark.sql.parquet.compression.codec": "zstd",
    # By default times have 96 bits, which other readers do not support.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Days are small: a file and a task for each core and day would cost more than their content.
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
    "spark.sql.adaptive.advisoryPartitionSizeInBytes": "16m",
    # The list of files is known: no job has to discover them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
}
LOCAL_CONFIG: Final = {
    "spark.driver.memory": HEAP,
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "8",
}
"""Defaults, except for a job that spark-submit starts: it has its own."""
_LOGGING: Final = "log4j2.properties"
_JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:CompileThresholdScaling=5"
"""By default Java spends half the CPU time of a one-minute build on compiling code that it runs a few times."""


_INTERPRETED: Final = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
_SHORT_OPTIONS: Final = "-XX:TieredStopAtLevel=1"
"""Java's second compiler pays off only for code that runs for minutes."""


@contextmanager
def spark_session(
    name: str = "audit", config: Mapping[str, str] | None = None, *, is_short: bool = False
) -> Iterator[SparkSession]:
    """Yield a session and stop it at the end. An active session is used instead, and left unchanged.

    `config` is Spark's own, such as spark.master. `is_short`: the job ends before most of its code is worth compiling
    well. Python workers use the interpreter that runs this. With spark-submit, executors are on other machines, where
    Spark's own settings choose the interpreter. Raises BadUseError if there is no suitable Java.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    is_submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not is_submitted:
        require_java(os.environ)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.appName(name)
    if not is_submitted:
        builder = builder.master(LOCAL)
        builder = _with(builder, LOCAL_CONFIG)
        logging_config = Path(__file__).absolute().with_name(_LOGGING).as_uri()
        options = f"{_JAVA_OPTIONS} {_SHORT_OPTIONS}" if is_short else _JAVA_OPTIONS
        builder = builder.config(
            "spark.driver.extraJavaOptions", f"{options} -Dlog4j2.configurationFile={logging_config}"
        )
    # py4j raises what it logs with a stack trace; some of it goes to the root logger.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(is_not_of_py4j)
    with own_interrupts():
        session = _with(_with(builder, _ALWAYS), config or {}).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def for_few_rows(spark: SparkSession, *, is_wanted: bool) -> Iterator[None]:
    """If wanted, let Spark interpret the queries of this context: compiling takes longer than a few rows."""
    former = {key: spark.conf.get(key) for key in _INTERPRETED} if is_wanted else {}
    for key in former:
        spark.conf.set(key, _INTERPRETED[key])
    try:
        yield
    finally:
        for key, value in former.items():
            spark.conf.set(key, str(value))


def is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Restore the handler of Ctrl-C afterwards.

    pyspark replaces it to cancel jobs over the very connection that Ctrl-C has just interrupted. A command with its own
    way to end would not be notified, and others would end with stack traces.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)


def _with(builder: SparkSession.Builder, config: Mapping[str, str]) -> SparkSession.Builder:
    for key, value in config.items():
        builder = builder.config(key, value)
    return builder
