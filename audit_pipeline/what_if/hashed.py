"""Recognizes logs whose addresses are keyed hashes. Pure."""

from ipaddress import ip_address


def is_hash(address: str) -> bool:
    """Whether an address of a log is a keyed hash: all are, or none, in one boot."""
    try:
        ip_address(address)
    except ValueError:
        return True
    return False
