"""Cost of building results of an audit log.

Call: `.venv/bin/python -m benchmarks.audit.audit_build`; `--write` keeps the figures.

A week of events is made up for each size, and built by Spark (local[2]) and by DuckDB. DuckDB computes the same results
from the same files, with the SQL that tests compare results with. Each works in a separate process, and they take
turns. Cold is the time from the start of the process to its first results; warm are the later rounds in the same
process, each from scratch. A ratio is taken within each round, and the table gives the median with its least and
greatest.

The results of Spark are compared with what was made up, and the tables of both must have the same numbers of rows.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.brokers.rows import ROOT, machine
from tests.support.audit.audit_weeks.finding import not_found
from tests.support.audit.audit_weeks.week import Week, write_week

RESULTS = Path(__file__).parents[1] / "results"
SIZES: Final = (5_000_000, 50_000_000)
ROUNDS: Final = 3
CORES: Final = 2
HEAP: Final = "1g"
DUCKDB_MEMORY: Final = "12GB"
SEGMENT_EVENTS: Final = 115_000
"""Number of events in a spool of 16 MB."""
SUBJECTS: Final = ("spark", "duckdb")


@dataclass(slots=True)
class Measured:
    """Seconds of one subject at one size, its processor time in each warm round, and its peak memory in MB.

    `memory_mb` belongs to the process itself (Spark's driver in Python, or DuckDB), `jvm_mb` to the JVM.
    """

    cold_s: float = 0.0
    warm_s: list[float] = field(default_factory=list)
    processor_s: list[float] = field(default_factory=list)
    memory_mb: float = 0.0
    jvm_mb: float = 0.0
    rows: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Size:
    """Measurements of one week."""

    events: int
    files: int
    megabytes: float
    load: float
    subjects: dict[str, Measured]

    @property
    def ratios(self) -> list[float]:
        spark, duckdb = (self.subjects[name].warm_s for name in SUBJECTS)
        return [ours / theirs for ours, theirs in zip(spark, duckdb, strict=True)]


class Worker:
    """A process that builds results on request."""

    def __init__(self, subject: str, segments: Path, week: Week) -> None:
        arguments = (subject, str(segments), str(week.now_us))
        self.began_s = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.audit.audit_build_worker", *arguments],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def build(self, into: Path) -> dict[str, Any]:
        """Build into a folder, and return the reply: tables and their rows.

        Raises RuntimeError if the process ended instead.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{into}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the process that builds ended with exit code {self._process.wait()}")
        told: dict[str, Any] = json.loads(line)
        return told

    def processor_s(self) -> float:
        """Processor time of the process and all its descendants."""
        return sum(processor_s_of(pid) for pid in self._pids())

    def memory_mb(self) -> tuple[float, float]:
        """Peak memory of the process, and peak memory of its JVM."""
        pids = {pid: _name(pid) for pid in self._pids()}
        own = _memory_mb(self._process.pid)
        return own, max((_memory_mb(pid) for pid, name in pids.items() if name == "java"), default=0.0)

    def _pids(self) -> list[int]:
        found, new = [], [self._process.pid]
        while new:
            found += new
            new = [child for pid in new for child in children(pid)]
        return found

    def close(self) -> None:
        """Close the input of the process, which ends it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser("benchmarks.audit.audit_build")
    parser.add_argument("--events", type=int, nargs="+", default=list(SIZES), help="sizes of weeks, the least first")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="warm ones")
    parser.add_argument("--folder", type=Path, help="where a folder is made for it and removed; else the system's")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/audit-build.{json,md}")
    given = parser.parse_args(arguments)
    sizes = []
    for events in sorted(given.events):
        with tempfile.TemporaryDirectory(prefix="sluicegate-audit-build-", dir=given.folder) as folder:
            sizes.append(_measure(events, given.rounds, Path(folder)))
        print("\n".join(_lines(sizes[-1])), flush=True)
    text = _table(sizes)
    print(text)
    if given.write:
        figures = {"machine": _machine(), "heap": HEAP, "sizes": [asdict(size) for size in sizes]}
        (RESULTS / "audit-build.json").write_text(json.dumps(figures, indent=1) + "\n")
        (RESULTS / "audit-build.md").write_text(text + "\n")
    return 0


def week_of(events: int) -> Week:
    """Return a week without faults: the subjects would not read the same events of damaged files."""
    week = Week(events=events, spoils=(), is_mixed=False, inventory_hours=6)
    segments = round(events / (week.clusters * week.brokers * week.days * SEGMENT_EVENTS))
    return replace(week, segments=max(2, segments))


def _measure(events: int, rounds: int, folder: Path) -> Size:
    week, segments = week_of(events), folder / "segments"
    truth = write_week(week, segments)
    files = list(segments.rglob("*.parquet"))
    size = Size(
        truth.events,
        len(files),
        sum(path.stat().st_size for path in files) / 1e6,
        os.getloadavg()[0],
        {name: Measured() for name in SUBJECTS},
    )
    print(f"{truth.events:,} events in {size.files} files of {size.megabytes:,.0f} MB", flush=True)
    with _workers(size, segments, week, folder) as workers:
        for number in range(rounds):
            # Reverse the order in each round.
            for name in SUBJECTS if number % 2 else SUBJECTS[::-1]:
                measured, worker = size.subjects[name], workers[name]
                before_s, began_s = worker.processor_s(), time.perf_counter()
                worker.build(folder / f"{name}-{number}")
                measured.warm_s.append(time.perf_counter() - began_s)
                measured.processor_s.append(worker.processor_s() - before_s)
                print(f"round {number + 1}: {name} {measured.warm_s[-1]:.1f} s", flush=True)
        for name, worker in workers.items():
            size.subjects[name].memory_mb, size.subjects[name].jvm_mb = worker.memory_mb()
    spark, duckdb = (size.subjects[name].rows for name in SUBJECTS)
    if different := {table: (spark.get(table), rows) for table, rows in duckdb.items() if spark.get(table) != rows}:
        raise RuntimeError(f"they do not have the same numbers of rows: {different}")
    _check(truth, folder / "spark-cold")
    return size


@contextmanager
def _workers(size: Size, segments: Path, week: Week, folder: Path) -> Iterator[dict[str, Worker]]:
    """Start both workers. Each has built once, one after the other."""
    workers: dict[str, Worker] = {}
    try:
        for name in SUBJECTS:
            workers[name] = worker = Worker(name, segments, week)
            told = worker.build(folder / f"{name}-cold")
            measured = size.subjects[name]
            measured.cold_s = time.perf_counter() - worker.began_s
            measured.rows = told["rows"]
            print(f"cold: {name} {measured.cold_s:.1f} s", flush=True)
        yield workers
    finally:
        for worker in workers.values():
            worker.close()


def _check(truth: Any, results: Path) -> None:
    from audit_pipeline.report.asking import PublishedTables  # noqa: PLC0415
    from audit_pipeline.spool.targets import open_target  # noqa: PLC0415

    if wrong := not_found(truth, PublishedTables(open_target(str(results))).ask):
        raise RuntimeError(f"what was found is not what was made up: {wrong}")


def _lines(size: Size) -> Iterator[str]:
    yield f"load of the machine before: {size.load:.0f}"
    for name, measured in size.subjects.items():
        jvm = f" and a JVM of {measured.jvm_mb:.0f} MB" if measured.jvm_mb else ""
        yield (
            f"{name}: cold {measured.cold_s:.1f} s, warm {median(measured.warm_s):.1f} s, "
            f"{median(measured.processor_s):.1f} s of processors, {measured.memory_mb:.0f} MB{jvm}"
        )


def _table(sizes: Sequence[Size]) -> str:
    lines = [
        "# Building results: Spark beside DuckDB",
        "",
        f"{_machine()}; local[{CORES}], {HEAP} of heap for Spark, {CORES} threads and {DUCKDB_MEMORY} for DuckDB; "
        "medians of the warm rounds, ratios within a round (least to greatest).",
        "",
        "| events | files | | cold | warm | events/s a core, warm | processor | memory | Spark / DuckDB, warm | cold |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for size in sizes:
        for name in SUBJECTS:
            lines.append(f"| {' | '.join(_cells(size, name))} |")
    if len(sizes) > 1:
        first, last = sizes[0], sizes[-1]
        growth = ", ".join(
            f"{name} {median(last.subjects[name].warm_s) / median(first.subjects[name].warm_s):.1f}"
            for name in SUBJECTS
        )
        lines += ["", f"{last.events / first.events:.1f} times the events take so many times as long: {growth}."]
    return "\n".join(lines)


def _machine() -> str:
    """Describe the machine without the Kafka clients, which are not used here."""
    return machine().rpartition(";")[0]


def _cells(size: Size, name: str) -> list[str]:
    measured = size.subjects[name]
    warm_s = median(measured.warm_s)
    is_ours = name == "spark"
    other = size.subjects["duckdb"]
    ratios = size.ratios
    jvm = f", JVM {measured.jvm_mb:,.0f} MB" if is_ours else ""
    return [
        f"{size.events:,}",
        f"{size.files:,}, {size.megabytes:,.0f} MB",
        name,
        f"{measured.cold_s:.1f} s",
        f"{warm_s:.1f} s ({min(measured.warm_s):.1f} to {max(measured.warm_s):.1f})",
        f"{size.events / warm_s / CORES:,.0f}",
        f"{median(measured.processor_s):.1f} s",
        f"{measured.memory_mb:,.0f} MB{jvm}",
        f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})" if is_ours else "",
        f"{measured.cold_s / other.cold_s:.2f}" if is_ours else "",
    ]


def children(pid: int) -> list[int]:
    try:
        tasks = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for text in tasks for child in text.split()]


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _memory_mb(pid: int) -> float:
    """Peak memory of the process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM")), 0.0)


def processor_s_of(pid: int) -> float:
    """Processor time of the process and of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
