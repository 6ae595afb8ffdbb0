"""The files that a build reads and writes: those of the former version, until it has written others. Shell."""

import logging
import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's users write it

from audit_pipeline.hours import by_day, hours_of_day
from audit_pipeline.jobs.computing import MADE_OF, Results
from audit_pipeline.jobs.session import for_results
from audit_pipeline.jobs.store import NOTHING_WRITTEN, write_table
from audit_pipeline.reading.published import WHOLE
from audit_pipeline.results.clean import in_hours
from audit_pipeline.results.frames import result_schema
from audit_pipeline.results.tables import result_tables
from audit_pipeline.sources.parquet_files import WantedFile, frame_of

log = logging.getLogger(__name__)

Files = dict[str, dict[str, tuple[str, ...]]]
"""Paths of files by table and by day (ISO; WHOLE for tables that are not by day)."""


class ResultFiles:
    """The files of each table of results, and the number of `rows` that this version has written.

    `began` is the time in the names of new files, `files` and `sums` are those of the former version, `sizes` has the
    number of bytes of each existing file. No file counts before a manifest names it.
    """

    def __init__(
        self,
        spark: SparkSession,
        results: str,
        began: str,
        files: Mapping[str, Mapping[str, tuple[str, ...]]],
        sums: Mapping[str, str],
        sizes: Mapping[str, int],
    ) -> None:
        self._spark = spark
        self._results = results
        self._began = began
        self.files: Files = {table: dict(paths) for table, paths in files.items()}
        self._sums = dict(sums)
        self._sizes = dict(sizes)
        self.rows: dict[str, int] = {}

    @property
    def sums(self) -> dict[str, str]:
        """Return the SHA-256 of each present file, as far as it is known."""
        there = {path for paths in self.files.values() for of_day in paths.values() for path in of_day}
        return {path: known for path, known in self._sums.items() if path in there}

    def copy(self) -> Files:
        """Return the present files as a state for `restore`."""
        return {table: dict(paths) for table, paths in self.files.items()}

    def restore(self, files: Files) -> None:
        self.files = files

    def has(self, table: str) -> bool:
        """Return whether the table has a row: files without rows are not kept."""
        return any(self.files.get(table, {}).values())

    def stored(self, table: str, days: Iterable[date] | None = None) -> DataFrame:
        """Return the stored rows of a table for these days, or for all."""
        files = [WantedFile(path, self._sizes.get(path, 0)) for path in self._paths(table, days)]
        return frame_of(self._spark, self._results, files, result_schema(table))

    def size_of(self, tables: Iterable[str], days: Collection[date] | None = None) -> int:
        """Return the number of bytes of the stored files of these tables for these days, or for all."""
        return sum(self._sizes.get(path, 0) for table in tables for path in self._paths(table, days))

    def _paths(self, table: str, days: Iterable[date] | None) -> list[str]:
        paths = self.files.get(table, {})
        wanted = paths if days is None else [day.isoformat() for day in days]
        return [path for day in sorted(wanted) for path in paths.get(day, ())]

    def stored_hours(self, table: str, hours: Collection[int]) -> DataFrame:
        """Return the stored rows of a table for these hours; not for tables that are made from a day or more."""
        return self.stored(table, by_day(hours)).where(in_hours(F.col(_hour_of(table)), hours))

    def write_hours(self, results: Results, hours: Collection[int]) -> None:
        """Replace the rows of these hours in the files of results.

        Files have whole days: rows of other hours of these days are copied.
        """
        days = by_day(hours)
        partly = [day for day, members in days.items() if len(members) < len(hours_of_day(day))]
        for name, frame in results.items():
            there = [day for day in partly if day.isoformat() in self.files.get(name, {})]
            if there:
                others = self.stored(name, there).where(~in_hours(F.col(_hour_of(name)), hours))
                frame = others if frame is None else frame.unionByName(others)
            self._write_suited(name, frame, days)

    def write_days(self, results: Results, days: Collection[date]) -> None:
        """Replace the rows of these days in the files of results."""
        for name, frame in results.items():
            self._write_suited(name, frame, days)

    def write_whole(self, results: Results) -> None:
        """Replace tables that are not by day."""
        for name, frame in results.items():
            self._write_suited(name, frame, [])

    def drop(self, day: date) -> None:
        for paths in self.files.values():
            paths.pop(day.isoformat(), None)

    def _write_suited(self, name: str, frame: DataFrame | None, days: Collection[date]) -> None:
        """Write a table by a query that suits the size of the tables that it is made of."""
        if frame is None or name not in MADE_OF:
            self._write(name, frame, days)
            return
        with for_results(self._spark, self.size_of(MADE_OF[name], days or None)):
            self._write(name, frame, days)

    def _write(self, name: str, frame: DataFrame | None, days: Iterable[date]) -> None:
        table = NOTHING_WRITTEN
        if frame is not None:
            self._spark.sparkContext.setJobDescription(name)
            # A day may be written again, with rows of its files.
            table = write_table(frame, name, self._results, f"{self._began}-{secrets.token_hex(4)}")
        log.debug("%s: %d rows in %d files", name, table.rows, sum(map(len, table.files.values())))
        paths = self.files.setdefault(name, {})
        for replaced in [day.isoformat() for day in days] if result_tables()[name].is_by_day else [WHOLE]:
            paths.pop(replaced, None)
        paths.update(table.files)
        self._sums.update(table.sums)
        self._sizes.update(table.sizes)
        self.rows[name] = self.rows.get(name, 0) + table.rows


def _hour_of(table: str) -> str:
    column = result_tables()[table].hour_of
    assert column is not None, f"{table} is not made from hours"
    return column
