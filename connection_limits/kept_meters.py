"""A bounded number of meters by key. Pure.

Under a flood of new keys the longest idle meter is evicted first, so memory stays constant.
"""

from collections import OrderedDict
from collections.abc import Hashable, ItemsView, Iterator
from typing import Generic, TypeVar

from connection_limits.rate import Meter, meter
from connection_limits.settings import QuotaSettings

IDLE_EXPIRY_MS = 3_600_000
"""Milliseconds without a connection after which a meter is removed, as Kafka removes the sensor of an address."""

_EXPIRIES_PER_RECORD = 2

K = TypeVar("K", bound=Hashable)


class KeptMeters(Generic[K]):
    """Meters by key. `settings` defines how many there may be, and the parameters of a new one."""

    __slots__ = ("_meters", "settings")

    def __init__(self, settings: QuotaSettings) -> None:
        self.settings = settings
        self._meters: OrderedDict[K, Meter] = OrderedDict()

    def used(self, key: K, limit: int, now_ms: int) -> Meter:
        """Return the key's meter, which is now the last to be evicted. A new meter gets `limit`."""
        known = self._meters.get(key)
        if known is None:
            self._make_room(now_ms)
            known = self._meters[key] = meter(self.settings, limit, now_ms)
        else:
            self._meters.move_to_end(key)
        return known

    def get(self, key: K) -> Meter | None:
        return self._meters.get(key)

    def forget(self, key: K) -> None:
        """Remove the key's meter, if the key has one."""
        self._meters.pop(key, None)

    def items(self) -> ItemsView[K, Meter]:
        """Return all meters by key, longest idle first."""
        return self._meters.items()

    def newest_first(self) -> Iterator[tuple[K, Meter]]:
        for key in reversed(self._meters):
            yield key, self._meters[key]

    def _make_room(self, now_ms: int) -> None:
        while len(self._meters) >= self.settings.max_tracked_ips:
            self._meters.popitem(last=False)
        # Two for each new one: expiry keeps up without ever walking the whole table at once.
        for _ in range(_EXPIRIES_PER_RECORD):
            if not self._meters or not _expired(next(iter(self._meters.values())), now_ms):
                return
            self._meters.popitem(last=False)

    def expire(self, now_ms: int) -> None:
        """Remove all meters that were idle for an hour."""
        while self._meters and _expired(next(iter(self._meters.values())), now_ms):
            self._meters.popitem(last=False)

    def __len__(self) -> int:
        return len(self._meters)


def _expired(known: Meter, now_ms: int) -> bool:
    return now_ms - known.last_ms >= IDLE_EXPIRY_MS
