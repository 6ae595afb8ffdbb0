"""Which brokers a command connects to: those of its option, or those of `sluicegate up` in the data folder."""

from pathlib import Path
from typing import Annotated

import typer

from sluicegate_operator.cli.asking.addresses import AddressError, parse_address
from sluicegate_operator.fleet.local.local_data import DataDirError, read_state
from sluicegate_operator.kafka_admin.errors import Address
from sluicegate_operator.planning.layout.cluster_layout import INTERNAL, Role

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        help="HOST:PORT of a broker, or several separated by commas; by default the brokers of `up`.",
    ),
]


class BootstrapError(ValueError):
    """No broker to connect to; the message says what to write instead."""


def bootstrap_addresses(given: str | None, data_dir: Path, cluster: str | None) -> list[Address]:
    """Return the addresses of brokers. Raises BootstrapError."""
    if given is not None:
        return [_given(part.strip()) for part in given.split(",")]
    try:
        clusters = read_state(data_dir)["clusters"]
    except DataDirError as error:
        raise BootstrapError(f"{error}; or name a broker with --bootstrap-server HOST:PORT") from None
    if cluster is None and len(clusters) != 1:
        raise BootstrapError(f"`up` runs the clusters {', '.join(sorted(clusters))}; choose one with --cluster")
    name = cluster or next(iter(clusters))
    if name not in clusters:
        raise BootstrapError(f"--cluster {name}: `up` runs {', '.join(sorted(clusters))}")
    if external := clusters[name].get("external"):
        return [_given(address) for address in external]
    brokers = [node for node in clusters[name]["nodes"] if node["role"] == Role.BROKER and node["pid"] is not None]
    if not brokers:
        raise BootstrapError(f"no broker of {name} is running; see `sluicegate status`")
    return [_given(node["listeners"][INTERNAL]) for node in brokers]


def _given(text: str) -> Address:
    try:
        return parse_address(text, "--bootstrap-server")
    except AddressError as error:
        raise BootstrapError(str(error)) from None
