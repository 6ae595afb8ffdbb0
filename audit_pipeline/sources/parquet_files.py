"""Frames of Parquet files wherever they are: of a folder by Spark's own reader, of an object store by Arrow's.

Spark alone cannot read object stores: its connectors are jars that weigh more than Spark itself. Arrow reads the same
URIs that the lander writes to, in Spark's tasks, and only what of a file is wanted.
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

from audit_pipeline.targets import open_target

_BATCH_ROWS = 65_536
_FORMAT = "sluicegate_files"
_TASK_BYTES = 32 * 1024 * 1024
_UNKNOWN_BYTES = 4 * 1024 * 1024
"""What a file counts for whose size nobody knows."""


class WantedFile(NamedTuple):
    """A file of a source; of one with bounds only rows whose `ts` (microseconds) is within them. `size` 0: unknown."""

    path: str
    size: int
    ts_from: int | None = None
    ts_to: int | None = None


def frame_of(
    spark: SparkSession, uri: str, files: Sequence[WantedFile], schema: StructType, *, all_by_arrow: bool = False
) -> DataFrame:
    """Rows of these files of a source, in this schema; none of no file."""
    target = open_target(uri)
    plain, others = [], []
    for file in files:
        path = target.local_path(file.path)
        if path is not None and _is_plain(file) and not all_by_arrow:
            plain.append(literally(path))
        else:
            others.append(file)
    frame = spark.createDataFrame([], schema)
    if plain:
        # Folders are named arrival_date=...: that makes no columns here.
        frame = spark.read.schema(schema).option("recursiveFileLookup", "true").parquet(*plain)
    if others:
        spark.dataSource.register(_FilesSource)
        reader = spark.read.format(_FORMAT).schema(schema).option("uri", uri)
        rest = reader.option("files", json.dumps(others)).load()
        frame = frame.unionByName(rest) if plain else rest
    return frame


def _is_plain(file: WantedFile) -> bool:
    """Whether Spark's own reader has all of it, and no more: silently it leaves out files whose names begin so, as do
    merged ones until the compaction that was interrupted goes on."""
    return file.ts_from is None and file.path.rpartition("/")[2][:1] not in ("_", ".")


def literally(path: Path) -> str:
    """As Spark takes a path, in which some characters are patterns."""
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
                # One at a time: all that is wanted of it is fetched at once, and held in memory.
                for group in range(parquet.num_row_groups):
                    for batch in parquet.iter_batches(_BATCH_ROWS, [group], self._schema.names):
                        # Files that Spark has computed say of more columns that they may be null: it wants its schema.
                        yield _within(batch, file).select(self._schema.names).cast(self._schema)


def _within(batch: pa.RecordBatch, file: WantedFile) -> pa.RecordBatch:
    if file.ts_from is None:
        return batch
    ts = batch["ts"].cast(pa.int64())
    return batch.filter(pc.and_(pc.greater_equal(ts, file.ts_from), pc.less_equal(ts, file.ts_to)))
