"""Builds of results as tests make them, and results as a reader of the manifest finds them."""

import threading
import time
from datetime import date
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import pyarrow as pa
from pyspark.sql import SparkSession

from audit_pipeline.jobs.build import BuildRequest, build
from audit_pipeline.jobs.progress import Progress
from audit_pipeline.reading.published import Manifest, read_manifest, result_schema, table_of
from audit_pipeline.results.settings import Settings
from audit_pipeline.results.tables import result_tables
from audit_pipeline.sources.landed import LandedSegments
from audit_pipeline.spool.targets import FolderTarget, open_target

_POLL_S: Final = 0.2


def built(
    spark: SparkSession,
    source: Path | str,
    results: Path | str,
    now_us: int,
    settings: Settings,
    *,
    last: date | None = None,
    is_daily: bool = False,
) -> Manifest:
    """Build results from folders or URIs, for the days up to `last`; None for all days.

    `is_daily`: limits are recommended once a day.
    """
    request = BuildRequest(str(results), settings, now_us, last=last, recommends_daily=is_daily)
    return build(
        spark,
        request,
        lambda remembered: LandedSegments([str(source)], remembered, now_us),
        Progress(time.monotonic),
    )


def published(results: Path | str) -> dict[str, pa.Table]:
    """Every table as the current manifest names it."""
    manifest = read_manifest(open_target(str(results)))
    assert manifest is not None, f"nothing is published in {results}"
    return tables_of(results, manifest)


def tables_of(results: Path | str, manifest: Manifest) -> dict[str, pa.Table]:
    target = open_target(str(results))
    return {name: table_of(target, manifest, name, result_schema(name)).to_table() for name in result_tables()}


class ManifestReader:
    """A thread that reads the published results again and again while the context lasts.

    `versions` are the tables of each version seen. Leaving the context raises the error of a failed read.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._stopped = threading.Event()
        self._has_read = threading.Condition()
        self._thread = threading.Thread(target=self._read, name="reader of results")
        self._error: BaseException | None = None
        self.versions: dict[str, dict[str, pa.Table]] = {}
        self.readings = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, _: TracebackType | None) -> None:
        self._stopped.set()
        self._thread.join()
        if self._error is not None and value is None:
            raise self._error

    def read_again(self, within_s: float) -> bool:
        """Whether all tables have been read once more from the start within so many seconds."""
        with self._has_read:
            wanted = self.readings + 2
            return self._has_read.wait_for(lambda: self.readings >= wanted or self._error is not None, within_s)

    def _read(self) -> None:
        try:
            while not self._stopped.wait(_POLL_S):
                manifest = read_manifest(FolderTarget(self._results))
                if manifest is not None:
                    tables = tables_of(self._results, manifest)
                    before = self.versions.setdefault(manifest.version, tables)
                    counts = {name: table.num_rows for name, table in tables.items()}
                    assert counts == {name: table.num_rows for name, table in before.items()}, manifest.version
                    with self._has_read:
                        self.readings += 1
                        self._has_read.notify_all()
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread of the test
            self._error = error
            with self._has_read:
                self._has_read.notify_all()
