"""The listeners of a configuration: where they are opened, their advertised addresses, and their protocols. Pure."""

import re
from collections.abc import Collection, Mapping, Sequence

from broker_runtime.config.declaring.endpoints import Endpoint, SecurityProtocol
from broker_runtime.errors import ConfigError

_PORT = re.compile("[0-9]{1,5}")
Protocols = Mapping[str, SecurityProtocol]
"""The protocol of each listener, by the listener's name in upper case."""


def endpoints(items: Sequence[str], key: str, protocols: Protocols) -> tuple[Endpoint, ...]:
    found = []
    for item in items:
        name, separator, address = item.partition("://")
        if not separator or not name:
            raise ConfigError(f"{key}: {item!r} must be NAME://host:port")
        host, port = split_address(address, key)
        listener = name.upper()
        found.append(Endpoint(listener, host, port, protocol_of(listener, protocols)))
    names = [endpoint.listener for endpoint in found]
    if len(set(names)) != len(names):
        raise ConfigError(f"{key}: each listener name may be used once")
    if not found:
        raise ConfigError(f"{key}: at least one NAME://host:port is needed")
    return tuple(found)


def split_address(address: str, key: str) -> tuple[str, int]:
    """Parse an address `host:port` or `[v6]:port`. Raises ConfigError naming `key`."""
    host, _, port = address.rpartition(":")
    if _PORT.fullmatch(port) is None or int(port) > 65535:
        raise ConfigError(f"{key}: {address!r} must be host:port with a port between 0 and 65535")
    return host.removeprefix("[").removesuffix("]"), int(port)


def advertised_of(
    items: Sequence[str] | None, listeners: Sequence[Endpoint], controller: Collection[str], protocols: Protocols
) -> tuple[Endpoint, ...]:
    """Return the advertised endpoints of the listeners for clients. Raises ConfigError.

    Without `items` they are the endpoints at which the listeners are opened. `controller` has the controller's
    listeners, which are left out.
    """
    advertised = endpoints(items, "advertised.listeners", protocols) if items else listeners
    own = {endpoint.listener for endpoint in listeners}
    for endpoint in advertised:
        if endpoint.listener not in own:
            raise ConfigError(f"advertised.listeners: {endpoint.listener} is not one of listeners")
        if endpoint.host in ("0.0.0.0", "::") and endpoint.listener not in controller:
            raise ConfigError(
                f"advertised.listeners: clients cannot reach {endpoint.host}; name an address for {endpoint.listener}"
            )
    return tuple(e for e in advertised if e.listener not in controller)


def check_ports(listeners: Sequence[Endpoint]) -> None:
    """Check that no two listeners have the same port, as in Apache Kafka.

    Port 0 stands for a free one. Raises ConfigError.
    """
    owner: dict[int, str] = {}
    for endpoint in listeners:
        other = owner.setdefault(endpoint.port, endpoint.listener)
        if endpoint.port and other != endpoint.listener:
            raise ConfigError(
                f"listeners: {other} and {endpoint.listener} have the same port, {endpoint.port}; give each its own"
            )


def protocols_of(items: Sequence[str]) -> Protocols:
    """Return the security protocols by listener.

    `items` may name listeners that do not exist: Apache Kafka's own file has a line for each protocol.
    """
    found: dict[str, SecurityProtocol] = {}
    for item in items:
        name, separator, protocol = item.partition(":")
        if not separator or protocol.upper() not in SecurityProtocol.__members__:
            protocols = ", ".join(SecurityProtocol.__members__)
            raise ConfigError(f"listener.security.protocol.map: {item!r} must be NAME:PROTOCOL, one of {protocols}")
        found[name.upper()] = SecurityProtocol[protocol.upper()]
    return found


def protocol_of(listener: str, protocols: Protocols) -> SecurityProtocol:
    """Return the security protocol of a listener.

    As in Apache Kafka, a listener called SSL has that protocol unless the map overrides this: a user who wants
    encryption must not get a port without it. Any other listener that the map leaves out is PLAINTEXT.
    """
    usual = SecurityProtocol.__members__.get(listener, SecurityProtocol.PLAINTEXT)
    return protocols.get(listener, usual)
