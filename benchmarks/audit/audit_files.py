"""Memory of a build's driver that scans many files: `.venv/bin/python -m benchmarks.audit.audit_files --files 100000`.

Segments of five rows are written, one a minute for each of three brokers. Another process scans them as a first build
does, remembers them, and scans them as the next build does. Figures: its processor time and its peak memory. Spark is
not started: its heap has a fixed size.
"""

import argparse
import io
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from audit_pipeline.spool.segment import Footer, folder_of, packed, segment_name
from tests.support.audit.audit_weeks.truth import Truth
from tests.support.audit.audit_weeks.week import Week, landed
from tests.support.processes.broker_process import ROOT

BROKERS: Final = 3
ROWS: Final = 5
MINUTE_US: Final = 60_000_000
WEEK: Final = Week(
    days=1, hours=1, segments=2, events=400, storm=0, spoils=(), clusters=1, brokers=1, is_mixed=False
)  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.audit.audit_files")
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="where a folder is made for it and removed; else the system's")
    parser.add_argument("--scan", type=Path, help="scan this folder only, in this process")
    given = parser.parse_args(arguments)
    if given.scan is not None:
        scan(given.scan)
        return 0
    with tempfile.TemporaryDirectory(prefix="sluicegate-audit-files-", dir=given.folder) as folder:
        made = write_files(given.files, Path(folder))
        print(f"{made:,} files", flush=True)
        command = [sys.executable, "-m", "benchmarks.audit.audit_files", "--scan", folder]
        subprocess.run(command, cwd=ROOT, check=True)
    return 0


def write_files(count: int, folder: Path) -> int:
    """Write about so many files; return their number."""
    tables: dict[str, pa.Table] = {}
    for file in landed(WEEK, Truth(WEEK.now_us)):
        tables.setdefault(file.path.partition("/")[0], pq.read_table(io.BytesIO(file.data)).slice(0, ROWS))
    told = {table: rows.num_rows for table, rows in tables.items()}
    segments = count // len(tables)
    for number in range(segments):
        place, broker = divmod(number, BROKERS)
        opened_us = WEEK.first_us + place * MINUTE_US
        spools, numbers = (place, place), (place * ROWS + 1, (place + 1) * ROWS)
        footer = Footer(
            1, "cluster", broker, "boot", spools, *numbers, opened_us, opened_us + MINUTE_US, "next", told
        )  # fmt: skip
        for table, rows in tables.items():
            path = folder / folder_of(table, opened_us) / segment_name("cluster", broker, "boot", f"{place:08d}")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(packed(_at(rows, opened_us), footer))
    return segments * len(tables)


def _at(rows: pa.Table, us: int) -> pa.Table:
    place = rows.schema.get_field_index("ts")
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.array([us] * len(rows), field.type))


def scan(folder: Path) -> None:
    from audit_pipeline.sources.landed import LandedSegments  # noqa: PLC0415

    remembered, now_us = None, WEEK.first_us + 10**15
    for name in ("first scan", "next scan"):
        began_s = time.process_time()
        found = LandedSegments([str(folder)], remembered, now_us)
        hours = found.touched
        told = {"rows": found.rows_of(hours), "holes": len(found.holes(now_us)), "setAside": len(found.set_aside)}
        found.settle(hours)
        remembered = found.remembered()
        taken = {"processor_s": round(time.process_time() - began_s, 1), "peak_mb": round(_peak_mb())}
        print(f"{name}: {json.dumps({**taken, **told})}", flush=True)


def _peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


if __name__ == "__main__":
    sys.exit(main())
