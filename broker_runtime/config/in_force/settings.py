"""The static settings of one process: server.properties, checked and typed. Pure.

Raises ConfigError with file, key and allowed values; the process then ends with exit code 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import Self, TypeVar

from broker_runtime.config.declaring.definition import LONG_MAX, Key, Value
from broker_runtime.config.declaring.endpoints import Endpoint, SecurityProtocol, ServerAddress
from broker_runtime.config.declaring.listeners import (
    Protocols,
    advertised_of,
    check_ports,
    endpoints,
    protocol_of,
    protocols_of,
    split_address,
)
from broker_runtime.config.in_force.limit_rules import proxy_problem
from broker_runtime.config.keys.broker import BROKER_KEYS, BrokerConfig, broker_key, hint, split_listener_prefix
from broker_runtime.config.keys.groups import group_problem
from broker_runtime.config.keys.tags import tags_problem
from broker_runtime.errors import ConfigError

CONTROLLER_ROLE = "controller"
BROKER_ROLE = "broker"
T = TypeVar("T", bound=Value)


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """The settings with which one process was started.

    - `config`: the typed static value of every key.
    - `values`: the same values by the names of keys, and the values of set keys with a listener's prefix.
    - `given`: the texts that the file or an override has set.
    - `source`: the origin of these texts, for error messages.
    """

    source: str
    given: Mapping[str, str] = field(repr=False)
    values: Mapping[str, Value] = field(repr=False)
    config: BrokerConfig
    node_id: int
    roles: frozenset[str]
    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker_listener: str
    controller_listeners: frozenset[str]
    quorum: tuple[ServerAddress, ...]
    """The controllers of the cluster, as far as configured."""
    log_dir: str
    http: tuple[str, int] | None

    @property
    def is_broker(self) -> bool:
        return BROKER_ROLE in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER_ROLE in self.roles

    def with_value(self, key: Key[T], value: T) -> Self:
        values = {**self.values, key.name: value}
        return replace(self, values=values, config=BrokerConfig.from_values(values))

    @property
    def unused(self) -> tuple[str, ...]:
        """Return the given keys that are Apache Kafka's and change nothing here."""
        return tuple(sorted(name for name in self.given if (key := broker_key(name)) is not None and not key.used))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Return a sentence for each setting that is allowed and probably a mistake."""
        found = []
        if self.unused:
            found.append(f"these keys of Apache Kafka change nothing here: {', '.join(self.unused)}")
        heartbeat_ms, session_ms = self.config.broker_heartbeat_interval_ms, self.config.broker_session_timeout_ms
        if 2 * heartbeat_ms > session_ms:
            found.append(
                f"broker.heartbeat.interval.ms ({heartbeat_ms}) is more than half of broker.session.timeout.ms "
                f"({session_ms}), so that one late heartbeat fences a broker: lower the first value or raise the "
                "second"
            )
        return tuple(found)

    @property
    def controller_listener(self) -> str:
        """Return the listener by which brokers connect to controllers, by its name in upper case; may be empty."""
        names = self.config.controller_listener_names
        return names[0].upper() if names else min(self.controller_listeners, default="")

    @property
    def client_listeners(self) -> tuple[Endpoint, ...]:
        """Return the broker's own listeners: all but the controller's."""
        return tuple(e for e in self.listeners if e.listener not in self.controller_listeners)

    @property
    def controller_endpoints(self) -> tuple[Endpoint, ...]:
        """Return the controller's listeners that this process opens."""
        return tuple(e for e in self.listeners if e.listener in self.controller_listeners)


