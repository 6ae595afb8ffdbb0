"""Files as Arrow reads them into frames: those that Spark's own reader would ignore, and all of an object store."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, MapType, ShortType, StructField, StructType

from audit_pipeline.sources.parquet_files import WantedFile, frame_of

SCHEMA = StructType([StructField("n", LongType(), False), StructField("m", MapType(ShortType(), LongType()), False)])
NAME = "_by-arrow.parquet"
"""Spark ignores files whose names begin like this."""


def write(folder: Path, numbers: list[int | None]) -> None:
    """Write a file whose columns may be null exactly where SCHEMA's may not."""
    of_map = pa.map_(pa.int16(), pa.field("value", pa.int64(), nullable=False))
    columns = {"m": pa.array([[(1, 2)] for _ in numbers], of_map), "n": pa.array(numbers, pa.int64())}
    pq.write_table(pa.table(columns), folder / NAME, store_schema=False)


def test_a_files_own_nullability_is_ignored(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, [3, 4])
    rows = frame_of(spark, str(tmp_path), [WantedFile(NAME, 0)], SCHEMA).collect()
    assert [(row["n"], row["m"]) for row in rows] == [(3, {1: 2}), (4, {1: 2})]


def test_a_null_in_a_non_nullable_column_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    write(tmp_path, [3, None])
    with pytest.raises(PySparkException, match="null values to non-nullable"):
        frame_of(spark, str(tmp_path), [WantedFile(NAME, 0)], SCHEMA).collect()
