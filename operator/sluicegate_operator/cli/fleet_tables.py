"""The views as tables for a terminal. Pure."""

from collections.abc import Iterable

from rich.table import Table
from rich.text import Text

from sluicegate_operator.cli.fleet_view import ClusterView
from sluicegate_operator.cli.quota_rows import QuotaRow


def nodes_table(cluster: ClusterView) -> Table:
    table = Table(title=f"Cluster {cluster.name}")
    for heading in ("node", "pid", "restarts", "addresses"):
        table.add_column(heading, no_wrap=True)
    table.add_column("state")
    for node in cluster.nodes:
        addresses = [f"{name} {address}" for name, address in sorted(node.listeners.items())]
        table.add_row(
            f"{node.role} {node.id}",
            str(node.pid or "-"),
            str(node.restarts),
            "\n".join([*addresses, f"http {node.http}"]),
            "[green]ready[/]" if node.problem is None else Text(node.problem, style="red"),
        )
    return table


def resources_table(cluster: ClusterView) -> Table:
    table = Table(title=f"Resources of {cluster.name}")
    for heading in ("kind", "name", "ready"):
        table.add_column(heading, no_wrap=True)
    table.add_column("says")
    for resource in cluster.resources:
        ready = "[green]yes[/]" if resource["ready"] else "[red]no[/]"
        table.add_row(resource["kind"], resource["name"], ready, Text(resource["message"]))
    return table


def quotas_table(clusters: Iterable[ClusterView]) -> Table:
    """A limit holds on each broker by itself, so each broker has a line."""
    table = Table(title="Connection quotas")
    for heading in ("cluster", "target"):
        table.add_column(heading, no_wrap=True)
    for heading in ("broker", "limit/s", "rate/s", "blocked", "most", "open"):
        table.add_column(heading, justify="right")
    for cluster in clusters:
        previous = ""
        for row in cluster.quotas:
            if previous and row.target != previous:
                table.add_section()
            first = row.target != previous
            table.add_row(cluster.name if first else "", row.target if first else "", *_figures(row))
            previous = row.target
        table.add_section()
    return table


def _figures(row: QuotaRow) -> tuple[str, ...]:
    return (
        str(row.broker_id),
        "none" if row.max_rate is None else f"{row.max_rate:g}",
        "-" if row.accept_rate is None else f"{row.accept_rate:.1f}",
        "-" if row.blocked_share is None else f"{row.blocked_share:.0%}",
        "none" if row.max_connections is None else str(row.max_connections),
        "-" if row.connections is None else str(row.connections),
    )