def broker_settings(properties: Mapping[str, str], source: str = "server.properties") -> BrokerSettings:
    try:
        return _settings(properties, source)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def _settings(given: Mapping[str, str], source: str) -> BrokerSettings:
    values = _values(given)
    config = BrokerConfig.from_values(values)
    if config.node_id is None:
        raise ConfigError("node.id is missing; give each node of the cluster its own number")
    roles = frozenset(config.process_roles)
    protocols = protocols_of(config.listener_security_protocol_map or ())
    listeners = endpoints(config.listeners, "listeners", protocols)
    controller_listeners = _controller_listeners(config, roles, listeners)
    advertised = advertised_of(config.advertised_listeners, listeners, controller_listeners, protocols)
    inter_broker_listener = _inter_broker(config, roles, listeners, controller_listeners)
    _check_prefixes(given, listeners, controller_listeners)
    check_ports(listeners)
    _check_proxies(values, inter_broker_listener)
    _check_per_ip(config)
    _check_authentication_delay(config)
    _check_rack(config)
    _check_groups(config)
    _check_tags(given)
    quorum = _quorum(config, roles, protocols)
    if config.authorizer_class_name:
        rules = import_module("broker_runtime.config.in_force.authorizer_rules")
        rules.check_authorizer(config, roles, listeners, controller_listeners, quorum)
    return BrokerSettings(
        source=source,
        given=dict(given),
        values=values,
        config=config,
        node_id=config.node_id,
        roles=roles,
        listeners=listeners,
        advertised=advertised,
        inter_broker_listener=inter_broker_listener,
        controller_listeners=controller_listeners,
        quorum=quorum,
        log_dir=_single_log_dir(config.log_dirs),
        http=_http(config.sluicegate_http_listener),
    )


def _values(given: Mapping[str, str]) -> Mapping[str, Value]:
    """Values by the names of keys: the given ones, derived ones, and defaults."""
    typed: dict[str, Value] = {}
    for name, text in given.items():
        key = broker_key(name)
        if key is None:
            raise ConfigError(
                f"{name} is not a key of this broker{hint(name)}; docs/reference/broker-configuration.md lists them"
            )
        value = key.parse(text)
        if key.used:
            typed[name] = value
    defaults = {name: key.default for name, key in BROKER_KEYS.items()}
    return {**defaults, **_derived(BrokerConfig.from_values(typed)), **typed}


def _derived(given: BrokerConfig) -> Mapping[str, Value]:
    """Values derived from alternative keys: ms override minutes, which override hours, as in Kafka."""
    found: dict[str, Value] = {}
    if given.log_retention_minutes is not None:
        found[BrokerConfig.log_retention_ms.name] = _milliseconds(given.log_retention_minutes, 60_000)
    else:
        found[BrokerConfig.log_retention_ms.name] = _milliseconds(given.log_retention_hours, 3_600_000)
    found[BrokerConfig.log_roll_ms.name] = min(given.log_roll_hours * 3_600_000, LONG_MAX)
    if given.log_dir is not None:
        found[BrokerConfig.log_dirs.name] = given.log_dir
    return found


def _milliseconds(count: int, unit_ms: int) -> int:
    """Return the count in milliseconds. Any negative number means unlimited, which is -1."""
    return -1 if count < 0 else count * unit_ms


def _controller_listeners(
    config: BrokerConfig, roles: frozenset[str], listeners: tuple[Endpoint, ...]
) -> frozenset[str]:
    names = frozenset(name.upper() for name in config.controller_listener_names or ())
    opened = [endpoint.listener for endpoint in listeners]
    if CONTROLLER_ROLE in roles and names and names.isdisjoint(opened):
        raise ConfigError(
            f"controller.listener.names: this node is a controller, but none of {', '.join(sorted(names))} is one "
            f"of listeners ({', '.join(opened)}); name the controller's listener, or remove the key"
        )
    if roles == {CONTROLLER_ROLE}:
        names = names or frozenset(opened)
        strangers = [name for name in opened if name not in names]
        if strangers:
            raise ConfigError(
                f"listeners: a controller does not use {', '.join(strangers)}; see controller.listener.names"
            )
    elif CONTROLLER_ROLE not in roles and not names.isdisjoint(opened):
        raise ConfigError(
            "listeners: a broker that is not a controller must not open a listener of controller.listener.names"
        )
    return names


def _inter_broker(
    config: BrokerConfig,
    roles: frozenset[str],
    listeners: tuple[Endpoint, ...],
    controller: frozenset[str],
) -> str:
    clients = [e.listener for e in listeners if e.listener not in controller]
    if BROKER_ROLE not in roles:
        return ""
    if not clients:
        raise ConfigError("listeners: a broker needs a listener that is not in controller.listener.names")
    wanted, protocol = config.inter_broker_listener_name, config.security_inter_broker_protocol
    if wanted is not None and protocol is not None:
        raise ConfigError(
            "security.inter.broker.protocol: inter.broker.listener.name is set, too; remove one of the two"
        )
    if protocol is not None:
        return _of_protocol(SecurityProtocol[protocol], [e for e in listeners if e.listener in clients])
    if wanted is None:
        return "PLAINTEXT" if "PLAINTEXT" in clients else clients[0]
    if wanted.upper() not in clients:
        raise ConfigError(f"inter.broker.listener.name: {wanted} is not one of listeners ({', '.join(clients)})")
    return wanted.upper()


