"""`sluicegate groups`: lists and describes consumer groups, resets their offsets, and deletes them.

Exit codes: 2 for wrong use, 1 if the cluster refuses or does not answer.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from kafka_bytes.printable import printable
from sluicegate_operator.cli.asking.asking import REFUSED, ask, bad_use, print_json, say
from sluicegate_operator.cli.asking.bootstrap import BootstrapOption
from sluicegate_operator.cli.asking.command_config import CommandConfigOption
from sluicegate_operator.cli.groups.group_questions import (
    ResetPlan,
    ResetRequest,
    deleted,
    executed,
    planned,
    reports,
)
from sluicegate_operator.cli.groups.group_tables import groups_table, members_table, offsets_table, resets_table
from sluicegate_operator.cli.groups.offset_resets import (
    ResetError,
    ResetTarget,
    Way,
    parse_datetime,
    parse_duration,
    parse_topics,
)
from sluicegate_operator.cli.options import DATA_DIR, ClusterOption, DataDirOption, Output
from sluicegate_operator.kafka_admin.consumer_groups import ConsumerGroups

CLIENT_ID = "sluicegate-groups"
Answer = TypeVar("Answer")
Question = Callable[[ConsumerGroups], Awaitable[Answer]]

OutputOption = Annotated[Output, typer.Option("-o", "--output")]

groups = typer.Typer(no_args_is_help=True)


@groups.command("list")
def list_(
    bootstrap_server: BootstrapOption = None,
    data_dir: DataDirOption = DATA_DIR,
    cluster: ClusterOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """List all groups, with state, type and protocol."""
    found = _ask((bootstrap_server, data_dir, cluster, command_config), lambda asked: asked.all())
    if output is Output.JSON:
        print_json({"groups": [asdict(group) for group in found]})
    elif found:
        Console().print(groups_table(found))
    else:
        _print_none()


@groups.command()
def describe(
    group: Annotated[list[str] | None, typer.Argument(metavar="[GROUP]...", help="Names of groups.")] = None,
    every: Annotated[bool, typer.Option("--all", help="All groups.")] = False,
    bootstrap_server: BootstrapOption = None,
    data_dir: DataDirOption = DATA_DIR,
    cluster: ClusterOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the members, and for each partition the committed offset, the log's end, the lag and its member."""
    if bool(group) is every:
        raise bad_use("name groups, or use --all")
    _check_names(group or ())
    asked_for = _ask((bootstrap_server, data_dir, cluster, command_config), lambda asked: reports(asked, group or ()))
    found = [one for one in asked_for.values() if one is not None]
    if output is Output.JSON:
        print_json({"groups": [asdict(one) for one in found]})
    else:
        console = Console()
        for one in found:
            console.print(members_table(one))
            console.print(offsets_table(one))
        if not asked_for:
            _print_none()
    missing = [name for name, one in asked_for.items() if one is None]
    for name in missing:
        say(f"group {name} does not exist; `sluicegate groups list` shows all groups")
    if missing:
        raise typer.Exit(REFUSED)


