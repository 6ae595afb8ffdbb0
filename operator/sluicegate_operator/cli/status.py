"""`sluicegate status`: what runs, where it listens, what the controller thinks of it, which limits hold."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sluicegate_operator.cli.fleet_tables import brokers_table, nodes_table, quotas_table, resources_table
from sluicegate_operator.cli.fleet_view import ClusterView, FleetView, as_dict
from sluicegate_operator.cli.options import DATA_DIR, DataDirOption, Output
from sluicegate_operator.fleet.local_data import DataDirError


def status(
    data_dir: DataDirOption = DATA_DIR,
    output: Annotated[Output, typer.Option("-o", "--output")] = Output.TABLE,
) -> None:
    """Exit code 1 when nothing runs there or a node is not ready."""
    try:
        clusters = asyncio.run(_look(data_dir))
    except DataDirError as error:
        print(error, file=sys.stderr)
        raise typer.Exit(1) from None
    if output is Output.JSON:
        print(json.dumps(as_dict(clusters), indent=2))
    else:
        console = Console()
        for cluster in clusters:
            if cluster.nodes:
                console.print(nodes_table(cluster))
                console.print(brokers_table(cluster))
            console.print(resources_table(cluster))
        if any(cluster.nodes for cluster in clusters):
            console.print(quotas_table(clusters))
    if any(node.problem for cluster in clusters for node in cluster.nodes):
        raise typer.Exit(1)


async def _look(data_dir: Path) -> list[ClusterView]:
    view = FleetView(data_dir)
    try:
        return await view.look()
    finally:
        await view.aclose()
