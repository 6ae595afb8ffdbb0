"""Places the nodes of a layout on this machine: their ports, folders and properties."""

from sluicegate_operator.fleet.local.local_data import LOOPBACK, DataDir, PortBook
from sluicegate_operator.fleet.local.local_nodes import LocalNode
from sluicegate_operator.planning.layout.canonical import process_revision
from sluicegate_operator.planning.layout.cluster_layout import (
    CONTROLLER,
    ClusterLayout,
    NodePlace,
    Role,
    node_overrides,
)
from sluicegate_operator.resources.properties import render_properties

SHUTDOWN_TIMEOUT_MS = 8_000
"""Limit of a controlled shutdown in milliseconds. It is below the deadline after which a process is killed."""
HTTP = "http"


class NodePlacement:
    """Places nodes on this machine. Owns the ports of all nodes, which the data folder remembers."""

    def __init__(self, data: DataDir) -> None:
        self._data = data
        self._ports = PortBook(data.read_ports())

    def place(self, layout: ClusterLayout) -> list[LocalNode]:
        """Place all nodes of a cluster.

        Ports come first: the properties of brokers contain the ports of their controllers.
        """
        nodes = [(role, node_id) for role in (Role.CONTROLLER, Role.BROKER) for node_id in layout.node_ids(role)]
        ports = {node_id: self._node_ports(layout, role, node_id) for role, node_id in nodes}
        http = {node_id: self._ports.port_for(f"{layout.name}/{node_id}/{HTTP}", None) for _, node_id in nodes}
        if self._ports.ports != self._data.read_ports():
            self._data.write_ports(self._ports.ports)
        controllers = tuple(f"{LOOPBACK}:{ports[node_id][CONTROLLER]}" for node_id in layout.controller_ids)
        placed = []
        for role, node_id in nodes:
            place = NodePlace(
                bind_host=LOOPBACK,
                advertised_host=LOOPBACK,
                log_dir=str(self._data.node_dir(layout.name, node_id) / "data"),
                controller_addresses=controllers,
                shutdown_timeout_ms=SHUTDOWN_TIMEOUT_MS,
                http_port=http[node_id],
                ports=ports[node_id],
            )
            files = self._files(layout, role)
            properties = {**layout.properties(role), **node_overrides(layout, node_id, role, place), **files}
            text, revision = render_properties(properties), process_revision(properties)
            placed.append(LocalNode((layout.name, node_id), role, ports[node_id], http[node_id], text, revision))
        return placed

    def _files(self, layout: ClusterLayout, role: Role) -> dict[str, str]:
        """Return the keys that name files of secured listeners: nodes read them in the folders of Secrets."""
        secrets = {store.folder: store.secret for store in layout.role_stores(role)}
        namespace = self._data.secrets_dir / layout.namespace
        places = {key: file.split("/", 1) for key, file in layout.role_files(role).items()}
        return {key: str(namespace / secrets[folder] / file) for key, (folder, file) in places.items()}

    def _node_ports(self, layout: ClusterLayout, role: Role, node_id: int) -> dict[str, int]:
        """Return the ports of a node.

        All nodes share one host: the port of a client listener is the first broker's, the next port the second
        broker's.
        """
        ports = {}
        for listener in layout.role_listeners(role):
            wanted = None if listener.resource is None else listener.port + node_id
            # The wanted port is part of the stored key, so a changed port in the manifest gets another port here.
            key = f"{layout.name}/{node_id}/{listener.name}:{listener.port}"
            ports[listener.name] = self._ports.port_for(key, wanted)
        return ports
