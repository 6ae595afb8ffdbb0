"""The layout of a bundled cluster's nodes: ids, listeners, ports and configuration.

Properties that all nodes of a role share go into one file. A node's own properties (id, addresses, folder) are passed
as `--override key=value`: by Kubernetes with `$(POD_IP)` and the like, on a laptop with real values.

Neither contains dynamic configuration, so the file of a process that starts late is never outdated: see
`broker_config`, and `quotas` for connection limits. A change of this layout needs a restart (see `restart_reasons`),
except for client listeners: `listeners` describes how they change on running brokers.
"""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from ipaddress import ip_network
from typing import Any

from kafka_bytes.uuids import decode_uuid, encode_uuid
from sluicegate_operator.api.configs.config_keys import DYNAMIC_CONFIG_KEYS, LISTENER_PREFIX
from sluicegate_operator.api.models.broker_cluster import BrokerCluster, ConnectionQuotaSettings
from sluicegate_operator.api.models.broker_listener import BrokerListener
from sluicegate_operator.api.models.parts.broker_tags import tag_key
from sluicegate_operator.api.schema.metadata import API_VERSION
from sluicegate_operator.planning.layout.listener_security import (
    is_admitted,
    security_files,
    security_properties,
    store_of,
)
from sluicegate_operator.planning.layout.node_certificates import (
    SSL,
    node_files,
    node_security,
    nodes_store,
    with_node_principals,
)
from sluicegate_operator.planning.status.seniority import seniority
from sluicegate_operator.resources.labels import ROLE_LABEL
from sluicegate_operator.resources.secrets.listener_stores import STORES_PATH, ListenerStore

INTERNAL = "INTERNAL"
"""Listener for traffic between brokers and from the operator to brokers; no ConnectionQuota can target it."""
INTERNAL_PORT = 9091
PROTOCOLS = "listener.security.protocol.map"
PLAINTEXT = "PLAINTEXT"
CONTROLLER = "CONTROLLER"
CONTROLLER_PORT = 9093
HTTP_PORT = 9404
FIRST_CONTROLLER_ID = 1000
"""The id of the first controller. It is above every broker id, because replicas is at most 100."""


class Role(StrEnum):
    """The role of a node in its cluster: broker or controller."""

    BROKER = "broker"
    CONTROLLER = "controller"


def role_of(found: Mapping[str, Any]) -> Role:
    """Return the role that the labels of a pod or a StatefulSet name."""
    return Role(found["metadata"]["labels"][ROLE_LABEL])


@dataclass(frozen=True, slots=True)
class ListenerPort:
    """A listener's port.

    `name` is Kafka's name; `resource` the BrokerListener's metadata.name, None for INTERNAL.
    """

    name: str
    port: int
    resource: str | None = None
    protocol: str = PLAINTEXT


@dataclass(frozen=True, slots=True)
class ListenerClash:
    """A BrokerListener that is left out, and the message for its status."""

    resource: str
    message: str


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """A cluster's nodes, their ports and their properties, derived from its manifests."""

    name: str
    namespace: str
    cluster_id: str
    broker_ids: tuple[int, ...]
    controller_ids: tuple[int, ...]
    listeners: tuple[ListenerPort, ...]
    """Listeners of the brokers, INTERNAL first."""
    broker_properties: Mapping[str, str]
    controller_properties: Mapping[str, str]
    clashes: tuple[ListenerClash, ...] = ()
    stores: tuple[ListenerStore, ...] = ()
    """Files of secured listeners in the brokers' pods."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Keys of the brokers that name files of `stores`.

    The paths are below the folder of a NodePlace.
    """
    nodes_store: ListenerStore | None = None
    """Files for TLS between nodes, in the pods of all nodes."""
    nodes_files: Mapping[str, str] = field(default_factory=dict)
    """Keys of all nodes that name files of `nodes_store`."""

    def with_properties(self, brokers: Mapping[str, str], controllers: Mapping[str, str]) -> "ClusterLayout":
        """Return the same layout with other properties."""
        return replace(self, broker_properties=brokers, controller_properties=controllers)

    def properties(self, role: Role) -> Mapping[str, str]:
        return self.broker_properties if role is Role.BROKER else self.controller_properties

    def node_ids(self, role: Role) -> tuple[int, ...]:
        return self.broker_ids if role is Role.BROKER else self.controller_ids

    def role_listeners(self, role: Role) -> tuple[ListenerPort, ...]:
        return self.listeners if role is Role.BROKER else (ListenerPort(CONTROLLER, CONTROLLER_PORT),)

    def role_stores(self, role: Role) -> tuple[ListenerStore, ...]:
        """Return the files that nodes of the role need."""
        of_nodes = () if self.nodes_store is None else (self.nodes_store,)
        return (*of_nodes, *self.stores) if role is Role.BROKER else of_nodes

    def role_files(self, role: Role) -> Mapping[str, str]:
        """Return the configuration of nodes of the role that names files: by key, a path in `role_stores`."""
        return {**self.nodes_files, **self.files} if role is Role.BROKER else self.nodes_files


