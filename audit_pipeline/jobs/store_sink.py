"""Writes rows of a frame as Parquet objects to a store, from Spark's tasks through Arrow. Shell.

Spark's own connectors for object stores are jars larger than Spark itself. A task puts its objects once it has all of
its rows; a repeated task puts the same objects.
"""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from audit_pipeline.reading.published import NOTE_PREFIX, WHOLE, result_file
from audit_pipeline.results.tables import result_tables
from audit_pipeline.spool.targets import Target, open_target

_FORMAT = "sluicegate_results"
_ROW_GROUP_ROWS = 256 * 1024


class PutFile(NamedTuple):
    """A file of results; `day` is ISO, WHOLE for none. `size` is in bytes, `sha256` in hexadecimal."""

    day: str
    path: str
    rows: int
    size: int
    sha256: str


def register(spark: SparkSession) -> None:
    """Register the sink with a session, once before its first `put_rows`."""
    spark.dataSource.register(_ResultsSink)


def put_rows(frame: DataFrame, table: str, results: str, version: str) -> list[PutFile]:
    """Write the rows of a table as objects to the store at the URI `results`."""
    note = f"{NOTE_PREFIX}{version}-{table}.json"
    writer = frame.write.format(_FORMAT).mode("append").option("uri", results).option("table", table)
    writer.option("version", version).option("note", note).save()
    target = open_target(results)
    with target.file_system.open_input_stream(note) as file:
        parts = json.loads(file.read())
    target.delete(note)
    return [PutFile(*each) for part in parts for each in part]


@dataclass
class _Put(WriterCommitMessage):
    """The files that one task has put."""

    files: list[PutFile]


class _ResultsSink(DataSource):
    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def writer(self, schema: StructType, overwrite: bool) -> "_ResultsWriter":
        return _ResultsWriter(*(self.options[key] for key in ("uri", "table", "version", "note")))


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

    def _put(self, target: Target, day: str, file: "_ParquetInMemory", number: int) -> PutFile:
        path = result_file(self._table, day, self._version, number)
        packed = file.packed()
        target.put(path, packed)
        return PutFile(day, path, file.rows, len(packed), sha256(packed).hexdigest())

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Store the list of files in a note: this also runs in a process of its own, and the driver has to read it."""
        parts = [message.files for message in messages if isinstance(message, _Put)]
        open_target(self._uri).put(self._note, json.dumps(parts).encode())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Do nothing: the objects are not in any manifest, and a later build removes them."""


def _by_day(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    days = batch["event_date"]
    for day in pc.unique(days):
        yield day.as_py().isoformat(), batch.filter(pc.equal(days, day))


class _ParquetInMemory:
    def __init__(self, schema: pa.Schema) -> None:
        self._sink = io.BytesIO()
        self._writer = pq.ParquetWriter(
            self._sink, schema, compression="zstd", store_schema=False, write_page_checksum=True
        )
        self.rows = 0

    def write(self, rows: pa.RecordBatch) -> None:
        self._writer.write_batch(rows, row_group_size=_ROW_GROUP_ROWS)
        self.rows += rows.num_rows

    def packed(self) -> bytes:
        self._writer.close()
        return self._sink.getvalue()
