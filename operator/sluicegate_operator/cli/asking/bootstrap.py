"""Which brokers a command connects to: those of its option, or those of `sluicegate up` in the data folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from sluicegate_operator.cli.asking.addresses import AddressError, parse_address
from sluicegate_operator.fleet.local.local_data import DataDirError, read_state
from sluicegate_operator.fleet.node_security import NoNodeSecurityError, security_in
from sluicegate_operator.kafka_admin.errors import Address
from sluicegate_operator.kafka_admin.security.client_security import PLAINTEXT, ClientSecurity
from sluicegate_operator.planning.layout.cluster_layout import INTERNAL, Role

BootstrapOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-server",
        help="HOST:PORT of a broker, or several separated by commas; by default the brokers of `up`.",
    ),
]


class BootstrapError(ValueError):
    """Error if there is no broker to connect to. The message says what to write instead."""


def bootstrap_addresses(given: str | None, data_dir: Path, cluster: str | None) -> list[Address]:
    """Return the addresses of brokers, from the option or from `sluicegate up`. Raises BootstrapError."""
    if given is not None:
        return [_given(part.strip()) for part in given.split(",")]
    name, found = _cluster_here(data_dir, cluster)
    if external := found.get("external"):
        return [_given(address) for address in external]
    brokers = [node for node in found["nodes"] if node["role"] == Role.BROKER and node["pid"] is not None]
    if not brokers:
        raise BootstrapError(f"no broker of {name} is running; see `sluicegate status`")
    return [_given(node["listeners"][INTERNAL]) for node in brokers]


def security_here(data_dir: Path, cluster: str | None) -> ClientSecurity:
    """Return the settings for the listener INTERNAL of brokers of `up`: TLS, or PLAINTEXT. Raises BootstrapError."""
    name, found = _cluster_here(data_dir, cluster)
    if (told := found.get("security")) is None:
        return PLAINTEXT
    folder = Path(told["secret"])
    try:
        data = {path.name: path.read_bytes() for path in folder.iterdir() if path.name[0] != "."}
        return security_in(data, folder.name, told["server_name"])
    except (OSError, NoNodeSecurityError) as error:
        raise BootstrapError(f"the certificate for the brokers of {name} cannot be read: {error}") from None


def _cluster_here(data_dir: Path, cluster: str | None) -> tuple[str, Mapping[str, Any]]:
    """Return the cluster's name and its entry in state.json. Raises BootstrapError."""
    try:
        clusters = read_state(data_dir)["clusters"]
    except DataDirError as error:
        raise BootstrapError(f"{error}; or name a broker with --bootstrap-server HOST:PORT") from None
    if cluster is None and len(clusters) != 1:
        raise BootstrapError(f"`up` runs the clusters {', '.join(sorted(clusters))}; choose one with --cluster")
    name = cluster or next(iter(clusters))
    if name not in clusters:
        raise BootstrapError(f"--cluster {name}: `up` runs {', '.join(sorted(clusters))}")
    return name, clusters[name]


def _given(text: str) -> Address:
    try:
        return parse_address(text, "--bootstrap-server")
    except AddressError as error:
        raise BootstrapError(str(error)) from None
