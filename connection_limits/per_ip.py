"""Connection count and connection rate of each client address. Pure.

Rates are kept only for addresses with a rate limit, and for a bounded number of them. KIP-308 (counts), KIP-612
(rates).
"""

from collections import Counter
from collections.abc import Iterator, KeysView, Mapping

from connection_limits.errors import InvalidLimitError
from connection_limits.kept_meters import KeptMeters
from connection_limits.rate import Meter
from connection_limits.settings import UNLIMITED, QuotaSettings


class IpCounts:
    """The number of open connections of each address, and its limit.

    An override replaces the default limit, whether lower or higher.
    """

    __slots__ = ("_counts", "_limit", "_overrides", "held")

    def __init__(self, settings: QuotaSettings) -> None:
        self._counts: dict[str, int] = {}
        self.held: Counter[str | None] = Counter()
        """Refused connections, by the address of the override; None for the default limit."""
        self.configure(settings)

    def configure(self, settings: QuotaSettings) -> None:
        self._limit = settings.max_connections_per_ip
        self._overrides = dict(settings.max_connections_per_ip_overrides)
        for ip in [ip for ip in self.held if ip is not None and ip not in self._overrides]:
            del self.held[ip]

    def note_held(self, ip: str) -> None:
        """Count a connection refused by the limit of its address."""
        self.held[ip if ip in self._overrides else None] += 1

    @property
    def overrides(self) -> Mapping[str, int]:
        """Return the limits of single addresses."""
        return self._overrides

    def try_add(self, ip: str) -> bool:
        count = self._counts.get(ip, 0)
        if count >= (self._overrides.get(ip, self._limit) if self._overrides else self._limit):
            return False
        self._counts[ip] = count + 1
        return True

    def remove(self, ip: str) -> None:
        count = self._counts.get(ip)
        if count is None:
            raise ValueError(f"no connection of {ip} is open, so none can be closed")
        if count == 1:
            del self._counts[ip]
        else:
            self._counts[ip] = count - 1

    def count(self, ip: str) -> int:
        return self._counts.get(ip, 0)

    def limit(self, ip: str) -> int:
        return self._overrides.get(ip, self._limit)

    @property
    def addresses(self) -> KeysView[str]:
        """Return the addresses with an open connection."""
        return self._counts.keys()

    def __len__(self) -> int:
        return len(self._counts)


class IpRates:
    """The rates of new connections that single addresses may have.

    The limit is the address's own, else the default entity's, else the broker key's.
    """

    __slots__ = ("_default", "_meters", "_overrides", "_settings", "_since_ms", "active", "held")

    def __init__(self, settings: QuotaSettings) -> None:
        self._settings = settings
        self.held: Counter[str | None] = Counter()
        """Refused connections, by the address of the rate; None for the rate of all other addresses."""
        self._since_ms: dict[str | None, int] = {}
        self._default: int | None = None
        self._overrides: dict[str, int] = {}
        self._meters: KeptMeters[str] = KeptMeters(settings)
        self._note_active()

    def _note_active(self) -> None:
        self.active = bool(self._overrides) or self._fallback < UNLIMITED

    @property
    def _fallback(self) -> int:
        return self._settings.max_connection_creation_rate_per_ip if self._default is None else self._default

    def configure(self, settings: QuotaSettings, now_ms: int) -> None:
        self._settings = self._meters.settings = settings
        self._rebind(now_ms)

    def limit(self, ip: str = "") -> int:
        """Return the rate limit of an address, or of every address without one of its own."""
        return self._overrides.get(ip, self._fallback)

    def has_own(self, ip: str) -> bool:
        """Return whether the address has a rate of its own."""
        return ip in self._overrides

    def note_held(self, ip: str) -> None:
        """Count a connection refused by the rate of its address."""
        self.held[ip if ip in self._overrides else None] += 1

    @property
    def overrides(self) -> Mapping[str, int]:
        """Return the rates of single addresses."""
        return self._overrides

    def since_ms(self, ip: str | None) -> int | None:
        """Return when the entity's current rate came into force; None for an entity without a rate."""
        return self._since_ms.get(ip)

    def update(self, ip: str | None, rate: int | None, now_ms: int) -> None:
        """Set the rate of one address, or of the default if `ip` is None. A `rate` of None removes the rate."""
        if rate is not None and rate < 0:
            raise InvalidLimitError(f"connection_creation_rate of {ip or 'the default'}: {rate} must be 0 or more")
        if rate is None:
            self._since_ms.pop(ip, None)
        elif rate != (self._default if ip is None else self._overrides.get(ip)):
            self._since_ms[ip] = now_ms
        if ip is None:
            self._default = rate
        elif rate is None:
            self._overrides.pop(ip, None)
            self.held.pop(ip, None)
        else:
            self._overrides[ip] = rate
        self._rebind(now_ms, ip)

    def _rebind(self, now_ms: int, ip: str | None = None) -> None:
        """Apply the new limit to existing meters, which keep their recorded events."""
        self._note_active()
        if ip is not None:
            known = self._meters.get(ip)
            if known is not None:
                known.set_limit(self.limit(ip), now_ms)
            return
        for address, known in self._meters.items():
            known.set_limit(self.limit(address), now_ms)

    def record(self, ip: str, now_ms: int) -> int:
        """Count a connection if a limit applies, and return 0.

        Over the limit, undo the count, and return the throttle in milliseconds.
        """
        limit = self.limit(ip)
        if limit >= UNLIMITED:
            return 0
        known = self._meters.used(ip, limit, now_ms)
        known.record(now_ms)
        throttle_ms = known.throttle_ms(now_ms)
        if throttle_ms:
            known.unrecord(now_ms)
        return throttle_ms

    def unrecord(self, ip: str, now_ms: int) -> None:
        """Undo the last `record`: another limit has refused the connection."""
        if self.limit(ip) < UNLIMITED:
            known = self._meters.get(ip)
            if known is not None:
                known.unrecord(now_ms)

    def expire(self, now_ms: int) -> None:
        """Remove every address that was idle for an hour."""
        self._meters.expire(now_ms)

    def rate(self, ip: str, now_ms: int) -> float:
        known = self._meters.get(ip)
        return known.measure(now_ms) if known is not None else 0.0

    def recent(self) -> Iterator[tuple[str, Meter]]:
        """Yield addresses with a limit, the most recently seen first."""
        for ip, known in self._meters.newest_first():
            if known.limit < UNLIMITED:
                yield ip, known

    def __len__(self) -> int:
        return len(self._meters)
