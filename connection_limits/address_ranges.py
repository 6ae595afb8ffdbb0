"""Find the addresses and ranges that contain a client's address, longest prefix first. Pure.

A whole address takes one dictionary lookup. Ranges take one lookup for each prefix length in use, at most 32 (IPv4) or
128 (IPv6). The cost does not depend on the number of addresses and ranges.
"""

from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Address, ip_network
from typing import Generic, TypeVar

V = TypeVar("V")

WHOLE = {4: 32, 6: 128}
"""Number of bits of an address, by IP version."""


class AddressRanges(Generic[V]):
    """Values of addresses and ranges, any number for each.

    Members are given in canonical spelling. Values are compared by identity.
    """

    __slots__ = ("_v4", "_v6", "whole")

    def __init__(self) -> None:
        self.whole: dict[str, tuple[V, ...]] = {}
        """Values by whole address."""
        self._v4: _Ranges[V] = _Ranges()
        self._v6: _Ranges[V] = _Ranges()

    def add(self, member: str, value: V) -> None:
        """Add a value for an address or range.

        Raises ValueError, without a change, for a member that is neither an address nor a range.
        """
        if "/" not in member:
            self.whole[member] = (*self.whole.get(member, ()), value)
            return
        ranges, shift, key = self._place(member)
        known = ranges.by_shift.setdefault(shift, {})
        known[key] = (*known.get(key, ()), value)
        ranges.note_lengths()

    def remove(self, member: str, value: V) -> None:
        """Remove a value of an address or range. Raises KeyError for a value that the member does not have."""
        if "/" not in member:
            _take_out(self.whole, member, value)
            return
        ranges, shift, key = self._place(member)
        known = ranges.by_shift[shift]
        _take_out(known, key, value)
        if not known:
            del ranges.by_shift[shift]
            ranges.note_lengths()

    def _place(self, member: str) -> "tuple[_Ranges[V], int, int]":
        network = ip_network(member)
        ranges = self._v4 if isinstance(network, IPv4Network) else self._v6
        shift = network.max_prefixlen - network.prefixlen
        return ranges, shift, int(network.network_address) >> shift

    def around(self, address: str) -> Iterator[tuple[V, ...]]:
        """Yield the values of each range that contains the address, longest prefix first.

        The address's own values are left out.
        """
        is_v6 = ":" in address
        ranges = self._v6 if is_v6 else self._v4
        if not ranges.longest_first:
            return
        number = int(IPv6Address(address)) if is_v6 else _v4_number(address)
        for shift, known in ranges.longest_first:
            found = known.get(number >> shift)
            if found is not None:
                yield found


class _Ranges(Generic[V]):
    """Ranges of one address family: by the number of bits after the prefix, then by the prefix as a number."""

    __slots__ = ("by_shift", "longest_first")

    def __init__(self) -> None:
        self.by_shift: dict[int, dict[int, tuple[V, ...]]] = {}
        self.longest_first: list[tuple[int, dict[int, tuple[V, ...]]]] = []

    def note_lengths(self) -> None:
        if len(self.by_shift) != len(self.longest_first):
            self.longest_first = sorted(self.by_shift.items())


K = TypeVar("K")


def _take_out(known: dict[K, tuple[V, ...]], key: K, value: V) -> None:
    left = tuple(one for one in known[key] if one is not value)
    if left:
        known[key] = left
    else:
        del known[key]


def _v4_number(address: str) -> int:
    """Return `int(IPv4Address(address))`, faster: every accept calls this."""
    first, second, third, fourth = address.split(".")
    return int(first) << 24 | int(second) << 16 | int(third) << 8 | int(fourth)
