"""One of the two subjects of benchmarks.audit.audit_build.

Call: `python -m benchmarks.audit.audit_build_worker SUBJECT DIR NOW_US`.

For each line of its input it builds the results of DIR from scratch, and replies with a line of JSON. The line names
the folder for the tables, which both subjects write as Parquet. SUBJECT is spark or duckdb.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TextIO

from audit_pipeline.results.settings import Objective, Prices, Settings
from audit_pipeline.results.tables import result_tables
from benchmarks.audit.audit_build import DUCKDB_MEMORY, HEAP
from tests.support.audit.audit_weeks.week import Week

MASTER = "local[2]"
DUCKDB: Final[Mapping[str, str | int]] = {"threads": 2, "memory_limit": DUCKDB_MEMORY}
"""DuckDB's default limit is four fifths of the machine's memory; with it, 50 million events get the process killed."""
PRICES = Prices("EUR", {"ingress": 0.02, "egress": 0.05, "requests": 0.2, "storage": 0.1, "partitions": 0.001})
OBJECTIVES = (Objective("produce", "Produce", 5.0, 0.99), Objective("fetch", "Fetch", 50.0, 0.99))
Rows = dict[str, int]
"""Number of rows by table of results."""


def main(subject: str, segments: str, now_us: int) -> None:
    settings = Settings(PRICES, OBJECTIVES, Week().mirrors)
    serve = _spark if subject == "spark" else _duckdb
    # The JVM's standard output must not mix with the replies, so it is redirected to standard error.
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        serve(segments, now_us, settings, answers)


def _serve(build: Callable[[str], Rows], answers: TextIO) -> None:
    for line in sys.stdin:
        rows = build(line.strip())
        print(json.dumps({"rows": rows}), file=answers, flush=True)


def _spark(segments: str, now_us: int, settings: Settings, answers: TextIO) -> None:
    from audit_pipeline.jobs.build import BuildRequest, build  # noqa: PLC0415
    from audit_pipeline.jobs.progress import Progress  # noqa: PLC0415
    from audit_pipeline.jobs.session import spark_session  # noqa: PLC0415
    from audit_pipeline.sources.landed import LandedSegments  # noqa: PLC0415

    with spark_session("benchmark", {"spark.master": MASTER, "spark.driver.memory": HEAP}) as spark:

        def built(results: str) -> Rows:
            request = BuildRequest(results, settings, now_us)
            manifest = build(
                spark,
                request,
                lambda remembered: LandedSegments([segments], remembered, now_us),
                Progress(time.monotonic),
            )
            rows: Rows = manifest.summary["rows"]
            return rows

        _serve(built, answers)


def _duckdb(segments: str, now_us: int, settings: Settings, answers: TextIO) -> None:
    from tests.support.audit.audit_oracle.oracle import computed_results  # noqa: PLC0415

    def built(results: str) -> Rows:
        folder = Path(results)
        folder.mkdir()
        config = {**DUCKDB, "temp_directory": str(folder / "spilled")}
        with computed_results(Path(segments), now_us, settings, config) as asked:
            rows = {}
            for name in result_tables():
                asked.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet, COMPRESSION zstd)")
                ((rows[name],),) = asked.execute(f"SELECT count(*) FROM {name}").fetchall()
            return rows

    _serve(built, answers)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
