"""Files of a folder as Spark writes and reads them, whatever their names are."""

from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from audit_pipeline.jobs.store import write_table
from audit_pipeline.results.frames import result_schema
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
