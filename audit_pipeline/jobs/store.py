"""Writes a frame as Parquet files of a target, and returns their names. Shell.

Spark writes to a folder directly; its files are renamed afterwards, so that only complete files have a name in the
results. Arrow puts files into an object store (store_sink). The list of files is known at the end, and published with
the rest of a build.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.errors import BadUseError
from audit_pipeline.jobs.store_sink import PutFile, put_rows, register
from audit_pipeline.reading.published import DRAFTS, PROBE, WHOLE, result_file
from audit_pipeline.results.tables import ResultTable, result_tables
from audit_pipeline.spool.targets import SUFFIX, Target, open_target

_DAY = "of_day"
"""The column that Spark partitions folders by: event_date stays in the files."""
_PROBE = f"{DRAFTS}/{PROBE}"


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing one table: its files by event-day (ISO; WHOLE for none), and their number of rows.

    `sums` has the SHA-256 of each file in hexadecimal, `sizes` its number of bytes.
    """

    files: Mapping[str, tuple[str, ...]]
    rows: int
    sums: Mapping[str, str]
    sizes: Mapping[str, int]


NOTHING_WRITTEN: Final = Written({}, 0, {}, {})


def prepare(spark: SparkSession, target: Target) -> None:
    """Prepare a session for writing results, once before its first `write_table`.

    Raises BadUseError if executors have a different folder of that name: what they wrote there would be lost without an
    error from Spark.
    """
    folder = target.local_path(_PROBE)
    if folder is None:
        register(spark)
    elif not (spark.sparkContext.master or "").startswith("local"):
        tasks = 2 * spark.sparkContext.defaultParallelism
        spark.range(0, tasks, 1, tasks).write.mode("overwrite").parquet(_as_spark_takes_it(folder))
        found = sum(pq.read_metadata(file).num_rows for file in folder.rglob(f"*{SUFFIX}"))
        target.remove_folder(_PROBE)
        if found != tasks:
            raise BadUseError(
                f"executors cannot write to {target.local_path('')}: give a folder that all machines share, or a URI"
            )


def write_table(frame: DataFrame, table: str, results: str, version: str) -> Written:
    """Write the frame as files of that table. They are not read until they are published."""
    definition = result_tables()[table]
    target = open_target(results)
    draft = f"{DRAFTS}/{version}-{table}"
    folder = target.local_path(draft)
    if folder is not None:
        _write_by_spark(frame, definition, folder)
        put = _placed(definition, target, draft, folder, version)
    else:
        put = put_rows(frame.sortWithinPartitions(*_order(definition)), table, results, version)
    files: dict[str, list[str]] = {}
    for file in put:
        files.setdefault(file.day, []).append(file.path)
    return Written(
        {day: tuple(sorted(paths)) for day, paths in files.items()},
        sum(file.rows for file in put),
        {file.path: file.sha256 for file in put},
        {file.path: file.size for file in put},
    )


def _order(table: ResultTable) -> tuple[str, ...]:
    """Return the sort order: by time, for readers' use of statistics. Sorting by the whole key would not pay off."""
    return table.key[:2] if table.is_by_day else table.key


def _write_by_spark(frame: DataFrame, table: ResultTable, folder: Path) -> None:
    uri = _as_spark_takes_it(folder)
    if table.is_by_day:
        by_day = frame.withColumn(_DAY, F.col("event_date")).sortWithinPartitions(_DAY, *_order(table)[1:])
        by_day.write.mode("overwrite").partitionBy(_DAY).parquet(uri)
    else:
        frame.sortWithinPartitions(*_order(table)).write.mode("overwrite").parquet(uri)


def _placed(table: ResultTable, target: Target, draft: str, folder: Path, version: str) -> list[PutFile]:
    """Move what Spark has written into the draft `folder` to its names in the results."""
    put = []
    for number, file in enumerate(sorted(folder.rglob(f"*{SUFFIX}"))):
        day = file.parent.name.partition("=")[2] if table.is_by_day else WHOLE
        rows = pq.read_metadata(file).num_rows
        if rows:
            path = result_file(table.name, day, version, number)
            with file.open("rb") as opened:
                sha256 = file_digest(opened, "sha256").hexdigest()
                size = opened.tell()
            target.place(f"{draft}/{file.relative_to(folder)}", path)
            put.append(PutFile(day, path, rows, size, sha256))
    target.remove_folder(draft)
    return put


def _as_spark_takes_it(folder: Path) -> str:
    """Return the URI of a folder, not encoded: Spark does not decode it, and would write to another folder."""
    return f"file://{folder}"
