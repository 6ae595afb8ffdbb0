"""Divide the memory for unfinished requests among connections. Pure; times are seconds, given.

Memory is counted by what has arrived, never by what a client announces. A connection may hold as much as its address
leaves free, and an address as much as all addresses leave free. So whatever some addresses hold, there is room for the
others. Large requests leave a quarter of the memory free, so that ordinary ones have room beside those of their own
address. A connection that may not have more is not read from, as Kafka mutes a channel when queued.max.request.bytes is
used up. Its bytes wait in the kernel.

Shares alone could leave every large request unfinished. So a part of the memory, at most one request of the largest
size, is reserved for one waiting connection: the one that has waited longest. It may exceed its share, but not for
ever.
"""

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

_WORTH_READING_BYTES = 4_096
_ORDINARY_BYTES = 2 * 1024 * 1024
"""Most producers send at most a megabyte in one request."""
_SECONDS_PER_BYTE = 1e-6
"""A connection that may exceed its share must send at least a megabyte per second."""


_Holder = TypeVar("_Holder", bound=Hashable)


class RequestMemory(Generic[_Holder]):
    """The memory for unfinished requests: `limit` bytes, of which one request has at most `largest`."""

    __slots__ = (
        "_asked",
        "_beyond",
        "_by_address",
        "_numbers",
        "_shared",
        "_timeout_s",
        "_waiting",
        "ample",
        "favoured",
        "favoured_until_s",
        "holders",
        "used",
    )

    def __init__(self, limit: int, largest: int, timeout_s: float) -> None:
        self._shared = limit - min(largest, limit // 2)
        self._timeout_s = timeout_s
        self._by_address: dict[str, int] = {}
        self._asked = 0
        self._numbers: dict[_Holder, int] = {}
        """Order in which holders first had to wait, kept until their requests are done."""
        self._waiting: set[_Holder] = set()
        self.used = 0
        """Bytes in use, without those that the favoured holder has beyond its share."""
        self.ample = True
        """Whether less than half of the shared memory is in use."""
        self._beyond = 0
        self.holders: set[_Holder] = set()
        """Holders with bytes of an unfinished request."""
        self.favoured: _Holder | None = None
        self.favoured_until_s = 0.0

    @property
    def total(self) -> int:
        return self.used + self._beyond

    @property
    def waiting(self) -> Iterable[_Holder]:
        """Return the waiting holders, in the order in which they first had to wait."""
        return sorted(self._waiting, key=self._numbers.__getitem__)

    def __len__(self) -> int:
        """Return how many holders wait."""
        return len(self._waiting)

    def take(self, holder: _Holder, address: str, count: int) -> None:
        self.holders.add(holder)
        if holder == self.favoured:
            self._beyond += count
            return
        self._use(count)
        self._by_address[address] = self._by_address.get(address, 0) + count

    def _use(self, count: int) -> None:
        self.used += count
        self.ample = 2 * self.used < self._shared

    def give_back(self, holder: _Holder, address: str, count: int) -> None:
        """Release the bytes of `holder`, whose request is complete or given up."""
        if self.favoured == holder:
            count -= self._beyond
            self._beyond = 0
            self.favoured = None
        self._use(-count)
        self._by_address[address] -= count
        if not self._by_address[address]:
            del self._by_address[address]
        self.holders.discard(holder)
        self._waiting.discard(holder)
        self._numbers.pop(holder, None)

    def room(
        self, holder: _Holder, address: str, held: int, missing: int, now_s: float, *, may_wait: bool = True
    ) -> int:
        """Return how many of the `missing` bytes `holder`, which has `held`, may receive now; 0 if it must wait.

        Without `may_wait` the holder does not join the waiting holders: it retries by itself, and blocks no other
        holder until then.
        """
        # One byte more leaves one byte less for all, for the address and for the connection: hence a third.
        if self.favoured == holder:
            return missing
        left = self._shared - self.used - self._by_address.get(address, 0) - held
        if held + missing > _ORDINARY_BYTES:
            left -= self._shared // 4
        share = left // 3
        if share >= min(missing, _WORTH_READING_BYTES):
            self._waiting.discard(holder)
            return share
        if not may_wait:
            return 0
        if holder not in self._numbers:
            self._asked += 1
            self._numbers[holder] = self._asked
        self._waiting.add(holder)
        if self.favoured is not None or min(self._waiting, key=self._numbers.__getitem__) != holder:
            return 0
        self.favoured = holder
        self.favoured_until_s = now_s + self._timeout_s + missing * _SECONDS_PER_BYTE
        self._waiting.discard(holder)
        return missing