@dataclass(frozen=True, slots=True)
class NodePlace:
    """The hosts, folders and ports of one node.

    `ports`, by listener name, replaces the layout's ports: on a laptop every node needs its own.
    """

    bind_host: str
    advertised_host: str
    log_dir: str
    controller_addresses: tuple[str, ...]
    """host:port of each controller."""
    shutdown_timeout_ms: int | None = None
    """Milliseconds that a stopping broker waits for its controller; None for the broker's default."""
    http_port: int = HTTP_PORT
    ports: Mapping[str, int] | None = None
    rack_file: str | None = None
    """File from which the broker reads its rack; None for a broker without a rack."""
    stores_path: str = STORES_PATH
    """Folder with the files of secured listeners."""


def plan_cluster(
    cluster: BrokerCluster, listeners: Sequence[BrokerListener], broker_count: int | None = None
) -> ClusterLayout:
    """Return the layout of a bundled cluster.

    `listeners` may contain those of other clusters, which are ignored. `broker_count` is the number that `scale`
    currently wants, by default that of the spec. Raises ValueError for an external cluster.
    """
    if cluster.spec.brokers is None:
        raise ValueError(f"BrokerCluster {cluster.name} has runtime External, so it has no layout")
    ports, clashes = _listener_ports(cluster, listeners)
    served = {port.resource for port in ports}
    own = [listener for listener in cluster_listeners(cluster, listeners) if listener.name in served]
    brokers = cluster.spec.brokers.replicas if broker_count is None else broker_count
    config = {**with_node_principals(cluster, static_config(cluster)), **quota_window(cluster.spec.connection_quota)}
    return ClusterLayout(
        name=cluster.name,
        namespace=cluster.namespace,
        cluster_id=cluster_id(cluster),
        broker_ids=tuple(range(brokers)),
        controller_ids=tuple(range(FIRST_CONTROLLER_ID, FIRST_CONTROLLER_ID + cluster.spec.controller_count)),
        listeners=ports,
        broker_properties={
            **config,
            **node_security(cluster, (INTERNAL, CONTROLLER)),
            "process.roles": "broker",
            "controller.listener.names": CONTROLLER,
            "inter.broker.listener.name": INTERNAL,
            PROTOCOLS: protocol_map({port.name: port.protocol for port in ports}),
            **_trusted(ports, listeners, cluster),
            **security_properties(own),
        },
        controller_properties={
            **config,
            **node_security(cluster, (CONTROLLER,)),
            **_journal(cluster),
            "process.roles": "controller",
            "controller.listener.names": CONTROLLER,
            # Without the brokers' listeners: a new listener rolls brokers only.
            PROTOCOLS: f"{CONTROLLER}:{_node_protocol(cluster)}",
        },
        clashes=clashes,
        files={**node_files(cluster, (INTERNAL,)), **security_files(own)},
        stores=tuple(sorted(store for listener in own if (store := store_of(listener)) is not None)),
        nodes_store=nodes_store(cluster),
        nodes_files=node_files(cluster, (CONTROLLER,)),
    )


def without_client_listeners(layout: ClusterLayout) -> ClusterLayout:
    """Return the layout without client listeners, but with the files and keys of secured ones.

    Brokers read those only at their start, before a BrokerListener exists.
    """
    internal = tuple(port for port in layout.listeners if port.resource is None)
    gone = {trusted_key(port.name) for port in layout.listeners} | {PROTOCOLS}
    lasting = {key: value for key, value in layout.broker_properties.items() if key not in gone}
    properties = lasting | {PROTOCOLS: protocol_map({port.name: port.protocol for port in internal})}
    return replace(layout, listeners=internal, broker_properties=properties)


