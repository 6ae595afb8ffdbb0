"""`sluicegate top`: a console in the terminal, or with --once its tables as plain text.

Exit codes: 2 for wrong use, 1 if nothing answers. Only the console itself imports Textual.
"""

import asyncio
import os
import shutil
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from kafka_bytes.printable import printable
from sluicegate_operator.cli.asking.asking import REFUSED, bad_use, say
from sluicegate_operator.cli.asking.bootstrap import BootstrapError, BootstrapOption, bootstrap_addresses
from sluicegate_operator.cli.asking.command_config import (
    CommandConfigError,
    CommandConfigOption,
    read_command_config,
)
from sluicegate_operator.cli.asking.kubernetes_asked import Place, place_asked
from sluicegate_operator.cli.extras import is_missing, sentence
from sluicegate_operator.cli.options import (
    DATA_DIR,
    ClusterOption,
    DataDirOption,
    KubeconfigOption,
    KubeContextOption,
    NamespaceOption,
)
from sluicegate_operator.cli.top.model.plain_text import plain_text
from sluicegate_operator.cli.top.model.recorder import Recorder
from sluicegate_operator.cli.top.model.screens import SCREENS
from sluicegate_operator.cli.top.sources.fleet_source import source_here, source_in_kubernetes
from sluicegate_operator.cli.top.sources.kafka_answers import KafkaPlace
from sluicegate_operator.cli.top.sources.kafka_source import source_by_kafka
from sluicegate_operator.cli.top.sources.source import SourceError, TopSource

REFRESH_S, KUBERNETES_REFRESH_S = 1.0, 2.0
"""Seconds between two looks: in Kubernetes each look sends the API server some requests for every node."""
REFRESH_MIN_S = 0.1
PIPE_WIDTH = 160
"""Columns of --once if the output is no terminal and COLUMNS is not set."""
MISSING = f"{sentence('top', 'sluicegate top')}; --once prints the tables without it"
NO_TERMINAL = "`sluicegate top` needs a terminal, and its input or output is none: use --once to print the tables"

View = StrEnum("View", {key.upper(): key for key in SCREENS})  # type: ignore[misc]


def top(
    namespace: NamespaceOption = None,
    context: KubeContextOption = None,
    kubeconfig: KubeconfigOption = None,
    bootstrap_server: BootstrapOption = None,
    cluster: ClusterOption = None,
    data_dir: DataDirOption = DATA_DIR,
    command_config: CommandConfigOption = None,
    view: Annotated[
        View | None, typer.Option("--view", help="The table to begin with; with --once the only one.")
    ] = None,
    refresh: Annotated[
        float | None,
        typer.Option(
            min=REFRESH_MIN_S,
            help=f"Seconds between refreshes; {REFRESH_S:g} by default, {KUBERNETES_REFRESH_S:g} in Kubernetes.",
        ),
    ] = None,
    filter_: Annotated[str, typer.Option("--filter", help="Only rows with these words; !WORD for rows without.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Print the tables as plain text, and exit.")] = False,
) -> None:
    """Show brokers, limits, addresses, clients, storms, groups and partitions, and refresh them.

    The clusters are those of `sluicegate up`, with -n those of a Kubernetes namespace, or with --bootstrap-server any
    cluster that answers Kafka's protocol. Both together add groups and partitions to a namespace.
    """
    place = place_asked(namespace, context, kubeconfig)
    every_s = refresh or (REFRESH_S if place is None else KUBERNETES_REFRESH_S)
    try:
        found = _source(place, cluster, data_dir, _kafka(bootstrap_server, command_config, cluster))
        if once:
            asyncio.run(_print_once(found, view, every_s, filter_))
            return
        if is_missing("top"):
            raise bad_use(MISSING)
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            raise bad_use(NO_TERMINAL)
        from sluicegate_operator.cli.top.console.running import run_console  # noqa: PLC0415 - Textual is an extra

        asyncio.run(run_console(found, view, every_s, filter_))
    except SourceError as error:
        say(str(error))
        raise typer.Exit(REFUSED) from None


def _kafka(given: str | None, command_config: Path | None, cluster: str | None) -> KafkaPlace | None:
    """Return the cluster behind --bootstrap-server; None without the option. Ends the command for a bad address."""
    if given is None:
        return None
    try:
        addresses = bootstrap_addresses(given, DATA_DIR, cluster)
        security = read_command_config(command_config)
    except (BootstrapError, CommandConfigError) as error:
        raise bad_use(str(error)) from None
    return KafkaPlace(cluster or given, lambda: (addresses, security), only_kafka=True)


def _source(
    place: Place | None, cluster: str | None, data_dir: Path, kafka: KafkaPlace | None
) -> AbstractAsyncContextManager[TopSource]:
    if place is not None:
        if kafka is not None and cluster is None:
            raise bad_use("--bootstrap-server in a namespace needs --cluster: the name of the server's cluster")
        return source_in_kubernetes(place, cluster, None if kafka is None else replace(kafka, only_kafka=False))
    return source_by_kafka(kafka) if kafka is not None else source_here(data_dir, cluster)


async def _print_once(
    found: AbstractAsyncContextManager[TopSource], view: str | None, every_s: float, words: str
) -> None:
    """Print the tables after two looks, because rates need two. Raises SourceError."""
    recorder = Recorder()
    async with found as source:
        recorder.view(await source.look())
        await asyncio.gather(asyncio.sleep(every_s), source.settle())
        last = recorder.view(await source.look())
    screens = [SCREENS[view]] if view is not None else list(SCREENS.values())
    for line in plain_text(last, screens, _width(), words):
        print(printable(line))


def _width() -> int:
    wanted = os.environ.get("COLUMNS", "")
    if sys.stdout.isatty() or wanted.isdigit():
        return shutil.get_terminal_size().columns
    return PIPE_WIDTH
