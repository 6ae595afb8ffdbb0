"""The static settings of one process: server.properties, checked and typed. Pure.

Raises ConfigError with file, key and what is allowed; the process then ends with exit code 2.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from broker_runtime.config.broker import BROKER_KEYS, broker_key, split_listener_prefix
from broker_runtime.config.definition import LONG_MAX, Value
from broker_runtime.errors import ConfigError

CONTROLLER_ROLE = "controller"
BROKER_ROLE = "broker"
_PORT = re.compile("[0-9]{1,5}")


@dataclass(frozen=True, slots=True)
class Endpoint:
    listener: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """`values` holds every key's static value, typed; `given` the texts that the file or an override set."""

    source: str
    given: Mapping[str, str]
    values: Mapping[str, Value]
    node_id: int
    roles: frozenset[str]
    listeners: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker_listener: str
    controller_listeners: frozenset[str]
    quorum: tuple[tuple[str, int], ...]
    log_dir: str
    http: tuple[str, int] | None

    @property
    def is_broker(self) -> bool:
        return BROKER_ROLE in self.roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER_ROLE in self.roles

    def integer(self, name: str) -> int:
        value = self.values[name]
        if not isinstance(value, int):
            raise TypeError(f"{name} is not a number")
        return value

    def whole_or_none(self, name: str) -> int | None:
        return None if self.values[name] is None else self.integer(name)

    def text(self, name: str) -> str:
        value = self.values[name]
        if not isinstance(value, str):
            raise TypeError(f"{name} is not text")
        return value

    def flag(self, name: str) -> bool:
        return bool(self.values[name])

    @property
    def unused(self) -> tuple[str, ...]:
        """The given keys that are Apache Kafka's and change nothing here."""
        return tuple(sorted(name for name in self.given if (key := broker_key(name)) is not None and not key.used))

    @property
    def client_listeners(self) -> tuple[Endpoint, ...]:
        """The broker's own listeners: all but the controller's."""
        return tuple(e for e in self.listeners if e.listener not in self.controller_listeners)


def broker_settings(properties: Mapping[str, str], source: str = "server.properties") -> BrokerSettings:
    try:
        return _settings(properties, source)
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None


def _settings(given: Mapping[str, str], source: str) -> BrokerSettings:
    values: dict[str, Value] = {name: key.default for name, key in BROKER_KEYS.items()}
    for name, text in given.items():
        key = broker_key(name)
        if key is None:
            raise ConfigError(f"{name} is not a key of this broker; docs/reference/broker-configuration.md lists them")
        value = key.parse(text)
        if key.used:
            values[name] = value
    if values["node.id"] is None:
        raise ConfigError("node.id is missing; give each node of the cluster its own number")
    _derive_log_times(given, values)
    if "log.dirs" not in given and values["log.dir"] is not None:
        values["log.dirs"] = values["log.dir"]
    roles = frozenset(_tuple(values["process.roles"]))
    listeners = _endpoints(_tuple(values["listeners"]), "listeners")
    controller_listeners = _controller_listeners(values, roles, listeners)
    advertised = _advertised(values, listeners, controller_listeners)
    _check_prefixes(given, listeners)
    _check_protocols(_tuple(values["listener.security.protocol.map"]), listeners)
    _check_per_ip(values)
    _check_rack(values)
    return BrokerSettings(
        source=source,
        given=dict(given),
        values=values,
        node_id=int(values["node.id"]),  # type: ignore[arg-type]
        roles=roles,
        listeners=listeners,
        advertised=advertised,
        inter_broker_listener=_inter_broker(values, roles, listeners, controller_listeners),
        controller_listeners=controller_listeners,
        quorum=_quorum(values, roles),
        log_dir=_single_log_dir(_tuple(values["log.dirs"])),
        http=_http(values["sluicegate.http.listener"]),
    )


