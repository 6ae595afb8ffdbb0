"""Files of a folder as Spark writes and reads them, whatever their names are."""

from datetime import date
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from audit_pipeline.jobs.computing import MADE_OF
from audit_pipeline.jobs.result_files import ResultFiles
from audit_pipeline.jobs.store import write_table
from audit_pipeline.results.frames import result_schema
from audit_pipeline.results.tables import Kind, result_tables
from audit_pipeline.sources.parquet_files import WantedFile, frame_of


def test_no_row_is_lost_to_the_name_of_its_folder_or_file(spark: SparkSession, tmp_path: Path) -> None:
    results = tmp_path / "re sults%20[1]"
    results.mkdir()
    schema = result_schema("quarantine")
    row = ("a path", "corrupt", *[None] * (len(schema) - 2))
    written = write_table(spark.createDataFrame([row], schema), "quarantine", str(results), "20240508T000000-0badcafe")
    assert written.rows == 1
    (path,) = next(iter(written.files.values()))
    draft = "quarantine/_c-1-b-00000001-00000002.parquet"
    pq.write_table(pq.read_table(results / path), results / draft)
    files = [WantedFile(path, 0), WantedFile(draft, 0)]
    assert frame_of(spark, str(results), files, schema).count() == len(files)


def test_the_size_of_results_is_that_of_former_and_of_new_files(spark: SparkSession, tmp_path: Path) -> None:
    days = {"2026-11-20": ("usage/event_date=2026-11-20/a",), "2026-11-21": ("usage/event_date=2026-11-21/b", "c")}
    sizes = {"usage/event_date=2026-11-20/a": 5, "usage/event_date=2026-11-21/b": 7, "c": 11}
    files = ResultFiles(spark, str(tmp_path), "20261122T000000", {"usage": days}, {}, sizes)
    assert files.size_of(["usage", "latency_hist"]) == sum(sizes.values())
    assert files.size_of(["usage"], [date(2026, 11, 21), date(2026, 11, 22)]) == 7 + 11
    schema = result_schema("quarantine")
    row = ("a path", "corrupt", *[None] * (len(schema) - 2))
    files.write_whole({"quarantine": spark.createDataFrame([row], schema)})
    (written,) = tmp_path.glob("quarantine/*.parquet")
    assert files.size_of(["quarantine"]) == written.stat().st_size > 0


def test_every_result_names_the_tables_that_it_is_made_of() -> None:
    results = {name for name, table in result_tables().items() if table.kind is not Kind.FACT}
    of_connections = {"recommended_limits", "tried_limits", "what_if"}
    assert set(MADE_OF) >= results - of_connections
    assert set().union(*MADE_OF.values()) <= set(result_tables())
