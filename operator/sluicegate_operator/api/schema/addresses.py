"""IP addresses and ranges in manifests, as the CEL functions of the API server accept them, and hosts with ports."""

import re
from ipaddress import IPv6Address, ip_address, ip_network

_DEFAULT_PORTS = {"http": ":80", "https": ":443"}


def canonical_host(host: str, scheme: str) -> str:
    """Return the same text for all spellings of a host with its port in a URL.

    A name is in lower case and an IPv6 address in its short form, and the default port of the scheme is left out.
    """
    name, bracket, port = host.lower().rpartition("]")
    if bracket:
        try:
            name = f"[{ip_address(name.removeprefix('[')).compressed}"
        except ValueError:
            return host.lower()
    else:
        name, colon, port = host.lower().partition(":")
        port = f"{colon}{port}"
    digits = port.removeprefix(":").lstrip("0")
    shown = f"{name}{bracket}:{digits}" if digits else f"{name}{bracket}"
    return shown.removesuffix(_DEFAULT_PORTS.get(scheme, ""))


def is_ip(text: str) -> bool:
    """Return whether CEL's isIP() accepts `text`.

    CEL accepts an IPv4 or IPv6 address without a zone that is not IPv4-mapped.
    """
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not isinstance(address, IPv6Address) or (address.scope_id is None and address.ipv4_mapped is None)


def is_cidr(text: str) -> bool:
    """Return whether CEL's isCIDR() accepts `text`.

    CEL accepts an address as `is_ip` does, a slash, and the length of a prefix.
    """
    address, _, length = text.partition("/")
    if not is_ip(address) or re.fullmatch("0|[1-9][0-9]{0,2}", length) is None:
        return False
    return int(length) <= ip_address(address).max_prefixlen


def has_no_host_bits(cidr: str) -> bool:
    """Return whether every bit behind the prefix is zero; False for a text that is not a range."""
    try:
        ip_network(cidr)
    except ValueError:
        return False
    return True
