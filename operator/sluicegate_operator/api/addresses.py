"""IP addresses and ranges of them in manifests, as the CEL functions of the API server accept them."""

import re
from ipaddress import IPv6Address, ip_address, ip_network


def is_ip(text: str) -> bool:
    """Whether CEL's isIP() accepts `text`: an IPv4 or IPv6 address without a zone, and not an IPv4-mapped one."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return not isinstance(address, IPv6Address) or (address.scope_id is None and address.ipv4_mapped is None)


def is_cidr(text: str) -> bool:
    """Whether CEL's isCIDR() accepts `text`: an address as `is_ip` accepts it, a slash, the length of a prefix."""
    address, _, length = text.partition("/")
    if not is_ip(address) or re.fullmatch("0|[1-9][0-9]{0,2}", length) is None:
        return False
    return int(length) <= ip_address(address).max_prefixlen


def has_no_host_bits(cidr: str) -> bool:
    """Whether every bit behind the prefix is zero. False also if `cidr` is not a range."""
    try:
        ip_network(cidr)
    except ValueError:
        return False
    return True
