"""The schemas of event and result frames in Spark. Pure; needs no session."""

from collections.abc import Iterable
from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from audit_pipeline.contract import Field, contract
from audit_pipeline.results.tables import result_tables

_TYPES: dict[str, DataType] = {
    "bool": BooleanType(),
    "date": DateType(),
    "double": DoubleType(),
    "int16": ShortType(),
    "int32": IntegerType(),
    "int64": LongType(),
    "map<int16,int64>": MapType(ShortType(), LongType()),
    "string": StringType(),
    "timestamp_us": TimestampType(),
}

CLIENT = ("listener", "principal", "client_id", "client_ip", "software_name", "software_version")
"""Columns that identify a client beyond a single connection."""

NUMBERED = ("cluster_id", "broker_id", "boot_id", "seq")
"""Columns that identify an event; rows of partition have those of their request."""


class EventFrames(NamedTuple):
    """Events as brokers have recorded them: one frame for each table of the contract."""

    request: DataFrame
    partition: DataFrame
    connection: DataFrame
    inventory: DataFrame
    rollup: DataFrame
    gap: DataFrame
    change: DataFrame
    connection_limit: DataFrame


def event_schema(table: str) -> StructType:
    return _schema(contract().tables[table].fields)


def result_schema(table: str) -> StructType:
    return _schema(result_tables()[table].fields)


def as_table(frame: DataFrame, table: str) -> DataFrame:
    """Return the columns of a result in its order and types. Raises AnalysisException if a column is missing."""
    return frame.select(*(F.col(field.name).cast(field.dataType).alias(field.name) for field in result_schema(table)))


def _schema(fields: Iterable[Field]) -> StructType:
    return StructType([StructField(field.name, _TYPES[field.type], field.nullable) for field in fields])
