"""The files that a build reads and writes: those of the former version, until it has written others. Shell."""

import logging
import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.hours import by_day, hours_of_day
from audit_pipeline.jobs.computing import Frames
from audit_pipeline.jobs.store import write_table
from audit_pipeline.reading.published import WHOLE
from audit_pipeline.results.clean import in_hours
from audit_pipeline.results.frames import result_schema
from audit_pipeline.results.tables import result_tables
from audit_pipeline.sources.parquet_files import WantedFile, frame_of

log = logging.getLogger(__name__)

Files = dict[str, dict[str, tuple[str, ...]]]
"""Paths by table and by day (ISO, WHOLE for tables that are not by day)."""


class ResultFiles:
    """The files of each table, and the number of `rows` that this version has written to it.

    `began` is the time in the names of new files, `files` and `sums` are those of the former version. No file counts
    before a manifest names it.
    """

    def __init__(
        self,
        spark: SparkSession,
        results: str,
        began: str,
        files: Mapping[str, Mapping[str, tuple[str, ...]]],
        sums: Mapping[str, str],
    ) -> None:
        self._spark = spark
        self._results = results
        self._began = began
        self.files: Files = {table: dict(paths) for table, paths in files.items()}
        self._sums = dict(sums)
        self.rows: dict[str, int] = {}

    @property
    def sums(self) -> dict[str, str]:
        """The SHA-256 of each present file, as far as it is known."""
        there = {path for paths in self.files.values() for of_day in paths.values() for path in of_day}
        return {path: known for path, known in self._sums.items() if path in there}

    def copy(self) -> Files:
        """Return the present files, to which `restore` returns."""
        return {table: dict(paths) for table, paths in self.files.items()}

    def restore(self, files: Files) -> None:
        self.files = files

    def stored(self, table: str, days: Iterable[date] | None = None) -> DataFrame:
        """Return the rows of these days, or of all."""
        paths = self.files.get(table, {})
        wanted = paths if days is None else [day.isoformat() for day in days]
        files = [WantedFile(path, 0) for day in sorted(wanted) for path in paths.get(day, ())]
        return frame_of(self._spark, self._results, files, result_schema(table))

    def stored_hours(self, table: str, hours: Collection[int]) -> DataFrame:
        """Return the rows of these hours; not for tables that are made from a day or more."""
        return self.stored(table, by_day(hours)).where(in_hours(F.col(_hour_of(table)), hours))

    def write_hours(self, frames: Frames, hours: Collection[int]) -> None:
        """Replace the rows of these hours. Files have whole days: rows of other hours of these days are copied."""
        days = by_day(hours)
        partly = [day for day, members in days.items() if len(members) < len(hours_of_day(day))]
        for name, frame in frames.items():
            there = [day for day in partly if day.isoformat() in self.files.get(name, {})]
            if there:
                others = self.stored(name, there).where(~in_hours(F.col(_hour_of(name)), hours))
                frame = frame.unionByName(others)
            self._write(name, frame, days)

    def write_days(self, frames: Frames, days: Collection[date]) -> None:
        """Replace the rows of these days."""
        for name, frame in frames.items():
            self._write(name, frame, days)

    def write_whole(self, frames: Frames) -> None:
        """Replace tables that are not by day."""
        for name, frame in frames.items():
            self._write(name, frame, [])

    def drop(self, day: date) -> None:
        for paths in self.files.values():
            paths.pop(day.isoformat(), None)

    def _write(self, name: str, frame: DataFrame, days: Iterable[date]) -> None:
        self._spark.sparkContext.setJobDescription(name)
        # A day may be written again, with rows of its files.
        table = write_table(frame, name, self._results, f"{self._began}-{secrets.token_hex(4)}")
        log.debug("%s: %d rows in %d files", name, table.rows, sum(map(len, table.files.values())))
        paths = self.files.setdefault(name, {})
        for replaced in [day.isoformat() for day in days] if result_tables()[name].is_by_day else [WHOLE]:
            paths.pop(replaced, None)
        paths.update(table.files)
        self._sums.update(table.sums)
        self.rows[name] = self.rows.get(name, 0) + table.rows


def _hour_of(table: str) -> str:
    column = result_tables()[table].hour_of
    assert column is not None, f"{table} is not made from hours"
    return column
