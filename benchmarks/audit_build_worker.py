"""One of the two that benchmarks.audit_build compares: `python -m benchmarks.audit_build_worker SUBJECT DIR NOW_US`.

For each line that it is told it builds results of DIR anew, and answers with a line of JSON. Spark publishes into the
folder that the line names; DuckDB keeps its tables in memory. SUBJECT is spark or duckdb.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TextIO

from audit_pipeline.results.settings import Objective, Prices, Settings
from tests.support.audit_weeks.week import Week

MASTER, HEAP, THREADS = "local[2]", "1g", 2
PRICES = Prices("EUR", {"ingress": 0.02, "egress": 0.05, "requests": 0.2, "storage": 0.1, "partitions": 0.001})
OBJECTIVES = (Objective("produce", "Produce", 5.0, 0.99), Objective("fetch", "Fetch", 50.0, 0.99))
Rows = dict[str, int]
"""Of each table of results."""


def main(subject: str, segments: str, now_us: int) -> None:
    settings = Settings(PRICES, OBJECTIVES, Week().mirrors)
    serve = _spark if subject == "spark" else _duckdb
    # What a JVM has to say on its standard output is no answer.
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
    from tests.support.audit_oracle.oracle import audit_results  # noqa: PLC0415

    def built(_: str) -> Rows:
        tables = audit_results(Path(segments), now_us, settings, THREADS)
        return {name: table.num_rows for name, table in tables.items()}

    _serve(built, answers)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
