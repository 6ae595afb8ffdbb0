"""The keys of server.properties for a process's identity, the place of its data and its addresses. Pure."""

from typing import TypeVar

from broker_runtime.config.declaring.allowed import at_least, each_of
from broker_runtime.config.declaring.declaration import Config, static
from broker_runtime.config.declaring.definition import Key, Type, UpdateMode

T = TypeVar("T")


def _per_broker(name: str, kind: Type, default: T, doc: str) -> Key[T]:
    return Key(name, kind, default, doc, None, UpdateMode.PER_BROKER)


class IdentityConfig(Config):
    """Configuration keys of the identity of the process, the place of its data, and its own and other addresses."""

    process_roles: Key[tuple[str, ...]] = static(
        "process.roles", Type.LIST, ("broker", "controller"), "Roles of this process.", each_of("broker", "controller")
    )
    node_id: Key[int | None] = static(
        "node.id", Type.INT, None, "Identity of this node; unique in the cluster.", at_least(0)
    )
    broker_rack: Key[str | None] = static(
        "broker.rack", Type.STRING, None, "Rack of this broker, used when replicas are placed."
    )
    sluicegate_broker_rack_file: Key[str | None] = static(
        "sluicegate.broker.rack.file",
        Type.STRING,
        None,
        "A file with the rack, which replaces broker.rack; another process writes it. The broker waits for it before "
        "it starts.",
    )
    sluicegate_broker_rack_timeout_ms: Key[int] = static(
        "sluicegate.broker.rack.timeout.ms",
        Type.LONG,
        120_000,
        "The broker exits if sluicegate.broker.rack.file is still empty after this time.",
        at_least(1),
    )
    cluster_id: Key[str | None] = static(
        "cluster.id",
        Type.STRING,
        None,
        "Identity of the cluster; if it is not given, it is generated and kept in meta.properties.",
    )
    log_dirs: Key[tuple[str, ...]] = static(
        "log.dirs", Type.LIST, ("/tmp/sluicegate-logs",), "The folder of the logs (exactly one)."
    )
    log_dir: Key[tuple[str, ...] | None] = static(
        "log.dir", Type.LIST, None, "The folder of the logs, if log.dirs is not given."
    )
    listeners: Key[tuple[str, ...]] = _per_broker(
        "listeners",
        Type.LIST,
        ("PLAINTEXT://:9092",),
        "NAME://host:port, comma separated; port 0 takes a free port. To change it, send the request to the broker "
        "itself (KIP-226).",
    )
    advertised_listeners: Key[tuple[str, ...] | None] = _per_broker(
        "advertised.listeners",
        Type.LIST,
        None,
        "The addresses that the broker gives to clients; defaults to listeners.",
    )
    listener_security_protocol_map: Key[tuple[str, ...] | None] = _per_broker(
        "listener.security.protocol.map",
        Type.LIST,
        None,
        "NAME:PROTOCOL; the protocol is PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    )
    inter_broker_listener_name: Key[str | None] = static(
        "inter.broker.listener.name",
        Type.STRING,
        None,
        "The listener that brokers use among themselves; load on other listeners never starves it.",
    )
    controller_listener_names: Key[tuple[str, ...] | None] = static(
        "controller.listener.names", Type.LIST, None, "The listeners of the controller."
    )
    controller_quorum_bootstrap_servers: Key[tuple[str, ...] | None] = static(
        "controller.quorum.bootstrap.servers", Type.LIST, None, "host:port of the controllers, for brokers."
    )
    controller_quorum_voters: Key[tuple[str, ...] | None] = static(
        "controller.quorum.voters",
        Type.LIST,
        None,
        "id@host:port of the controllers; used if controller.quorum.bootstrap.servers is not given.",
    )
    sluicegate_http_listener: Key[str | None] = static(
        "sluicegate.http.listener",
        Type.STRING,
        None,
        "host:port for /metrics, /healthz and /readyz; off if it is not given.",
    )