def _node_protocol(cluster: BrokerCluster) -> str:
    return PLAINTEXT if cluster.spec.cluster_ca is None else SSL


def protocol_map(protocols: Mapping[str, str]) -> str:
    """Return the value of listener.security.protocol.map for listeners with these Kafka names and protocols.

    The controllers' listener has the protocol of INTERNAL.
    """
    of_controllers = {CONTROLLER: protocols.get(INTERNAL, PLAINTEXT)}
    return ",".join(f"{name}:{protocol}" for name, protocol in (of_controllers | dict(protocols)).items())


def trusted_key(listener: str) -> str:
    """Return the key for the proxies whose PROXY header brokers trust. `listener` is the listener's name in Kafka."""
    return f"{LISTENER_PREFIX}{listener.lower()}.proxy.protocol.trusted"


def _trusted(
    ports: Sequence[ListenerPort], listeners: Sequence[BrokerListener], cluster: BrokerCluster
) -> dict[str, str]:
    proxies = {listener.name: listener.spec.proxy_protocol for listener in cluster_listeners(cluster, listeners)}
    trusted = {port.name: proxies[port.resource] for port in ports if port.resource is not None}
    return {
        trusted_key(name): ",".join(networks(proxy.trusted)) for name, proxy in trusted.items() if proxy is not None
    }


def networks(ranges: Iterable[str]) -> tuple[str, ...]:
    """Return the ranges in the form that brokers expect: host bits cleared, sorted, each once."""
    return tuple(sorted({str(ip_network(text, strict=False)) for text in ranges}))


def _journal(cluster: BrokerCluster) -> dict[str, str]:
    """Return the properties of the controllers' journal.

    A single controller has a file on its own volume; several share a journal, so that any of them can take over. The
    shared journal's name is unique to this cluster object. So a cluster that is deleted and created again under the
    same name does not load the old journal, which the garbage collector is about to delete.
    """
    if not cluster.spec.shares_journal:
        return {"sluicegate.controller.journal": "file"}
    journal = {
        "sluicegate.controller.journal": "kubernetes",
        "sluicegate.controller.journal.name": journal_name(cluster),
        "sluicegate.controller.journal.namespace": cluster.namespace,
    }
    if uid := cluster.metadata.uid:
        owner = f"{API_VERSION}/{type(cluster).__name__}/{cluster.name}/{uid}"
        journal["sluicegate.controller.journal.owner"] = owner
    return journal


def journal_name(cluster: BrokerCluster) -> str:
    """Return the name of the journal that controllers share, and of their Lease."""
    return f"{cluster.name}-journal-{_identity(cluster).hex[:8]}"


def cluster_id(cluster: BrokerCluster) -> str:
    """Return the cluster id in Kafka's form: 22 characters of base64."""
    if cluster.spec.cluster_id is not None:
        return cluster.spec.cluster_id
    return encode_uuid(_identity(cluster))


def _identity(cluster: BrokerCluster) -> uuid.UUID:
    """Return the identity of the cluster's data.

    It is spec.clusterId if set, else the object's uid. Without an API server it is derived from the object's name.
    """
    if cluster.spec.cluster_id is not None:
        return decode_uuid(cluster.spec.cluster_id)
    uid = cluster.metadata.uid
    return uuid.UUID(uid) if _is_uuid(uid) else uuid.uuid5(uuid.NAMESPACE_DNS, f"{cluster.name}.{cluster.namespace}")


def node_overrides(layout: ClusterLayout, node_id: int | str, role: Role, place: NodePlace) -> dict[str, str]:
    """Return the properties of one node alone.

    `node_id` and the hosts may contain `$(NAME)` for Kubernetes to expand.
    """
    ports = {port.name: port.port for port in layout.role_listeners(role)} | dict(place.ports or {})
    names = [port.name for port in layout.role_listeners(role)]
    overrides = {
        "node.id": str(node_id),
        "cluster.id": layout.cluster_id,
        "listeners": ",".join(_endpoint(name, place.bind_host, ports[name]) for name in names),
    }
    if role is Role.BROKER:
        advertised = (_endpoint(name, place.advertised_host, ports[name]) for name in names)
        overrides["advertised.listeners"] = ",".join(advertised)
    if role is Role.BROKER and place.shutdown_timeout_ms is not None:
        overrides["sluicegate.controlled.shutdown.timeout.ms"] = str(place.shutdown_timeout_ms)
    overrides |= {key: f"{place.stores_path}/{file}" for key, file in layout.role_files(role).items()}
    if role is Role.BROKER and place.rack_file is not None:
        overrides["sluicegate.broker.rack.file"] = place.rack_file
    overrides |= {
        "controller.quorum.bootstrap.servers": ",".join(place.controller_addresses),
        "log.dirs": place.log_dir,
        "sluicegate.http.listener": f"{_host(place.bind_host)}:{place.http_port}",
    }
    return overrides


