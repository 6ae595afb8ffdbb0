"""Records of the audit topic as frames: ends of segments, and events of complete segments. Pure.

Frames of records have the form of Spark's connector, with `value` converted to text.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it
from pyspark.sql.types import DataType, MapType, StringType, StructField, StructType

from audit_pipeline.contract import contract
from audit_pipeline.ingest.audit_topic import END
from audit_pipeline.results.frames import NUMBERED, event_schema
from audit_pipeline.sources.catalogue import SegmentEntry

_BUCKET: Final = 4096
"""Numbers of a boot per join bucket: a segment has several buckets, or shares one with other segments."""
_BOOT: Final = NUMBERED[:3]


class SegmentRows(NamedTuple):
    """The records of the audit topic that come from one file of a segment.

    `number` is the index of the file's entry in the request. Times are microseconds since 1970, of rows with a possible
    time; `impossible` counts the other rows.
    """

    number: int
    rows: int
    ts_min: int | None
    ts_max: int | None
    impossible: int
    partition: int
    first_offset: int


def is_of(table: str) -> Column:
    return F.col("value").startswith(f'{{"table":"{table}",')


def ends(records: DataFrame) -> DataFrame:
    return records.where(is_of(END)).select("partition", "offset", "timestamp_us", "value")


def parsed(records: DataFrame, table: str, *others: str) -> DataFrame:
    """Return the rows of the table `table` in `records`, as published, with the columns `others` of `records`.

    Some rows may be duplicates, or belong to incomplete segments.
    """
    rows = records.where(is_of(table)).withColumn("row", F.from_json("value", _as_json(event_schema(table))))
    columns = [
        F.transform_keys(f"row.{field.name}", lambda key, _: key.cast("short")).alias(field.name)
        if isinstance(field.dataType, MapType)
        else F.col(f"row.{field.name}").alias(field.name)
        for field in event_schema(table)
    ]
    return rows.select(*columns, *others)


def events_of(records: DataFrame, table: str, entries: Iterable[SegmentEntry]) -> DataFrame:
    """Return each event of these segments once, without those with an impossible time."""
    of_table = [entry for entry in entries if entry.table == table]
    found = _with_segment(parsed(records, table), records.sparkSession, of_table)
    us = F.unix_micros("ts")
    possible = found.where((us >= F.col("earliest_us")) & (us <= F.col("latest_us")))
    key = list(contract().tables[table].key)
    return possible.dropDuplicates(key).select(*(field.name for field in event_schema(table)))


def counted(records: DataFrame, entries: list[SegmentEntry]) -> Iterator[SegmentRows]:
    """Yield the rows in the topic for each entry that has any. Reads the records."""
    spark = records.sparkSession
    slim = StructType([each for each in event_schema("request").fields if each.name in (*NUMBERED, "ts")])
    found: DataFrame | None = None
    for table in sorted({entry.table for entry in entries}):
        of_table = [(number, entry) for number, entry in enumerate(entries) if entry.table == table]
        rows = records.where(is_of(table)).select(
            "partition", "offset", "value", F.from_json("value", slim).alias("row")
        )
        rows = rows.select("partition", "offset", "value", *(f"row.{name}" for name in (*NUMBERED, "ts")))
        part = _joined(rows, spark, of_table)
        found = part if found is None else found.unionByName(part)
    if found is None:
        return
    us = F.unix_micros("ts")
    is_possible = (us >= F.col("earliest_us")) & (us <= F.col("latest_us"))
    # A row that was published again after an interruption has the same text.
    added = found.groupBy("number").agg(
        F.count("*").alias("rows"),
        F.min(F.when(is_possible, us)).alias("ts_min"),
        F.max(F.when(is_possible, us)).alias("ts_max"),
        F.count_distinct(F.when(~is_possible, F.col("value"))).alias("impossible"),
        F.min("partition").alias("partition"),
        F.min("offset").alias("first_offset"),
    )
    for row in added.collect():
        yield SegmentRows(**row.asDict())


def _with_segment(rows: DataFrame, spark: SparkSession, entries: list[SegmentEntry]) -> DataFrame:
    return _joined(rows, spark, list(enumerate(entries)))


def _joined(rows: DataFrame, spark: SparkSession, entries: Iterable[tuple[int, SegmentEntry]]) -> DataFrame:
    """Return the rows with the number and bounds of their segment; rows of no segment are left out."""
    ranges = [
        (number, *entry.boot, bucket, entry.first_seq, entry.last_seq, entry.earliest_us, entry.latest_us)
        for number, entry in entries
        for bucket in range(entry.first_seq // _BUCKET, entry.last_seq // _BUCKET + 1)
    ]
    schema = (
        "number int, cluster_id string, broker_id int, boot_id string, bucket long, "
        "first long, last long, earliest_us long, latest_us long"
    )
    segments = F.broadcast(spark.createDataFrame(ranges, schema))
    in_bucket = rows.withColumn("bucket", F.floor(F.col("seq") / _BUCKET))
    joined = in_bucket.join(segments, [*_BOOT, "bucket"])
    return joined.where((F.col("seq") >= F.col("first")) & (F.col("seq") <= F.col("last")))


def _as_json(schema: StructType) -> StructType:
    """Return the schema of the JSON: all fields may be missing, and keys of maps are text."""
    return StructType([StructField(each.name, _with_text_keys(each.dataType)) for each in schema])


def _with_text_keys(kind: DataType) -> DataType:
    return MapType(StringType(), kind.valueType) if isinstance(kind, MapType) else kind