@groups.command("reset-offsets")
def reset_offsets(
    group: Annotated[str, typer.Argument(metavar="GROUP")],
    topic: Annotated[list[str] | None, typer.Option("--topic", help="TOPIC, or TOPIC:0,1; may be repeated.")] = None,
    all_topics: Annotated[
        bool, typer.Option("--all-topics", help="All topics with committed offsets of the group.")
    ] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record of each partition.")] = False,
    to_latest: Annotated[
        bool, typer.Option("--to-latest", help="To the end of each partition: only records produced from now on.")
    ] = False,
    to_offset: Annotated[int | None, typer.Option("--to-offset", help="To this offset.")] = None,
    shift_by: Annotated[
        int | None, typer.Option("--shift-by", help="By this number of records, backwards if negative.")
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", help="Back by this time, such as PT1H30M or P7D.")
    ] = None,
    to_datetime: Annotated[
        str | None,
        typer.Option(
            "--to-datetime", help="To a time, such as 2026-11-23T08:00:00 (UTC) or 2026-11-23T08:00:00+02:00."
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the plan (the default).")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Commit the new offsets.")] = False,
    bootstrap_server: BootstrapOption = None,
    data_dir: DataDirOption = DATA_DIR,
    cluster: ClusterOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Set the offsets at which a group without members continues. Only shows the plan without --execute."""
    ways: dict[Way, Any] = {
        Way.EARLIEST: to_earliest or None,
        Way.LATEST: to_latest or None,
        Way.OFFSET: to_offset,
        Way.SHIFT: shift_by,
        Way.DURATION: by_duration,
        Way.DATETIME: to_datetime,
    }
    _check_names([group])
    if dry_run and execute:
        raise bad_use("use either --dry-run or --execute, not both")
    if bool(topic) is all_topics:
        raise bad_use("choose the partitions with --topic TOPIC or --all-topics")
    try:
        target = _target({way: value for way, value in ways.items() if value is not None})
        topics = parse_topics(topic) if topic else None
    except ResetError as error:
        raise bad_use(str(error)) from None
    request = ResetRequest(group, topics, target)

    async def reset(asked: ConsumerGroups) -> ResetPlan:
        plan = await planned(asked, request)
        if execute:
            await executed(asked, group, plan.resets)
        return plan

    plan = _ask((bootstrap_server, data_dir, cluster, command_config), reset)
    if plan.is_new:
        # A new group is not an error, but the name may be mistyped.
        note = f"group {group} did not exist; the offsets created it"
        say(note if execute else f"group {group} does not exist yet; --execute creates it")
    if output is Output.JSON:
        print_json({"group": group, "executed": execute, "offsets": [asdict(reset) for reset in plan.resets]})
        return
    Console().print(resets_table(group, plan.resets, executed=execute))
    if not execute:
        print("nothing was changed; --execute commits the new offsets")


@groups.command()
def delete(
    group: Annotated[list[str], typer.Argument(metavar="GROUP...")],
    bootstrap_server: BootstrapOption = None,
    data_dir: DataDirOption = DATA_DIR,
    cluster: ClusterOption = None,
    command_config: CommandConfigOption = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Delete groups without members, with their offsets."""
    _check_names(group)
    kept = _ask((bootstrap_server, data_dir, cluster, command_config), lambda asked: deleted(asked, group))
    if output is Output.JSON:
        print_json({"groups": [{"id": name, "deleted": not why, "message": why} for name, why in kept.items()]})
    for name, why in kept.items():
        if why:
            say(f"group {name} was not deleted: {why}")
        elif output is Output.TABLE:
            print(printable(f"group {name} deleted"))
    if any(kept.values()):
        raise typer.Exit(REFUSED)


def _print_none() -> None:
    say("the cluster has no groups")


def _check_names(groups: Sequence[str]) -> None:
    if "" in groups:
        raise bad_use("the name of a group cannot be empty")


def _target(given: dict[Way, Any]) -> ResetTarget:
    """Return the target of the options. Raises ResetError."""
    if len(given) != 1:
        raise ResetError(f"choose the new offset with one of {', '.join(Way)}")
    ((way, value),) = given.items()
    match way:
        case Way.EARLIEST | Way.LATEST:
            return ResetTarget(way)
        case Way.OFFSET:
            if value < 0:
                raise ResetError(f"--to-offset {value}: offsets begin at 0")
            return ResetTarget(way, value)
        case Way.DURATION:
            return ResetTarget(way, parse_duration(value, datetime.now(UTC)))
        case Way.DATETIME:
            return ResetTarget(way, parse_datetime(value))
        case Way.SHIFT:
            return ResetTarget(way, value)


def _ask(where: tuple[str | None, Path, str | None, Path | None], question: Question[Answer]) -> Answer:
    """Return the answer to `question`; end the command with one sentence if there is none."""
    try:
        return ask(where, CLIENT_ID, lambda admin: question(ConsumerGroups(admin)))
    except ResetError as error:
        raise bad_use(str(error)) from None