def _endpoint(name: str, host: str, port: int) -> str:
    return f"{name}://{_host(host)}:{port}"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _is_uuid(text: str) -> bool:
    try:
        uuid.UUID(text)
    except ValueError:
        return False
    return True


def _listener_ports(
    cluster: BrokerCluster, listeners: Sequence[BrokerListener]
) -> tuple[tuple[ListenerPort, ...], tuple[ListenerClash, ...]]:
    """Return the brokers' ports and the clashes: the oldest BrokerListener keeps a name or port that two use."""
    taken = [ListenerPort(INTERNAL, INTERNAL_PORT, protocol=_node_protocol(cluster))]
    clashes = []
    for listener in sorted(filter(is_admitted, cluster_listeners(cluster, listeners)), key=seniority):
        wanted = ListenerPort(listener.spec.name, listener.spec.port, listener.name, listener.spec.security_protocol)
        other = next((port for port in taken if port.name == wanted.name or port.port == wanted.port), None)
        if other is None:
            taken.append(wanted)
            continue
        what = f"name {wanted.name}" if other.name == wanted.name else f"port {wanted.port}"
        sentence = f"{what} is already used by BrokerListener {other.resource}; choose another"
        clashes.append(ListenerClash(listener.name, sentence))
    internal, *others = taken
    return (internal, *sorted(others, key=lambda port: port.name)), tuple(clashes)


def cluster_listeners(cluster: BrokerCluster, listeners: Sequence[BrokerListener]) -> list[BrokerListener]:
    """Return the BrokerListeners of the cluster that are not being deleted."""
    return [
        listener
        for listener in listeners
        if listener.spec.cluster_ref.name == cluster.name
        and listener.namespace == cluster.namespace
        and listener.metadata.deletion_timestamp is None
    ]


def dynamic_config(cluster: BrokerCluster) -> dict[str, str]:
    """Return the part of spec.config that changes while brokers run, and the tags of all brokers.

    For an external cluster, return all of spec.config.
    """
    if cluster.spec.is_external:
        return dict(cluster.spec.config or {})
    config = {key: value for key, value in (cluster.spec.config or {}).items() if key in DYNAMIC_CONFIG_KEYS}
    tags = (cluster.spec.brokers.tags if cluster.spec.brokers else None) or {}
    return {**config, **{tag_key(name): value for name, value in tags.items()}}


def static_config(cluster: BrokerCluster) -> dict[str, str]:
    return {key: value for key, value in (cluster.spec.config or {}).items() if key not in DYNAMIC_CONFIG_KEYS}


def silence_max_s(cluster: BrokerCluster) -> float:
    """Return the seconds without a heartbeat after which a roll treats a broker as frozen.

    They are a third of the broker's session, and at least one and a half heartbeat intervals.
    """
    session_ms = _milliseconds(cluster, "broker.session.timeout.ms", 9_000)
    heartbeat_ms = _milliseconds(cluster, "broker.heartbeat.interval.ms", 2_000)
    return max(session_ms / 3, heartbeat_ms * 1.5) / 1000


def _milliseconds(cluster: BrokerCluster, key: str, default: int) -> int:
    return int(static_config(cluster).get(key, default))


def quota_window(settings: ConnectionQuotaSettings | None) -> dict[str, str]:
    """Return the static configuration keys by which brokers measure rates."""
    if settings is None:
        return {}
    return {
        "connection.quota.strategy": settings.strategy,
        "connection.quota.ip.action": settings.ip_action,
        "quota.window.num": str(settings.window_num),
        "quota.window.size.seconds": str(settings.window_size_seconds),
    }
