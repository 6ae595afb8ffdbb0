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
FEW_ROWS: Final = 1_000_000
"""Number of rows of events below which a build is short for Java, and facts are few for Spark."""
LITTLE_ROWS: Final = 50_000
"""Number of rows of events below which Spark interprets queries: compiling them takes longer."""
LITTLE_BYTES: Final = 2 * 1024 * 1024
"""Size of files of results below which Spark interprets queries: about a hundred thousand rows of usage."""
SOME_BYTES: Final = 16 * 1024 * 1024
"""Size of files of results below which Spark plans queries once: about a million rows of usage."""

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
    # Without it, each expression asks Python and Java where it was made, for messages that users do not see.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Spark writes out each plan for its web page, with all constants of expressions: thousands for a histogram.
    "spark.sql.debug.maxToStringFields": "1",
    "spark.sql.ui.explainMode": "simple",
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
"""Settings of Spark for a job on this machine. A job that spark-submit starts has its own."""
_LOGGING: Final = "log4j2.properties"
_JAVA_OPTIONS: Final = "-XX:+UseSerialGC -XX:CompileThresholdScaling=5"
"""By default Java spends half the CPU time of a one-minute build on compiling code that it runs a few times."""


_PLANNED_ONCE: Final = {
    # Otherwise Spark plans again after each shuffle, and each shuffle is a job.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
}
_INTERPRETED: Final = {
    **_PLANNED_ONCE,
    "spark.sql.shuffle.partitions": "1",
    # Compiling takes longer than a few rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_SHORT_OPTIONS: Final = "-XX:TieredStopAtLevel=1"
"""Java's second compiler pays off only for code that runs for minutes."""


@contextmanager
def spark_session(
    name: str = "audit", config: Mapping[str, str] | None = None, *, is_short: bool = False
) -> Iterator[SparkSession]:
    """Yield a Spark session, and stop it at the end. An active session is used instead, and left unchanged.

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
def for_events(spark: SparkSession, rows: int) -> Iterator[None]:
    """Configure Spark for queries of this number of rows of events.

    Up to LITTLE_ROWS are planned once, for one task, and interpreted; up to FEW_ROWS are planned once, for two tasks.
    """
    with _with_config(spark, _INTERPRETED if rows < LITTLE_ROWS else _PLANNED_ONCE if rows < FEW_ROWS else {}):
        yield


@contextmanager
def for_results(spark: SparkSession, size: int) -> Iterator[None]:
    """Configure Spark for queries of files of results with this number of bytes.

    Small files are planned once: up to LITTLE_BYTES for one task, and interpreted, and larger ones for two tasks.
    """
    config = _INTERPRETED if size < LITTLE_BYTES else _PLANNED_ONCE if size < SOME_BYTES else {}
    with _with_config(spark, config):
        yield


@contextmanager
def _with_config(spark: SparkSession, config: Mapping[str, str]) -> Iterator[None]:
    former = {key: spark.conf.get(key) for key in config}
    for key, value in config.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, before in former.items():
            spark.conf.set(key, str(before))


def is_not_of_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Restore the handler of Ctrl-C after this context.

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
