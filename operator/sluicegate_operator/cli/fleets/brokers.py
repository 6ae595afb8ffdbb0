"""`sluicegate brokers`: what brokers report about themselves, also those that are offline."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kafka_bytes.printable import printable
from sluicegate_operator.api.schema.metadata import INT_MAX
from sluicegate_operator.cli.asking.asking import REFUSED, RefusedError, ask, print_json, say
from sluicegate_operator.cli.asking.bootstrap import BootstrapOption
from sluicegate_operator.cli.asking.command_config import CommandConfigOption
from sluicegate_operator.cli.options import DATA_DIR, ClusterOption, DataDirOption, Output
from sluicegate_operator.kafka_admin.api import AdminApi
from sluicegate_operator.kafka_admin.errors import AdminConnectionError, UnsupportedApiError, show
from sluicegate_operator.kafka_admin.views import BrokerDescription

_UNKNOWN = "-"


@dataclass(frozen=True, slots=True)
class FoundBroker:
    """A broker, and whether the broker serves clients now."""

    broker: BrokerDescription
    serves: bool


def brokers(
    broker: Annotated[
        list[int] | None,
        typer.Argument(metavar="[ID]...", min=0, max=INT_MAX, help="Only these brokers; by default all."),
    ] = None,
    tags: Annotated[bool, typer.Option("--tags", help="Show all tags, one per line.")] = False,
    bootstrap_server: BootstrapOption = None,
    data_dir: DataDirOption = DATA_DIR,
    cluster: ClusterOption = None,
    command_config: CommandConfigOption = None,
    output: Annotated[Output, typer.Option("-o", "--output")] = Output.TABLE,
) -> None:
    """Show addresses, releases and protocol versions of brokers; with --tags everything that they report."""
    wanted = broker or ()
    found = ask(
        (bootstrap_server, data_dir, cluster, command_config), "sluicegate-brokers", lambda asked: _found(asked, wanted)
    )
    if output is Output.JSON:
        print_json({"brokers": [asdict(one.broker) | {"serves": one.serves} for one in found]})
    else:
        Console().print(tags_table(found) if tags else brokers_table(found))
    missing = sorted(set(wanted) - {one.broker.id for one in found})
    for broker_id in missing:
        say(f"broker {broker_id} does not exist")
    if missing:
        raise typer.Exit(REFUSED)


async def _found(asked: AdminApi, wanted: Sequence[int]) -> list[FoundBroker]:
    serving = {one.id for one in (await asked.describe_cluster()).brokers}
    try:
        told = await asked.describe_brokers(wanted)
    except (UnsupportedApiError, AdminConnectionError) as error:
        # The broker has just answered describe_cluster, which every broker serves.
        raise RefusedError(f"{error}; only brokers of Sluicegate describe themselves") from None
    return [FoundBroker(one, one.id in serving) for one in told]


def brokers_table(found: list[FoundBroker]) -> Table:
    table = Table(title="Brokers")
    table.add_column("broker", justify="right")
    for heading in ("address", "state", "release", "protocol versions"):
        table.add_column(heading, overflow="fold")
    for one in found:
        broker = one.broker
        lowest, highest = broker.protocol_version_min, broker.protocol_version_max
        table.add_row(
            str(broker.id),
            Text(show((printable(broker.host), broker.port)) if broker.host else _UNKNOWN),
            Text("serving", style="green") if one.serves else Text("away", style="yellow"),
            Text(printable(broker.tags.get("broker.version", _UNKNOWN))),
            f"{lowest} to {highest}" if lowest >= 0 else _UNKNOWN,
        )
    return table


def tags_table(found: list[FoundBroker]) -> Table:
    table = Table(title="Tags of brokers")
    table.add_column("broker", justify="right")
    for heading in ("tag", "value"):
        table.add_column(heading, overflow="fold")
    for one in found:
        for name, value in one.broker.tags.items():
            table.add_row(str(one.broker.id), Text(printable(name)), Text(printable(value)))
        table.add_section()
    return table
