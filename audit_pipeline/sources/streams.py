"""Streams of events for `follow`: from the folder that segments are landed in, or from the audit topic.

Rows have `seen_us` in addition to the table's fields: when the file was written, or the record's time. Merged segments
are left out: their events came before.
"""

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.ingest.audit_topic import TopicPlace, is_topic
from audit_pipeline.ingest.client_config import PLAINTEXT, ClientProperties
from audit_pipeline.results.frames import event_schema
from audit_pipeline.sources.parquet_files import literally
from audit_pipeline.sources.topic_frames import parsed

_FILES_AT_ONCE: Final = 500
_RECORDS_AT_ONCE: Final = 1_000_000
_MERGED: Final = r"-[0-9]{8}-[0-9]{8}\.parquet$"


def stream_of(spark: SparkSession, source: str, table: str, client: ClientProperties = PLAINTEXT) -> DataFrame:
    """Return the events of a table as a stream. `client` has the properties of Spark's connections to a topic."""
    if is_topic(source):
        return _of_topic(spark, TopicPlace.of(source, client), table)
    return _of_folder(spark, source, table)


def _of_folder(spark: SparkSession, source: str, table: str) -> DataFrame:
    # A pattern, because the folder may not exist yet.
    pattern = f"[{table[0]}]{table[1:]}"
    files = (
        spark.readStream.schema(event_schema(table))
        .option("recursiveFileLookup", "true")
        .option("maxFilesPerTrigger", str(_FILES_AT_ONCE))
        .parquet(f"{literally(Path(source).absolute())}/{pattern}")
    )
    fresh = files.where(~F.col("_metadata.file_name").rlike(_MERGED))
    return fresh.select("*", F.unix_micros("_metadata.file_modification_time").alias("seen_us"))


def _of_topic(spark: SparkSession, place: TopicPlace, table: str) -> DataFrame:
    stream = spark.readStream.format("kafka").options(
        **{
            **place.client.spark,
            "kafka.bootstrap.servers": place.bootstrap,
            "subscribe": place.topic,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(_RECORDS_AT_ONCE),
        }
    )
    records = stream.load().select(F.unix_micros("timestamp").alias("seen_us"), F.col("value").cast("string"))
    return parsed(records, table, "seen_us")
