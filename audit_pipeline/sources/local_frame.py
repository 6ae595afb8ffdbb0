"""Frames of a few rows that the driver has."""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType


def local_frame(spark: SparkSession, schema: StructType, rows: Iterable[Sequence[Any]] = ()) -> DataFrame:
    """Return a frame of a few rows, which are part of Spark's query plan.

    Spark needs no Python worker to read the rows, and makes no empty partitions for them.
    """
    wanted = to_arrow_schema(schema, timezone="UTC")
    columns = list(zip(*rows, strict=True)) or [()] * len(wanted)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, wanted, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=wanted), schema)
