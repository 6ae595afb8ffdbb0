"""The views as tables for a terminal. Pure."""

from collections.abc import Collection

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from sluicegate_operator.cli.asking.quota_rows import QuotaRow, share_words
from sluicegate_operator.cli.fleets.fleet_view import ShownCluster, silent_brokers


def nodes_table(cluster: ShownCluster) -> Table:
    table = Table(title=f"Cluster {cluster.name}")
    in_pods = any(node.pod is not None for node in cluster.nodes)
    for heading in ("node", "pod" if in_pods else "pid", "restarts", "addresses"):
        table.add_column(heading, no_wrap=True)
    table.add_column("state")
    for node in cluster.nodes:
        addresses = [f"{name} {address}" for name, address in sorted(node.listeners.items())]
        table.add_row(
            f"{node.role} {node.id}",
            str(node.pod or node.pid or "-"),
            str(node.restarts),
            "\n".join([*addresses, f"http {node.http}"]),
            "[green]ready[/]" if node.problem is None else Text(node.problem, style="red"),
        )
    return table


STATE_STYLES = {"Online": "green", "Stopping": "yellow", "Unknown": "yellow", "Fenced": "red", "Offline": "red"}


def brokers_table(cluster: ShownCluster) -> Table:
    """Return a table of the brokers as the controller sees them. Its caption has the progress of `up`.

    The table fits into 80 columns.
    """
    lines = [f"{what} {row['phase']}: {row['message']}" for what, row in cluster.progress.items() if row["message"]]
    if cluster.unseen:
        lines.append(f"no view of the controller: {cluster.unseen}")
    table = Table(title=f"Brokers of {cluster.name}", caption=Text("\n".join(lines)) if lines else None)
    for heading in ("broker", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in ("epoch", "heartbeat", "leaders", "out of sync"):
        table.add_column(heading, justify="right")
    table.add_column("address", no_wrap=True)
    for broker in cluster.brokers:
        table.add_row(
            str(broker.id),
            Text(broker.state, style=STATE_STYLES[broker.state]),
            str(broker.epoch),
            "-" if broker.heartbeat_age_s is None else f"{broker.heartbeat_age_s:.1f} s",
            str(broker.leaders),
            f"{broker.out_of_sync}/{broker.replicas}",
            broker.address or "-",
        )
    return table


def resources_table(cluster: ShownCluster) -> Table:
    table = Table(title=f"Resources of {cluster.name}")
    for heading in ("kind", "name", "ready"):
        table.add_column(heading, no_wrap=True)
    table.add_column("says")
    for resource in cluster.resources:
        ready = "[green]yes[/]" if resource["ready"] else "[red]no[/]"
        table.add_row(resource["kind"], resource["name"], ready, Text(resource["message"]))
    return table


def quotas_table(clusters: Collection[ShownCluster]) -> Table:
    """Return a row for each limit on each broker, because each broker counts separately.

    The caption has the brokers that do not answer. `limit` is in connections per second, `max` in open connections;
    `held` counts connections that were delayed or rejected. For a limit of the cluster, `limit` is the broker's share
    with its state and age. The table of the quickstart fits into 80 columns.
    """
    silent = silent_brokers(clusters)
    caption = Text("\n".join(silent)) if silent else None
    table = Table(title="Connection quotas", caption=caption, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("cluster", "target"):
        table.add_column(heading, no_wrap=True)
    for heading in ("broker", "limit", "rate/s", "blocked", "max", "open", "held"):
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


def _rate_limit(row: QuotaRow) -> str:
    limit = "none" if row.max_rate is None else f"{row.max_rate:g}"
    if row.share is not None:
        return share_words(row.share)
    return f"{limit} ({row.bounds})" if row.bounds else limit


def _figures(row: QuotaRow) -> tuple[str, ...]:
    return (
        str(row.broker_id),
        _rate_limit(row),
        "-" if row.accept_rate is None else f"{row.accept_rate:.1f}",
        "-" if row.blocked_share is None else f"{row.blocked_share:.0%}",
        "none" if row.max_connections is None else str(row.max_connections),
        "-" if row.connections is None else str(row.connections),
        "-" if row.held is None else str(row.held),
    )
