"""`sluicegate audit`: the audit logs of `sluicegate up` by their data folder, and of other brokers by their folders.

This process becomes `python -m audit_pipeline`, which does the work: the packages share no behaviour.
"""

import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sluicegate_operator.cli.options import DATA_DIR, ClusterOption, DataDirOption
from sluicegate_operator.fleet.local.local_data import DataDirError
from sluicegate_operator.local.audit import LocalAudit, find_local_audit

BAD_USE = 2
_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
"""All arguments, also --help, are passed to the other program."""

JsonOption = Annotated[bool, typer.Option("--json", help="Print one line of JSON for each.")]


class AnswerOutput(StrEnum):
    """The forms of the answers to an SQL query."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


audit = typer.Typer(no_args_is_help=True)


@audit.command()
def tail(
    spools: Annotated[
        list[Path] | None,
        typer.Argument(help="Folders to which brokers write spools; by default those of `sluicegate up`."),
    ] = None,
    data_dir: DataDirOption = DATA_DIR,
    cluster: ClusterOption = None,
    table: Annotated[
        list[str] | None, typer.Option("--table", help="Show only these tables: request, partition, ...")
    ] = None,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Show the events that are already in the spools, too.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop after the events that exist now.")] = False,
    json: JsonOption = False,
) -> None:
    """Show events when brokers write them, until Ctrl-C."""
    folders = spools or _found(data_dir, cluster).spools
    options = [*_flag("--from-start", from_start), *_flag("--once", once), *_flag("--json", json)]
    _become("tail", *_each("--table", table or ()), *options, "--", *map(str, folders))


@audit.command()
def query(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="For example: SELECT api, count(*) FROM request GROUP BY ALL")
    ],
    target: Annotated[
        str | None, typer.Option("--target", help="A folder or URI of segments; by default those of `sluicegate up`.")
    ] = None,
    spools: Annotated[
        list[Path] | None,
        typer.Option("--spools", help="A broker's folder of spools, for events that are not landed yet."),
    ] = None,
    data_dir: DataDirOption = DATA_DIR,
    cluster: ClusterOption = None,
    output: Annotated[
        AnswerOutput,
        typer.Option(
            "-o", "--output", help="Output format; table truncates long values with an ellipsis, json and csv do not."
        ),
    ] = AnswerOutput.TABLE,
    json: JsonOption = False,
) -> None:
    """Run an SQL query (DuckDB) on all events in segments and spools."""
    folders: Iterable[Path] = spools or ()
    if target is None and not spools:
        found = _found(data_dir, cluster)
        target, folders = str(found.segments) if found.segments.is_dir() else None, found.spools
    given = [*_each("--spools", map(str, folders)), *(["--target", target] if target else [])]
    _become("query", *given, "--output", AnswerOutput.JSON if json else output, "--", sql)


@audit.command()
def check(
    target: Annotated[
        str | None,
        typer.Argument(metavar="DIR", help="A folder or URI of segments; by default those of `sluicegate up`."),
    ] = None,
    data_dir: DataDirOption = DATA_DIR,
    cluster: ClusterOption = None,
    running: Annotated[
        bool, typer.Option("--running", help="The cluster runs: the newest boot of a broker needs no end.")
    ] = False,
    segment_ms: Annotated[
        int | None, typer.Option("--segment-ms", help="segment.ms of the audit log's observer.", min=1)
    ] = None,
) -> None:
    """Check for holes, duplicates, gaps, corrupt files, boots without an end and brokers without a file.

    Exit code 1 if any are found.
    """
    options = ["--running"] if running else []
    options += [] if segment_ms is None else ["--segment-ms", str(segment_ms)]
    _become("check", *options, "--", target or str(_found(data_dir, cluster).segments))


@audit.command(context_settings=_THROUGH)
def land(context: typer.Context) -> None:
    """Convert the spools of a broker into Parquet segments. `sluicegate up` does this automatically."""
    _become("land", *context.args)


@audit.command(context_settings=_THROUGH)
def keep(context: typer.Context) -> None:
    """Run `land --follow` in a process, and restart the process when it ends."""
    _become("keep", *context.args)


@audit.command(context_settings=_THROUGH)
def upkeep(context: typer.Context) -> None:
    """Compact the segments of past hours, and delete segments beyond the limits."""
    _become("upkeep", *context.args)


@audit.command(context_settings=_THROUGH)
def publish(context: typer.Context) -> None:
    """Publish the events of segments to a topic, each event once."""
    _become("publish", *context.args)


@audit.command(context_settings=_THROUGH)
def follow(context: typer.Context) -> None:
    """Aggregate new events before the next run of `build`."""
    _become("follow", *context.args)


@audit.command(context_settings=_THROUGH)
def report(context: typer.Context) -> None:
    """Write a page about the results that `build` made, for people to read."""
    _become("report", *context.args)


@audit.command(context_settings=_THROUGH)
def build(context: typer.Context) -> None:
    """Compute results from landed segments with Spark, and publish them."""
    _become("build", *context.args)


@audit.command(context_settings=_THROUGH)
def changes(context: typer.Context) -> None:
    """Show who changed topics, configurations, quotas, groups, ACLs and users, and with what outcome."""
    _become("changes", *context.args)


@audit.command(context_settings=_THROUGH)
def usage(context: typer.Context) -> None:
    """Show which client moved how much on which topic."""
    _become("usage", *context.args)


@audit.command(context_settings=_THROUGH)
def failures(context: typer.Context) -> None:
    """Show which error which client got, from which API and topic."""
    _become("failures", *context.args)


@audit.command(context_settings=_THROUGH)
def cost(context: typer.Context) -> None:
    """Show what each client, principal or topic costs."""
    _become("cost", *context.args)


@audit.command(context_settings=_THROUGH)
def storms(context: typer.Context) -> None:
    """Show the connection storms, the latest first."""
    _become("storms", *context.args)


@audit.command(context_settings=_THROUGH)
def package(context: typer.Context) -> None:
    """Create the two files for spark-submit to run the pipeline on a Spark cluster."""
    _become("package", *context.args)


def _found(data_dir: Path, cluster: str | None) -> LocalAudit:
    try:
        return find_local_audit(data_dir, cluster)
    except DataDirError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(BAD_USE) from None


def _flag(name: str, is_set: bool) -> list[str]:
    return [name] if is_set else []


def _each(name: str, values: Iterable[str]) -> list[str]:
    return [text for value in values for text in (name, value)]


def _become(*arguments: str) -> None:
    os.execv(sys.executable, [sys.executable, "-m", "audit_pipeline", *arguments])
