"""Writes a frame as Parquet files of a target, by Spark's tasks, and tells which files these are. Shell.

A task puts its files when it has all of its rows; one that is begun again puts the same ones. Which of them count is
known when all tasks have ended, and published with everything else of a build.
"""

import io
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from audit_pipeline.published import NOTE_PREFIX, WHOLE
from audit_pipeline.results.tables import result_tables
from audit_pipeline.targets import SUFFIX, Target, open_target

_FORMAT = "sluicegate_results"
_ROW_GROUP_ROWS = 256 * 1024


@dataclass(frozen=True, slots=True)
class Written:
    """What one table of a build became: its files by event-day, and its rows by event-day (ISO; WHOLE for none)."""

    files: Mapping[str, tuple[str, ...]]
    rows: Mapping[str, int]


def prepare(spark: SparkSession) -> None:
    """Before the first `write_table` of a session, which threads may call at once."""
    spark.dataSource.register(_ResultsSink)


def write_table(frame: DataFrame, table: str, results: str, version: str) -> Written:
    """The frame as files of that table; nobody reads them until they are published."""
    definition = result_tables()[table]
    note = _note(table, version)
    # By time, so that readers find it by statistics; a sort by the whole key would cost more than it gives.
    order = definition.key[1:2] if definition.is_by_day else definition.key
    writer = frame.sortWithinPartitions(*order).write.format(_FORMAT).mode("append")
    writer.option("uri", results).option("table", table).option("version", version).option("note", note).save()
    target = open_target(results)
    with target.file_system.open_input_stream(note) as file:
        parts = json.loads(file.read())
    target.delete(note)
    return _written(parts)


def _note(table: str, version: str) -> str:
    return f"{NOTE_PREFIX}{version}-{table}.json"


def _written(parts: list[list[tuple[str, str, int]]]) -> Written:
    files: dict[str, list[str]] = defaultdict(list)
    rows: dict[str, int] = defaultdict(int)
    for part in parts:
        for day, path, count in part:
            files[day].append(path)
            rows[day] += count
    return Written({day: tuple(sorted(paths)) for day, paths in files.items()}, dict(rows))


@dataclass
class _Put(WriterCommitMessage):
    """Of one task: the day, the path and the rows of each file."""

    files: list[tuple[str, str, int]]


class _ResultsSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> "_ResultsWriter":
        return _ResultsWriter(self.options["uri"], self.options["table"], self.options["version"], self.options["note"])


class _ResultsWriter(DataSourceArrowWriter):
    def __init__(self, uri: str, table: str, version: str, note: str) -> None:
        self._uri = uri
        self._table = table
        self._version = version
        self._note = note

    def write(self, iterator: Iterator[pa.RecordBatch]) -> _Put:
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        is_by_day = result_tables()[self._table].is_by_day
        files: dict[str, _ParquetInMemory] = {}
        for batch in iterator:
            for day, rows in _by_day(batch) if is_by_day else [(WHOLE, batch)]:
                if rows.num_rows:
                    files.setdefault(day, _ParquetInMemory(rows.schema)).write(rows)
        target = open_target(self._uri)
        return _Put([self._put(target, day, file, number) for day, file in files.items()])

    def _put(self, target: Target, day: str, file: "_ParquetInMemory", number: int) -> tuple[str, str, int]:
        folder = f"{self._table}/event_date={day}" if day else self._table
        path = f"{folder}/{self._version}-{number:05d}{SUFFIX}"
        target.put(path, file.packed())
        return day, path, file.rows

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """This runs in a process of its own, too: what it knows the driver has to read."""
        parts = [message.files for message in messages if isinstance(message, _Put)]
        open_target(self._uri).put(self._note, json.dumps(parts).encode())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was put is no part of any manifest, and the next build removes it."""


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    days = batch["event_date"]
    for day in pc.unique(days):
        yield day.as_py().isoformat(), batch.filter(pc.equal(days, day))


class _ParquetInMemory:
    def __init__(self, schema: pa.Schema) -> None:
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(self._sink, schema, compression="zstd", store_schema=False)
        self.rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows, row_group_size=_ROW_GROUP_ROWS)
        self.rows += rows.num_rows

    def packed(self) -> bytes:
        self._writer.close()
        return self._sink.getvalue()
