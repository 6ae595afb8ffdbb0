"""The `sluicegate` command: imports only the module of the subcommand, and runs it.

`sluicegate broker` becomes `python -m broker_runtime` by exec: the packages share no behaviour, and a broker should not
use the memory of this command.
"""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

from sluicegate_operator.cli.completed_command import completed_command
from sluicegate_operator.cli.extras import BAD_USE, extra_of, is_missing, refuse, require, sentence


class Command(NamedTuple):
    """A subcommand. `module` of this package has a function, or a group of commands, of its name (`-` is `_`).

    A module may set `PARSED_BY`, the class of typer's command. `program` is run by exec instead, as `python -m`.
    `extra` is the extra without which the command can do nothing. `failure` is the exit code if an extra is missing.
    """

    help: str
    module: str = ""
    program: str = ""
    extra: str = ""
    failure: int = BAD_USE


COMMANDS = {
    "up": Command("run clusters from manifests as processes on this machine", "manifests.up"),
    "status": Command("show clusters, brokers, listener addresses and quotas of `sluicegate up`", "fleets.status"),
    "doctor": Command(
        "check versions, rights, CRDs, clocks, network policies, addresses and disks, and say what to do",
        "doctor.doctor",
    ),
    "quotas": Command(
        "show the limits of brokers, listeners and addresses: current rate, share of time blocked", "fleets.quotas"
    ),
    "top": Command("show brokers, limits, storms, groups and partitions in a console that refreshes itself", "top.top"),
    "why": Command("show which quotas delay or reject an address, on which broker, since when", "fleets.why"),
    "brokers": Command(
        "show what brokers report about themselves: releases, protocol versions, tags", "fleets.brokers"
    ),
    "damage": Command("list offsets that brokers cannot read, or accept their loss", "fleets.damage"),
    "groups": Command(
        "manage consumer groups: list, describe with lag and members, reset-offsets, delete", "groups.groups"
    ),
    "plan": Command(
        "preview the effect of manifests: objects created, settings changed, restarts and why, refusals",
        "manifests.plan",
        # 2 says that the change would restart nodes.
        failure=1,
    ),
    "what-if": Command(
        "show what quotas would have delayed and rejected, by replaying the connections of an audit log",
        "manifests.what_if",
    ),
    "recommend": Command(
        "print the limits on connections that an audit log recommends, as ConnectionQuotas with their reasons",
        "manifests.recommend",
    ),
    "validate": Command("check manifests as the API server would, offline", "manifests.validate"),
    "storm": Command("open many connections to a listener to test its limits", "storms.storm"),
    "crds": Command("print or write the CustomResourceDefinitions", "manifests.crds"),
    "broker": Command(
        "run one broker: `sluicegate broker --config server.properties`", program="broker_runtime", extra="broker"
    ),
    "audit": Command(
        "use the audit log: tail, query, check, land, build, report, usage, failures, changes, storms, cost, ...",
        "audit",
    ),
}


def main(arguments: Sequence[str] | None = None) -> None:
    # Until the command handles SIGINT itself, Ctrl-C ends it without a traceback: loading takes half a second.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    given = list(sys.argv[1:] if arguments is None else arguments)
    completed = completed_command(os.environ)
    if completed in COMMANDS:
        _run(given, completed)
        return
    chosen = COMMANDS.get(given[0]) if given else None
    if chosen is not None and chosen.extra and not _asks_for_help(given):
        require(chosen.extra, f"sluicegate {given[0]}")
    if chosen is not None and chosen.program and not is_missing(chosen.extra):
        os.execv(sys.executable, [sys.executable, "-m", chosen.program, *given[1:]])
    try:
        _run(given, given[0] if chosen else None)
    except ModuleNotFoundError as error:
        extra = extra_of(error.name)
        if extra is None:
            sys.exit(f"sluicegate: {error.name} is not installed: pip install sluicegate")
        if chosen is None:
            refuse(extra, "sluicegate")
        refuse(extra, f"sluicegate {given[0]}", chosen.failure)


def _run(given: Sequence[str], chosen: str | None) -> None:
    """Parse the arguments by typer, and run the command.

    Without a `chosen` command, which is the name of one, only the names and help texts of all commands are needed.
    """
    import typer  # noqa: PLC0415 - programs need none of it

    app = typer.Typer(
        name="sluicegate",
        help="Run and inspect Kafka-protocol brokers with connection quotas, from manifests.",
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )
    # Without a callback typer makes a single command the whole program, and its name an argument.
    app.callback()(_no_options)
    for name, command in COMMANDS.items() if chosen is None else [(chosen, COMMANDS[chosen])]:
        help_text = f"{command.help[0].upper()}{command.help[1:]}."
        if chosen is None or command.program:
            advice = f"\n\n{sentence(command.extra, 'It')}." if chosen and is_missing(command.extra) else ""
            app.command(name, help=f"{help_text}{advice}")(_no_options)
            continue
        module = importlib.import_module(f"sluicegate_operator.cli.{command.module}")
        part = getattr(module, name.replace("-", "_"))
        if isinstance(part, typer.Typer):
            app.add_typer(part, name=name, help=help_text)
        else:
            app.command(name, help=help_text, cls=getattr(module, "PARSED_BY", None))(part)
    app(list(given), prog_name="sluicegate")


def _asks_for_help(given: Sequence[str]) -> bool:
    return "--help" in given


def _no_options() -> None:
    pass


if __name__ == "__main__":
    main()
