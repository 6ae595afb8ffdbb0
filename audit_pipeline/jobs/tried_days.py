"""Replays days of connections under other limits: each boot and day in a task of Spark. Shell.

A task reads the files of its boot itself, in the order of their numbers, and holds the connections of some minutes: no
event is shuffled. A boot is the smallest unit, because limits of a broker concern all of its listeners.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, date, datetime

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from audit_pipeline.hours import HOUR_US
from audit_pipeline.jobs.tried_rows import what_if_rows
from audit_pipeline.reading.boot_events import CONNECTIONS, LIMITS, BootEvents, BootPart
from audit_pipeline.reading.tried_limits import try_part
from audit_pipeline.results.frames import result_schema
from audit_pipeline.sources.catalogue import SegmentEntry
from audit_pipeline.sources.local_frame import local_frame
from audit_pipeline.spool.targets import open_target
from audit_pipeline.what_if.limits import limits_in
from audit_pipeline.what_if.summary import Summary

_FORMAT = "sluicegate_what_if"
_ROWS_PER_BATCH = 10_000

PartOfSource = tuple[str, BootPart]
"""The URI of a source, and the files of a boot in it."""


def parts_of_day(files: Iterable[SegmentEntry], day: date) -> list[PartOfSource]:
    """Return the boots that have connections on a day, with their files of that day and shortly before."""
    from_us = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1_000_000
    paths: dict[tuple[str, tuple[str, int, str]], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for file in sorted(files, key=lambda file: (file.first_seq, file.path)):
        paths[file.source, file.boot][file.table].append(file.path)
    return [
        (source, BootPart(boot, found[CONNECTIONS], found[LIMITS], from_us, from_us + 24 * HOUR_US))
        for (source, boot), found in sorted(paths.items())
        if found[CONNECTIONS]
    ]


def what_if(spark: SparkSession, parts: Sequence[PartOfSource], limits: str) -> DataFrame:
    """Return the rows of the table what_if for these parts; `limits` is the document of limits as JSON."""
    schema = result_schema("what_if")
    if not parts:
        return local_frame(spark, schema)
    spark.dataSource.register(_TriedParts)
    told = json.dumps([(source, asdict(part)) for source, part in parts])
    return spark.read.format(_FORMAT).schema(schema).option("parts", told).option("limits", limits).load()


class _TriedParts(DataSource):
    @classmethod
    def name(cls) -> str:
        return _FORMAT

    def reader(self, schema: StructType) -> "_Reader":
        given = json.loads(self.options["parts"])
        parts = [(source, BootPart(**{**part, "boot": tuple(part["boot"])})) for source, part in given]
        return _Reader(parts, self.options["limits"], to_arrow_schema(schema, timezone="UTC"))


class _Task(InputPartition):
    def __init__(self, source: str, part: BootPart) -> None:
        super().__init__((source, part))


class _Reader(DataSourceReader):
    def __init__(self, parts: Sequence[PartOfSource], limits: str, schema: pa.Schema) -> None:
        self._parts = parts
        self._limits = limits
        self._schema = schema

    def partitions(self) -> Sequence[InputPartition]:
        return [_Task(*part) for part in self._parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        source, part = partition.value
        limits, summary = limits_in(self._limits), Summary()
        try_part(part, BootEvents(part, open_target(source)), limits, summary)
        day = datetime.fromtimestamp((part.from_us or 0) / 1_000_000, UTC).date()
        rows = list(what_if_rows(day, part.boot, summary, limits))
        for first in range(0, len(rows), _ROWS_PER_BATCH):
            columns = zip(*rows[first : first + _ROWS_PER_BATCH], strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=self._schema)
