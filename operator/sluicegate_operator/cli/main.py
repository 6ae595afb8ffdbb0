"""The `sluicegate` command: imports only the module of the subcommand, and runs it.

`sluicegate broker` becomes `python -m broker_runtime` by exec: the packages share no behaviour, and a broker should not
use the memory of this command.
"""

import importlib
import os
import signal
import sys
from collections.abc import Sequence

COMMANDS = {
    "up": "run clusters from manifests as processes on this machine",
    "status": "show clusters, brokers, listener addresses and quotas of `sluicegate up`",
    "quotas": "show the limits of brokers, listeners and addresses: current rate, share of time blocked",
    "why": "show which quotas delay or reject an address, on which broker, since when",
    "brokers": "show what brokers report about themselves: releases, protocol versions, tags",
    "damage": "list offsets that brokers cannot read, or accept their loss",
    "groups": "manage consumer groups: list, describe with lag and members, reset-offsets, delete",
    "plan": "preview the effect of manifests: objects created, settings changed, restarts and why, refusals",
    "validate": "check manifests as the API server would, offline",
    "storm": "open many connections to a listener to test its limits",
    "crds": "print or write the CustomResourceDefinitions",
    "broker": "run one broker: `sluicegate broker --config server.properties`",
    "audit": "use the audit log: tail, query, check, land, upkeep, publish, follow, report",
}

MODULES = {
    "up": "manifests.up",
    "status": "fleets.status",
    "quotas": "fleets.quotas",
    "why": "fleets.why",
    "brokers": "fleets.brokers",
    "damage": "fleets.damage",
    "groups": "groups.groups",
    "plan": "manifests.plan",
    "validate": "manifests.validate",
    "storm": "storms.storm",
    "crds": "manifests.crds",
    "audit": "audit",
}
"""The module of each command in this package. It has a function, or a group of commands, of the command's name.

A module may set `PARSED_BY`, the class of typer's command.
"""

PROGRAMS = {"broker": "broker_runtime"}
"""Commands that are run by exec, as `python -m` of these packages."""


def main(arguments: Sequence[str] | None = None) -> None:
    # Until the command handles SIGINT itself, Ctrl-C ends it without a traceback: loading takes half a second.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given and given[0] in PROGRAMS:
        os.execv(sys.executable, [sys.executable, "-m", PROGRAMS[given[0]], *given[1:]])
    try:
        import typer  # noqa: PLC0415 - programs need none of it
    except ModuleNotFoundError:
        sys.exit("sluicegate: packages that the command needs are not installed: pip install '.[operator,broker]'")

    app = typer.Typer(
        name="sluicegate",
        help="Run and inspect Kafka-protocol brokers with connection quotas, from manifests.",
        add_completion=False,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )
    # Without a callback typer makes a single command the whole program, and its name an argument.
    app.callback()(_no_options)
    for name in given[:1] if given and given[0] in COMMANDS else COMMANDS:
        if name in PROGRAMS:
            app.command(name, help=_sentence(name))(_no_options)
            continue
        module = importlib.import_module(f"sluicegate_operator.cli.{MODULES[name]}")
        command = getattr(module, name)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, help=_sentence(name))
        else:
            app.command(name, help=_sentence(name), cls=getattr(module, "PARSED_BY", None))(command)
    app(given, prog_name="sluicegate")


def _sentence(name: str) -> str:
    return f"{COMMANDS[name][0].upper()}{COMMANDS[name][1:]}."


def _no_options() -> None:
    pass


if __name__ == "__main__":
    main()
