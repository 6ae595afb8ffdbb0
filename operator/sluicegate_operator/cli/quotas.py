"""`sluicegate quotas`: the limits and what they do, once or as a live table."""

import asyncio
import contextlib
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.live import Live

from sluicegate_operator.cli.asking import say
from sluicegate_operator.cli.fleet_tables import quotas_table
from sluicegate_operator.cli.fleet_view import FleetView
from sluicegate_operator.cli.options import DATA_DIR, DataDirOption
from sluicegate_operator.fleet.local_data import DataDirError


def quotas(
    data_dir: DataDirOption = DATA_DIR,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Keep showing, until Ctrl-C.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 0.5,
) -> None:
    try:
        asyncio.run(_watch(data_dir, interval) if watch else _once(data_dir))
    except DataDirError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None


async def _once(data_dir: Path) -> None:
    view = FleetView(data_dir)
    try:
        clusters = await view.look()
        Console().print(quotas_table(clusters))
        if not any(cluster.nodes for cluster in clusters):
            say(
                "no broker runs here, and those of runtime External tell no rates: `sluicegate status` has their quotas"
            )
    finally:
        await view.aclose()


async def _watch(data_dir: Path, interval_s: float) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    view = FleetView(data_dir)
    try:
        with Live(quotas_table(await view.look()), auto_refresh=False) as live:
            while not stop.is_set():
                live.update(quotas_table(await view.look()), refresh=True)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), interval_s)
    finally:
        await view.aclose()
