"""Frames of Parquet files anywhere: Spark's own reader for folders, Arrow for object stores.

Spark alone cannot read object stores: its connectors are jars larger than Spark itself. Arrow reads the URIs that the
lander writes to, in Spark's tasks, and only the required part of a file.
"""

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from audit_pipeline.sources.local_frame import local_frame
from audit_pipeline.spool.targets import open_target

_BATCH_ROWS = 65_536
_FORMAT = "sluicegate_files"
_TASK_BYTES = 32 * 1024 * 1024
_UNKNOWN_BYTES = 4 * 1024 * 1024
"""Size that a file of unknown size counts for."""


class WantedFile(NamedTuple):
    """A file of the audit log that has to be read.

    With bounds, only rows whose `ts` (microseconds) is within them. `size` is 0 if unknown.
    """

    path: str
    size: int
    ts_from: int | None = None
    ts_to: int | None = None


def frame_of(
    spark: SparkSession, uri: str, files: Sequence[WantedFile], schema: StructType, *, all_by_arrow: bool = False
) -> DataFrame:
    """Return the rows of these files of a source, in this schema; no rows without files."""
    target = open_target(uri)
    plain, others = [], []
    for file in files:
        path = target.local_path(file.path)
        if path is not None and _is_plain(file) and not all_by_arrow:
            plain.append(literally(path))
        else:
            others.append(file)
    frame = local_frame(spark, schema)
    if plain:
        # Folders are named arrival_date=...: they must not become columns.
        frame = spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*plain)
    if others:
        spark.dataSource.register(_FilesSource)
        reader = spark.read.format(_FORMAT).schema(schema).option("uri", uri)
        rest = reader.option("files", json.dumps(others)).load()
        frame = frame.unionByName(rest) if plain else rest
    return frame


def _is_plain(file: WantedFile) -> bool:
    """Whether Spark's own reader can read exactly the wanted rows of a file.

    Spark silently ignores files whose names begin with _ or a dot. Merged files have such names until an interrupted
    compaction continues.
    """
    return file.ts_from is None and file.path.rpartition("/")[2][:1] not in ("_", ".")


def literally(path: Path) -> str:
    """Return a path in Spark's notation, with its pattern characters escaped."""
    return "file://" + re.sub(r"([\\{}\[\]*?])", r"\\\1", str(path))


class _FilesSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def reader(self, schema: StructType) -> "_FilesReader":
        files = [WantedFile(*file) for file in json.loads(self.options["files"])]
        return _FilesReader(self.options["uri"], files, to_arrow_schema(schema, timezone="UTC"))


class _Part(InputPartition):
    def __init__(self, files: Sequence[WantedFile]) -> None:
        super().__init__(tuple(files))


class _FilesReader(DataSourceReader):
    def __init__(self, uri: str, files: Sequence[WantedFile], schema: pa.Schema) -> None:
        self._uri = uri
        self._files = files
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        parts: list[InputPartition] = []
        taken: list[WantedFile] = []
        size = 0
        for file in self._files:
            taken.append(file)
            size += file.size or _UNKNOWN_BYTES
            if size >= _TASK_BYTES:
                parts.append(_Part(taken))
                taken, size = [], 0
        return [*parts, _Part(taken)] if taken else parts

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        file_system = open_target(self._uri).file_system
        for file in partition.value:
            with file_system.open_input_file(file.path) as opened:
                parquet = pq.ParquetFile(opened, pre_buffer=True, page_checksum_verification=True)
                # One row group at a time: all its wanted columns are fetched at once, and held in memory.
                for group in range(parquet.num_row_groups):
                    for batch in parquet.iter_batches(_BATCH_ROWS, [group], self._schema.names):
                        # Files computed by Spark declare more columns as nullable: Spark requires its own schema.
                        yield self._conformed(_within(batch, file))

    def _conformed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the wanted columns; a nullable one that the file lacks has nulls."""
        for field in self._schema:
            if field.nullable and field.name not in batch.schema.names:
                batch = batch.append_column(field.name, pa.nulls(len(batch), field.type))
        return batch.select(self._schema.names).cast(self._schema)


def _within(batch: pa.RecordBatch, file: WantedFile) -> pa.RecordBatch:
    if file.ts_from is None:
        return batch
    ts = batch["ts"].cast(pa.int64())
    return batch.filter(pc.and_(pc.greater_equal(ts, file.ts_from), pc.less_equal(ts, file.ts_to)))
