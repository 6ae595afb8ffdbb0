"""Addresses of clients and of proxies, and the values of keys that contain them. Pure."""

from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

from broker_runtime.config.declaring.definition import INT_MAX, Value
from broker_runtime.config.declaring.numbers import parse_integer, trim
from broker_runtime.errors import ConfigError

_V4_MAPPED = "::ffff:"
_V4_MAPPED_BITS = 96
_FORM = "must be host:count, several separated by commas"


def canonical_address(text: str) -> str | None:
    """Return the canonical spelling of an IP address, as the network layer uses it; None if the text is not an address.

    An IPv4 address that is written as IPv6 (`::ffff:a.b.c.d`) is the IPv4 address, and a zone (`%eth0`) is ignored.
    """
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address).compressed


def peer_host(host: str) -> str:
    """Return the canonical spelling of a socket's address, faster than `canonical_address` does.

    An IPv4 client of an IPv6 socket gets its IPv4 address.
    """
    return host.removeprefix(_V4_MAPPED) if host.startswith(_V4_MAPPED) else host.partition("%")[0]


def may_be_a_host_name(name: str) -> bool:
    """Return whether resolving the name may succeed, by RFC 1035's lengths.

    For other names, resolvers raise many kinds of errors.
    """
    labels = name.removesuffix(".").split(".")
    return len(name) <= 254 and all(_is_label(label) for label in labels)


def _is_label(label: str) -> bool:
    plain = label.replace("-", "").replace("_", "")
    return 0 < len(label) < 64 and plain.isascii() and plain.isalnum()


def per_ip_overrides(value: Value) -> dict[str, int]:
    """Parse `host:count,host:count`, IPv6 with or without brackets. Addresses get their canonical spelling.

    Raises ConfigError, whose text describes the allowed values, for anything else.
    """
    found: dict[str, int] = {}
    for item in filter(None, map(trim, str(value or "").split(","))):
        host, _, count = item.rpartition(":")
        if not host:
            raise ConfigError(f"{_FORM}; {item} does not have that form")
        name = host.removeprefix("[").removesuffix("]")
        address = canonical_address(name)
        if address is None and not may_be_a_host_name(name):
            raise ConfigError(f"{_FORM} with valid addresses : {host} is not valid")
        found[address or name.lower()] = _count(item, count)
    return found


def _count(item: str, text: str) -> int:
    try:
        count = parse_integer(trim(text))
    except ValueError:
        count = -1
    if not 0 <= count <= INT_MAX:
        raise ConfigError(f"{_FORM}; the count of {item} must be a number between 0 and {INT_MAX}")
    return count


def per_ip_overrides_problem(value: Value) -> str | None:
    """Return why `per_ip_overrides` refuses the value: the validator in the table of keys."""
    try:
        per_ip_overrides(value)
    except ConfigError as error:
        return str(error)
    return None


Network = IPv4Network | IPv6Network


def networks(items: Iterable[str]) -> tuple[Network, ...]:
    """Parse networks such as `10.0.0.0/8`, or single addresses.

    Raises ConfigError, whose text describes the allowed values, for anything else.
    """
    found = []
    for item in items:
        try:
            found.append(_as_peers_are_known(ip_network(item)))
        except ValueError as error:
            form = "must be networks such as 10.0.0.0/8 or addresses, separated by commas"
            raise ConfigError(f"{form}; {error}") from None
    return tuple(found)


def _as_peers_are_known(network: Network) -> Network:
    """Return the network in the form of peers' addresses.

    IPv4 peers (`peer_host`) would be in no network written as IPv6.
    """
    mapped = network.network_address.ipv4_mapped if isinstance(network, IPv6Network) else None
    if mapped is None or network.prefixlen < _V4_MAPPED_BITS:
        return network
    return IPv4Network((mapped, network.prefixlen - _V4_MAPPED_BITS))


def networks_problem(value: Value) -> str | None:
    """Return why `networks` refuses the value: the validator in the table of keys."""
    try:
        networks(value if isinstance(value, tuple) else ())
    except ConfigError as error:
        return str(error)
    return None


def is_within(host: str, trusted: Iterable[Network]) -> bool:
    """Return whether the address `host` is in one of the networks.

    `host` is an IP address as `peer_host` returns it: an IPv4 client of an IPv6 socket has its IPv4 address.
    """
    address = ip_address(host)
    return any(address in network for network in trusted)
