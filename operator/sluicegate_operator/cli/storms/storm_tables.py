"""The reports of storms as tables for a terminal. Pure."""

from collections.abc import Mapping
from typing import Any

from rich.markup import escape
from rich.table import Table

from sluicegate_operator.cli.storms.storm_report import AttemptOutcome, StormReport

_HEADINGS = ("attempts", "accepted", "closed", "refused", "timed out", "local error")


def storm_table(report: StormReport) -> Table:
    """Return a table with a row for each source address."""
    table = Table(title=f"Storm on {escape(report.target)}, {report.elapsed_s:.1f} s")
    table.add_column("source")
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    rows = [(source or "any", counts) for source, counts in sorted(report.sources.items())]
    if len(rows) > 1:
        rows.append(("all", report.total))
    for source, counts in rows:
        table.add_row(source, str(counts.attempts), *(str(counts[outcome]) for outcome in AttemptOutcome))
    return table


def storm_summary(report: StormReport) -> str:
    shown = report.as_dict()
    latency = shown["latency_ms"]
    parts = [f"{shown['attempts_per_second']} attempts/s"]
    if isinstance(latency, dict) and latency:
        parts.append("connect to response: " + ", ".join(f"{name} {value} ms" for name, value in latency.items()))
    if report.skipped:
        parts.append(f"{report.skipped} attempts skipped: the number of open sockets had reached --max-open")
    if report.unfinished:
        parts.append(f"{report.unfinished} attempts without a response at the end")
    parts += [f"{count} attempts failed on this machine: {reason}" for reason, count in report.local_errors.items()]
    return "\n".join(parts)


def pods_table(reports: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return a table with a row for each pod.

    Reports have the form of `sluicegate storm -o json`, with the pod's address.
    """
    target = next(iter(reports.values()))["target"]
    table = Table(title=f"Storm on {escape(target)} from pods")
    for heading in ("pod", "address"):
        table.add_column(heading, no_wrap=True)
    for heading in (*_HEADINGS, "p99 ms"):
        table.add_column(heading, justify="right")
    for name, report in sorted(reports.items()):
        counts = [str(report[outcome.value]) for outcome in AttemptOutcome]
        slow = report["latency_ms"].get("p99")
        table.add_row(name, report["address"], str(report["attempts"]), *counts, "-" if slow is None else f"{slow:g}")
    return table