def _tuple(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def _derive_log_times(given: Mapping[str, str], values: dict[str, Value]) -> None:
    """Kafka's precedence: ms over minutes over hours."""
    if "log.retention.ms" not in given:
        minutes, hours = values["log.retention.minutes"], values["log.retention.hours"]
        if isinstance(minutes, int):
            values["log.retention.ms"] = -1 if minutes < 0 else minutes * 60_000
        elif isinstance(hours, int):
            values["log.retention.ms"] = -1 if hours < 0 else hours * 3_600_000
    if "log.roll.ms" not in given and isinstance(values["log.roll.hours"], int):
        values["log.roll.ms"] = min(values["log.roll.hours"] * 3_600_000, LONG_MAX)


def _endpoints(items: tuple[str, ...], key: str) -> tuple[Endpoint, ...]:
    found = []
    for item in items:
        name, separator, address = item.partition("://")
        if not separator or not name:
            raise ConfigError(f"{key}: {item!r} must be NAME://host:port")
        host, port = split_address(address, key)
        found.append(Endpoint(name.upper(), host, port))
    names = [endpoint.listener for endpoint in found]
    if len(set(names)) != len(names):
        raise ConfigError(f"{key}: each listener name may be used once")
    if not found:
        raise ConfigError(f"{key}: at least one NAME://host:port is needed")
    return tuple(found)


def split_address(address: str, key: str) -> tuple[str, int]:
    """`host:port` or `[v6]:port`; raises ConfigError naming `key`."""
    host, _, port = address.rpartition(":")
    if _PORT.fullmatch(port) is None or int(port) > 65535:
        raise ConfigError(f"{key}: {address!r} must be host:port with a port between 0 and 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _controller_listeners(
    values: Mapping[str, Value], roles: frozenset[str], listeners: tuple[Endpoint, ...]
) -> frozenset[str]:
    names = frozenset(name.upper() for name in _tuple(values["controller.listener.names"]))
    if roles == {CONTROLLER_ROLE}:
        names = names or frozenset(endpoint.listener for endpoint in listeners)
        strangers = [e.listener for e in listeners if e.listener not in names]
        if strangers:
            raise ConfigError(
                f"listeners: a controller has no use for {', '.join(strangers)}; see controller.listener.names"
            )
    elif CONTROLLER_ROLE not in roles and any(e.listener in names for e in listeners):
        raise ConfigError(
            "listeners: a broker that is not a controller must not open a listener of controller.listener.names"
        )
    return names


def _advertised(
    values: Mapping[str, Value], listeners: tuple[Endpoint, ...], controller: frozenset[str]
) -> tuple[Endpoint, ...]:
    items = _tuple(values["advertised.listeners"])
    advertised = _endpoints(items, "advertised.listeners") if items else listeners
    own = {endpoint.listener for endpoint in listeners}
    for endpoint in advertised:
        if endpoint.listener not in own:
            raise ConfigError(f"advertised.listeners: {endpoint.listener} is not one of listeners")
        if endpoint.host in ("0.0.0.0", "::") and endpoint.listener not in controller:
            raise ConfigError(
                f"advertised.listeners: clients cannot reach {endpoint.host}; name an address for {endpoint.listener}"
            )
    return tuple(e for e in advertised if e.listener not in controller)


def _inter_broker(
    values: Mapping[str, Value],
    roles: frozenset[str],
    listeners: tuple[Endpoint, ...],
    controller: frozenset[str],
) -> str:
    clients = [e.listener for e in listeners if e.listener not in controller]
    if BROKER_ROLE not in roles:
        return ""
    if not clients:
        raise ConfigError("listeners: a broker needs a listener that is not in controller.listener.names")
    wanted = values["inter.broker.listener.name"]
    if wanted is None:
        return "PLAINTEXT" if "PLAINTEXT" in clients else clients[0]
    if str(wanted).upper() not in clients:
        raise ConfigError(f"inter.broker.listener.name: {wanted} is not one of listeners ({', '.join(clients)})")
    return str(wanted).upper()


def _quorum(values: Mapping[str, Value], roles: frozenset[str]) -> tuple[tuple[str, int], ...]:
    key = "controller.quorum.bootstrap.servers"
    servers = tuple(split_address(item, key) for item in _tuple(values[key])) or _voters(values)
    if CONTROLLER_ROLE not in roles and not servers:
        raise ConfigError(f"{key}: a broker that is not a controller must be told where the controller is (host:port)")
    return servers


def _voters(values: Mapping[str, Value]) -> tuple[tuple[str, int], ...]:
    key = "controller.quorum.voters"
    found = []
    for item in _tuple(values[key]):
        node_id, separator, address = item.partition("@")
        if not separator or not node_id.isascii() or not node_id.isdecimal():
            raise ConfigError(f"{key}: {item!r} must be id@host:port")
        found.append(split_address(address, key))
    return tuple(found)


def _single_log_dir(items: tuple[str, ...]) -> str:
    if len(items) != 1:
        raise ConfigError("log.dirs: exactly one folder is supported")
    return items[0]


def _http(value: Value) -> tuple[str, int] | None:
    return split_address(str(value), "sluicegate.http.listener") if value else None


def _check_prefixes(given: Mapping[str, str], listeners: tuple[Endpoint, ...]) -> None:
    names = {endpoint.listener.lower() for endpoint in listeners}
    for key in given:
        listener, _ = split_listener_prefix(key)
        if listener is not None and listener not in names:
            raise ConfigError(f"{key}: {listener} is not one of listeners ({', '.join(sorted(names))})")


def _check_protocols(items: tuple[str, ...], listeners: tuple[Endpoint, ...]) -> None:
    """The map may name more than there is: Apache Kafka's own file has a line for each protocol."""
    opened = {endpoint.listener for endpoint in listeners}
    for item in items:
        name, separator, protocol = item.partition(":")
        if not separator or (protocol != "PLAINTEXT" and name.upper() in opened):
            raise ConfigError(
                f"listener.security.protocol.map: {item!r} must be NAME:PLAINTEXT; nothing else is served"
            )


def _check_per_ip(values: Mapping[str, Value]) -> None:
    if values["max.connections.per.ip"] == 0 and not values["max.connections.per.ip.overrides"]:
        raise ConfigError("max.connections.per.ip: 0 shuts everybody out; it needs max.connections.per.ip.overrides")


def _check_rack(values: Mapping[str, Value]) -> None:
    if values["broker.rack"] is not None and values["sluicegate.broker.rack.file"] is not None:
        raise ConfigError("broker.rack: sluicegate.broker.rack.file says it as well; keep one of the two")
