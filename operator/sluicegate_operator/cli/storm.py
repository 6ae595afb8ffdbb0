"""`sluicegate storm`: a load that people can test their own connection limits with."""

import json
import resource
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from types import FrameType
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from sluicegate_operator.cli.options import Output
from sluicegate_operator.cli.storm_load import Storm, StormPlan
from sluicegate_operator.cli.storm_report import Outcome, StormReport
from sluicegate_operator.cli.storm_targets import StormInputError, check_target_allowed, parse_sources, parse_target

OTHER_FILES = 64
"""Descriptors left for everything that is no storm socket."""


@dataclass(frozen=True, slots=True)
class StormOptions:
    """The options of `sluicegate storm` as they were given."""

    to: str
    rate: float
    workers: int | None
    sources: str
    seconds: float
    timeout_s: float
    max_open: int
    owned: bool


def plan_storm(options: StormOptions) -> StormPlan:
    """Raises StormInputError with what to write instead."""
    host, port = parse_target(options.to)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise StormInputError(f"--to {host}: the name cannot be resolved: {error.strerror}") from None
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    check_target_allowed(addresses, host, owned=options.owned)
    return StormPlan(
        address=addresses[0],
        port=port,
        seconds=options.seconds,
        rate=None if options.workers else options.rate,
        workers=options.workers,
        sources=parse_sources(options.sources),
        timeout_s=options.timeout_s,
        max_open=max(1, min(options.max_open, _descriptors_allowed() - OTHER_FILES)),
    )


def _descriptors_allowed() -> int:
    """Raises the soft limit to the hard one first, which any process may do."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return 1 << 20 if hard == resource.RLIM_INFINITY else hard


def storm(
    to: Annotated[str, typer.Option(help="HOST:PORT of the listener.")],
    rate: Annotated[
        float, typer.Option(min=0.1, max=1_000_000, help="Attempts a second, whatever the answers (open loop).")
    ] = 100.0,
    workers: Annotated[
        int | None, typer.Option(min=1, max=4096, help="Instead of a rate: each worker tries again when answered.")
    ] = None,
    sources: Annotated[str, typer.Option(help="Addresses to come from in turn, such as 127.0.1.1-127.0.1.8.")] = "",
    seconds: Annotated[float, typer.Option(min=0.1, help="How long.")] = 10.0,
    timeout: Annotated[float, typer.Option(min=0.05, help="Seconds to wait for each answer.")] = 2.0,
    max_open: Annotated[int, typer.Option(min=1, help="Most sockets open at once.")] = 4096,
    output: Annotated[Output, typer.Option("-o", "--output")] = Output.TABLE,
    yes_i_own_this_target: Annotated[
        bool, typer.Option("--yes-i-own-this-target", help="Needed for a target that is not loopback.")
    ] = False,
) -> None:
    options = StormOptions(to, rate, workers, sources, seconds, timeout, max_open, yes_i_own_this_target)
    try:
        plan = plan_storm(options)
    except StormInputError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(2) from None
    report = _run(plan, quiet=output is Output.JSON)
    if output is Output.JSON:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        Console().print(storm_table(report))
        Console().print(storm_summary(report), highlight=False)
    total = report.total
    if total.attempts == total[Outcome.LOCAL_ERROR] + total[Outcome.REFUSED]:
        print(f"no attempt reached {report.target}; is a broker listening there?", file=sys.stderr)
        raise typer.Exit(1)


def _run(plan: StormPlan, *, quiet: bool) -> StormReport:
    load = Storm(plan)

    def stop(_signal: int, _frame: FrameType | None) -> None:
        load.stop.set()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    if quiet or not sys.stderr.isatty():
        return load.run()
    # An IPv6 address in its brackets would be markup.
    target = escape(plan.target)
    runner = threading.Thread(target=load.run, name="storm")
    runner.start()
    with Console(stderr=True).status(f"storm on {target}") as line:
        while runner.is_alive():
            runner.join(0.2)
            total = load.report.total
            line.update(f"storm on {target}: {total.attempts} attempts, {total[Outcome.ACCEPTED]} accepted")
    return load.report


def storm_table(report: StormReport) -> Table:
    table = Table(title=f"Storm on {escape(report.target)}, {report.elapsed_s:.1f} s")
    table.add_column("source")
    for heading in ("attempts", "accepted", "closed", "refused", "timed out", "local error"):
        table.add_column(heading, justify="right")
    rows = [(source or "any", counts) for source, counts in sorted(report.sources.items())]
    if len(rows) > 1:
        rows.append(("all", report.total))
    for source, counts in rows:
        table.add_row(source, str(counts.attempts), *(str(counts[outcome]) for outcome in Outcome))
    return table


def storm_summary(report: StormReport) -> str:
    shown = report.as_dict()
    latency = shown["latency_ms"]
    parts = [f"{shown['attempts_per_second']} attempts/s"]
    if isinstance(latency, dict) and latency:
        parts.append("connect to answer: " + ", ".join(f"{name} {value} ms" for name, value in latency.items()))
    if report.skipped:
        parts.append(f"{report.skipped} attempts skipped: as many sockets were open as --max-open allows")
    if report.unfinished:
        parts.append(f"{report.unfinished} unanswered at the end")
    parts += [f"{count} attempts failed on this machine: {reason}" for reason, count in report.local_errors.items()]
    return "\n".join(parts)
