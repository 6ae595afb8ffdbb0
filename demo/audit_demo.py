"""`make audit-demo`: builds a report of a made-up week of an audit log, and checks that it finds what was made up.

    python -m demo.audit_demo [--events 1000000]

The segments contain typical faults: a torn file, a missing file, events that a broker dropped, and wrong clocks. Then
`audit build` and `audit report` run as processes, and their results are compared with what was made up.

Exit code 0 if all results are right, 1 otherwise. The demo writes only the report outside a temporary folder.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from audit_pipeline.report.asking import PublishedTables
from audit_pipeline.spool.targets import open_target
from demo.stage import DemoError
from tests.support.audit.audit_weeks.finding import not_found
from tests.support.audit.audit_weeks.truth import Truth
from tests.support.audit.audit_weeks.week import Week, landed, put

EVENTS = 1_000_000
REPORT = Path("reports") / "audit-demo.html"
SPOILS = ("skewed", "torn", "version", "hole", "late", "copied", "merged", "gap")
"""The faults that do not depend on when results are built."""
SETTINGS = {
    "prices": {
        "currency": "EUR",
        "ingress_per_gib": 0.02,
        "egress_per_gib": 0.05,
        "requests_per_million": 0.2,
        "storage_per_gib_month": 0.1,
        "partition_per_hour": 0.001,
    },
    "objectives": {"objectives": [{"name": "messages are taken", "api": "Produce", "latency_ms": 5, "target": 0.99}]},
}


class Times:
    """Durations of the demo's steps, in seconds by name, recorded when each step ends."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str, sentence: str) -> Iterator[None]:
        self._console.print(f"[bold]==[/] {sentence}", highlight=False)
        began_s = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - began_s


def week_of(events: int, now: datetime) -> Week:
    """Return a week of the seven days before today."""
    return Week(events=events, spoils=SPOILS, first_day=now.date() - timedelta(days=7))


def write_settings(week: Week, folder: Path) -> list[str]:
    """Write the settings as JSON files, and return the command-line options that name them."""
    mirrors = [{**asdict(mirror), "topics": list(mirror.topics)} for mirror in week.mirrors]
    options = []
    for name, settings in {**SETTINGS, "mirrors": {"mirrors": mirrors}}.items():
        path = folder / f"{name}.json"
        path.write_text(json.dumps(settings))
        options += [f"--{name}", str(path)]
    return options


def play(console: Console, events: int, folder: Path) -> list[str]:
    """Play the demo, and return a sentence for each wrong result. Raises DemoError if results are missing."""
    week, times = week_of(events, datetime.now(UTC)), Times(console)
    segments, results = folder / "segments", folder / "results"
    with times.step("segments", f"generating segments with a week of about {events:,} requests of two clusters"):
        truth = write(console, week, segments)
    with times.step("build", f"`audit build` reads {truth.events:,} events (Spark)"):
        run("build", "--source", str(segments), "--results", str(results), *write_settings(week, folder))
    with times.step("report", "`audit report`"):
        REPORT.parent.mkdir(exist_ok=True)
        run("report", "--results", str(results), "--days", str(week.days + 1), "--out", str(REPORT))
    with times.step("check", "comparing the results with the generated data"):
        wrong = not_found(truth, PublishedTables(open_target(str(results))).ask)
    took = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in times.seconds.items())
    console.print(f"{took}: {sum(times.seconds.values()):.0f} s", highlight=False)
    rate = truth.events / times.seconds["build"]
    console.print(f"the build, with its start, processed {rate:,.0f} events a second", highlight=False)
    console.print(f"the report: {REPORT.resolve()}", highlight=False, markup=False, soft_wrap=True)
    return wrong


def write(console: Console, week: Week, folder: Path) -> Truth:
    truth = Truth(week.now_us)
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("segments", total=week.events)
        for file in landed(week, truth):
            put(file, folder)
            progress.update(task, completed=min(truth.events, week.events))
    return truth


def run(*arguments: str) -> None:
    """Run a command of the pipeline, which prints its own progress. Raises DemoError if it fails."""
    code = subprocess.run([sys.executable, "-m", "audit_pipeline", *arguments], check=False).returncode
    if code != 0:
        raise DemoError(f"`sluicegate audit {arguments[0]}` ended with exit code {code}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        "demo.audit_demo", description="Process a generated audit log with the whole pipeline."
    )
    parser.add_argument("--events", type=int, default=EVENTS)
    given = parser.parse_args(arguments)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="sluicegate-audit-demo-") as folder:
        try:
            wrong = play(console, given.events, Path(folder))
        except DemoError as error:
            console.print(f"[red]the demo failed:[/] {error}", highlight=False)
            return 1
        except KeyboardInterrupt:
            console.print("stopped; every process has ended")
            return 130
    for sentence in wrong:
        console.print(f"[red]wrong:[/] {sentence}", highlight=False)
    if not wrong:
        console.print("[green]the storm's source, idle topics, bytes and missing events match the generated data[/]")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
