"""`sluicegate audit`: the audit logs of `sluicegate up` by their data folder, and of other brokers by their folders.

This process becomes `python -m audit_pipeline`, which does the work: the packages share no behaviour.
"""

import os
import sys
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from sluicegate_operator.cli.extras import is_missing, require, sentence
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
    client: Annotated[
        str | None, typer.Option("--client", help="Show only this client ID, or IDs that begin so: orders-*.")
    ] = None,
    topic: Annotated[
        str | None, typer.Option("--topic", help="Show only partitions and changes of this topic, or of topic-*.")
    ] = None,
    api: Annotated[str | None, typer.Option("--api", help="Show only this API, such as Produce.")] = None,
    own: Annotated[
        bool, typer.Option("--own", help="Show followers and Sluicegate's own clients (sluicegate-*), too.")
    ] = False,
    from_start: Annotated[
        bool, typer.Option("--from-start", help="Show the events that are already in the spools, too.")
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Stop after the events that exist now.")] = False,
    json: JsonOption = False,
) -> None:
    """Show events when brokers write them, until Ctrl-C."""
    folders = spools or _found(data_dir, cluster).spools
    given = {"--client": client, "--topic": topic, "--api": api}
    filters = [f"{name}={value}" for name, value in given.items() if value is not None]
    flags = {"--own": own, "--from-start": from_start, "--once": once, "--json": json}
    options = [name for name, is_set in flags.items() if is_set]
    _become("tail", *_each("--table", table or ()), *filters, *options, "--", *map(str, folders))


@audit.command()
def query(
    sql: Annotated[
        str, typer.Argument(metavar="SQL", help="For example: SELECT api, count(*) FROM request GROUP BY ALL")
    ],
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            help="A folder or URI of segments, or of results of `build`; by default the segments of `sluicegate up`.",
        ),
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
    """Run an SQL query (DuckDB) on all events in segments and spools, or on results."""
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
        typer.Argument(
            metavar="DIR",
            help="A folder or URI of segments, or of results; by default the segments of `sluicegate up`.",
        ),
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

    Of results, check that each file is there and undamaged. Exit code 1 if anything is found.
    """
    options = ["--running"] if running else []
    options += [] if segment_ms is None else ["--segment-ms", str(segment_ms)]
    _become("check", *options, "--", target or str(_found(data_dir, cluster).segments))


_PASSED_ON = {
    "land": "Convert the spools of a broker into Parquet segments. `sluicegate up` does this automatically.",
    "keep": "Run `land --follow` in a process, and restart the process when it ends.",
    "upkeep": "Compact the segments of past hours, and delete segments beyond the limits.",
    "publish": "Publish the events of segments to a topic, each event once.",
    "follow": "Aggregate new events before the next run of `build`.",
    "report": "Write a page about the results that `build` made, for people to read.",
    "build": "Compute results from landed segments with Spark, and publish them.",
    "changes": "Show who changed topics, configurations, quotas, groups, ACLs and users, and with what outcome.",
    "usage": "Show which client moved how much on which topic.",
    "failures": "Show which error which client got, from which API and topic.",
    "cost": "Show what each client, principal or topic costs.",
    "storms": "Show the connection storms, the latest first.",
    "recommend": "Show the limits on connections that the results recommend. `sluicegate recommend` writes manifests.",
    "what-if": "Replay the connections of a log under limits in JSON. `sluicegate what-if` tries ConnectionQuotas.",
    "package": "Create the two files for spark-submit to run the pipeline on a Spark cluster.",
}
"""Commands whose arguments all go to the pipeline, with their help."""


_OF_SPARK = frozenset({"build", "follow", "publish"})
"""Commands that need the extra audit; the others need only the extra landing."""


def _passes_on(name: str) -> Callable[[typer.Context], None]:
    def command(context: typer.Context) -> None:
        if "--help" in context.args and is_missing("landing"):
            # The pipeline, which knows the options, cannot start.
            print(f"{context.get_help()}\n\n{sentence('landing', 'The list of options')}")
            return
        _become(name, *context.args)

    return command


for _name, _help in _PASSED_ON.items():
    audit.command(_name, help=_help, context_settings=_THROUGH)(_passes_on(_name))


def _found(data_dir: Path, cluster: str | None) -> LocalAudit:
    try:
        return find_local_audit(data_dir, cluster)
    except DataDirError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(BAD_USE) from None


def _each(name: str, values: Iterable[str]) -> list[str]:
    return [text for value in values for text in (name, value)]


def _become(command: str, *arguments: str) -> None:
    if "--help" not in arguments:
        require("audit" if command in _OF_SPARK else "landing", f"sluicegate audit {command}")
    os.execv(sys.executable, [sys.executable, "-m", "audit_pipeline", command, *arguments])
