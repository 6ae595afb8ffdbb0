"""`sluicegate status`: nodes, listener addresses, the controller's view, and the limits in force."""

import asyncio
import json
from typing import Annotated

import typer
from rich.console import Console

from sluicegate_operator.cli.asking.kubernetes_asked import place_asked
from sluicegate_operator.cli.fleets.clusters_seen import ask_once
from sluicegate_operator.cli.fleets.fleet_tables import brokers_table, nodes_table, quotas_table, resources_table
from sluicegate_operator.cli.fleets.fleet_view import as_dict
from sluicegate_operator.cli.options import (
    DATA_DIR,
    ClusterOption,
    DataDirOption,
    KubeconfigOption,
    KubeContextOption,
    NamespaceOption,
    Output,
)


def status(
    namespace: NamespaceOption = None,
    context: KubeContextOption = None,
    kubeconfig: KubeconfigOption = None,
    cluster: ClusterOption = None,
    data_dir: DataDirOption = DATA_DIR,
    output: Annotated[Output, typer.Option("-o", "--output")] = Output.TABLE,
) -> None:
    """Show the status of clusters.

    The clusters are those of `sluicegate up`, or with -n those of a Kubernetes namespace. The exit code is 1 if nothing
    runs there or a node is not ready.
    """
    clusters = asyncio.run(ask_once(place_asked(namespace, context, kubeconfig), cluster, data_dir))
    if output is Output.JSON:
        print(json.dumps(as_dict(clusters), indent=2))
    else:
        console = Console()
        for one in clusters:
            if one.nodes:
                console.print(nodes_table(one))
                console.print(brokers_table(one))
            console.print(resources_table(one))
        if any(one.nodes for one in clusters):
            console.print(quotas_table(clusters))
    if any(node.problem for one in clusters for node in one.nodes):
        raise typer.Exit(1)