def _of_protocol(protocol: SecurityProtocol, listeners: Sequence[Endpoint]) -> str:
    """Return the listener for brokers that has this protocol: the one of its name, else the first."""
    found = [endpoint.listener for endpoint in listeners if endpoint.security_protocol is protocol]
    if not found:
        raise ConfigError(
            f"security.inter.broker.protocol: no listener has the security protocol {protocol.name}; add one to "
            "listeners"
        )
    return protocol.name if protocol.name in found else found[0]


def _quorum(config: BrokerConfig, roles: frozenset[str], protocols: Protocols) -> tuple[ServerAddress, ...]:
    key = "controller.quorum.bootstrap.servers"
    servers = tuple(split_address(item, key) for item in config.controller_quorum_bootstrap_servers or ())
    servers = servers or _voters(config.controller_quorum_voters or ())
    if CONTROLLER_ROLE not in roles and not servers:
        raise ConfigError(f"{key}: a broker that is not a controller needs the address of the controller (host:port)")
    # As in Apache Kafka, brokers connect to the first of these listeners; another node may open it.
    names = [name.upper() for name in config.controller_listener_names or ()]
    protocol = protocol_of(names[0], protocols) if names else SecurityProtocol.PLAINTEXT
    return tuple(ServerAddress(host, port, protocol) for host, port in servers)


def _voters(items: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
    key = "controller.quorum.voters"
    found = []
    for item in items:
        node_id, separator, address = item.partition("@")
        if not separator or not node_id.isascii() or not node_id.isdecimal():
            raise ConfigError(f"{key}: {item!r} must be id@host:port")
        found.append(split_address(address, key))
    return tuple(found)


def _single_log_dir(items: tuple[str, ...]) -> str:
    if len(items) != 1:
        raise ConfigError("log.dirs: exactly one folder is supported")
    return items[0]


def _http(address: str | None) -> tuple[str, int] | None:
    return split_address(address, "sluicegate.http.listener") if address else None


def _check_prefixes(given: Mapping[str, str], listeners: tuple[Endpoint, ...], controller: frozenset[str]) -> None:
    """Check that each prefix names a listener of this node, or the controllers' listener to which it connects."""
    names = {endpoint.listener.lower() for endpoint in listeners} | {name.lower() for name in controller}
    for key in given:
        listener, _ = split_listener_prefix(key)
        if listener is not None and listener not in names:
            raise ConfigError(f"{key}: {listener} is not one of listeners ({', '.join(sorted(names))})")


def _check_proxies(values: Mapping[str, Value], inter_broker: str) -> None:
    problem = inter_broker and proxy_problem(values, inter_broker.lower())
    if problem:
        raise ConfigError(problem)


def _check_per_ip(config: BrokerConfig) -> None:
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        raise ConfigError("max.connections.per.ip: 0 refuses every client; it needs max.connections.per.ip.overrides")


def _check_authentication_delay(config: BrokerConfig) -> None:
    delay_ms, idle_ms = config.connection_failed_authentication_delay_ms, config.connections_max_idle_ms
    if delay_ms >= idle_ms:
        raise ConfigError(
            f"connection.failed.authentication.delay.ms ({delay_ms}) must be less than connections.max.idle.ms "
            f"({idle_ms})"
        )


def _check_rack(config: BrokerConfig) -> None:
    if config.broker_rack is not None and config.sluicegate_broker_rack_file is not None:
        raise ConfigError("broker.rack: sluicegate.broker.rack.file is set, too; remove one of the two")


def _check_groups(config: BrokerConfig) -> None:
    problem = group_problem(config)
    if problem is not None:
        raise ConfigError(problem)


def _check_tags(given: Mapping[str, str]) -> None:
    problem = tags_problem(given)
    if problem is not None:
        raise ConfigError(problem)
