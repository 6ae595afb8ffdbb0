"""Frames of a few rows, with days and times as texts; columns that a row leaves out have an empty value."""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    MapType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from audit_pipeline.results.frames import event_schema, result_schema


def frame(spark: SparkSession, schema: StructType | str, rows: Sequence[Sequence[Any]]) -> DataFrame:
    """A frame of these rows; `schema` may be a DDL.

    Days and times are texts such as 2026-11-20 and 2026-11-20 10:00:00.5, in UTC.
    """
    wanted = schema if isinstance(schema, StructType) else DataType.fromDDL(schema)
    assert isinstance(wanted, StructType)
    written = StructType([StructField(field.name, _written(field.dataType)) for field in wanted])
    frame = spark.createDataFrame([tuple(row) for row in rows], written)
    return frame.select(*(frame[field.name].cast(field.dataType).alias(field.name) for field in wanted))


def results(spark: SparkSession, table: str, *rows: Sequence[Any]) -> DataFrame:
    """Complete rows of a table of results."""
    return frame(spark, result_schema(table), rows)


def facts(spark: SparkSession, table: str, *rows: Mapping[str, Any]) -> DataFrame:
    """Rows of a table of results, in which a test sets only the columns that it is about."""
    return _filled(spark, result_schema(table), rows)


def events(spark: SparkSession, table: str, *rows: Mapping[str, Any]) -> DataFrame:
    """Rows of a table of events, in which a test sets only the columns that it is about."""
    return _filled(spark, event_schema(table), rows)


def _filled(spark: SparkSession, schema: StructType, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    unknown = {name for row in rows for name in row} - set(schema.fieldNames())
    assert not unknown, unknown
    nothing = {field.name: None if field.nullable else _nothing(field.dataType) for field in schema}
    return frame(spark, schema, [[{**nothing, **row}[name] for name in schema.fieldNames()] for row in rows])


def _written(kind: DataType) -> DataType:
    return StringType() if isinstance(kind, DateType | TimestampType) else kind


def _nothing(kind: DataType) -> Any:
    match kind:
        case BooleanType():
            return False
        case DoubleType():
            return 0.0
        case NumericType():
            return 0
        case MapType():
            return {}
        case DateType():
            return "2026-11-20"
        case TimestampType():
            return "2026-11-20 10:00:00"
        case _:
            return ""
