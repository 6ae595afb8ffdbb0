"""`sluicegate quotas`: the limits and their effect, once or as a live table."""

import asyncio
import contextlib
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from sluicegate_operator.cli.asking.asking import REFUSED, say
from sluicegate_operator.cli.asking.kubernetes_asked import Place, place_asked
from sluicegate_operator.cli.fleets.clusters_seen import ask_once, looking
from sluicegate_operator.cli.fleets.fleet_tables import quotas_table
from sluicegate_operator.cli.fleets.fleet_view import silent_brokers
from sluicegate_operator.cli.options import (
    DATA_DIR,
    ClusterOption,
    DataDirOption,
    KubeconfigOption,
    KubeContextOption,
    NamespaceOption,
)

INTERVAL_S = 0.5
KUBERNETES_INTERVAL_S = 2.0
"""Seconds between two updates in Kubernetes: each update sends the API server a request for every node."""


def quotas(
    namespace: NamespaceOption = None,
    context: KubeContextOption = None,
    kubeconfig: KubeconfigOption = None,
    cluster: ClusterOption = None,
    data_dir: DataDirOption = DATA_DIR,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            min=0.1,
            help=f"Seconds between refreshes; {INTERVAL_S:g} by default, {KUBERNETES_INTERVAL_S:g} in Kubernetes.",
        ),
    ] = None,
) -> None:
    """Show the quotas of clusters.

    The clusters are those of `sluicegate up`, or with -n those of a Kubernetes namespace. The exit code is 1 if a
    broker does not show its limits.
    """
    place = place_asked(namespace, context, kubeconfig)
    if watch:
        usual_s = INTERVAL_S if place is None else KUBERNETES_INTERVAL_S
        asyncio.run(_watch(place, cluster, data_dir, interval or usual_s))
        return
    clusters = asyncio.run(ask_once(place, cluster, data_dir))
    Console().print(quotas_table(clusters))
    if not any(one.nodes for one in clusters):
        say(
            "no broker runs here, and brokers of runtime External report no rates: `sluicegate status` shows their"
            " quotas"
        )
    if silent_brokers(clusters):
        raise typer.Exit(REFUSED)


async def _watch(place: Place | None, cluster: str | None, data_dir: Path, interval_s: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with looking(place, cluster, data_dir) as look:
        with Live(quotas_table(await look()), auto_refresh=False) as live:
            while not stop.is_set():
                live.update(quotas_table(await look()), refresh=True)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), interval_s)
