"""Notifies observers of each change of the limits on connections, with the time that the limiter received."""

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

from connection_limits.quotas import ConnectionQuotas
from connection_limits.settings import QuotaSettings

if TYPE_CHECKING:
    from connection_limits.cluster_rates import MovedShare
    from connection_limits.groups.connection_group import AddressGroupLimits
    from connection_limits.recorded.rows import LimitChange, LimitRow, TellOfLimits

_ROWS = "connection_limits.recorded."
"""Imported when the first observer asks (decision 45): most brokers record no limits."""


_START_MS = 0.001
"""Within the first microsecond of a millisecond, whatever the rounding of floats does."""


class LimitChanges:
    """The observers of changed limits. Without one, a change costs a comparison.

    Times are seconds of the event loop's clock.
    """

    __slots__ = ("_now", "_observers", "_quotas")

    def __init__(self, quotas: ConnectionQuotas, now: Callable[[], float]) -> None:
        self._quotas = quotas
        self._now = now
        self._observers: tuple[TellOfLimits, ...] = ()

    def observe(self, tell: "TellOfLimits") -> None:
        """Send every change from now on to `tell`, too."""
        self._observers = (*self._observers, tell)

    def forget(self, tell: "TellOfLimits") -> None:
        """Send `tell` nothing any more; it need not be an observer."""
        self._observers = tuple(one for one in self._observers if one != tell)

    def in_force(self) -> "LimitChange":
        """Return a report of all limits that are in force now."""
        now_s = self._now()
        report = import_module(f"{_ROWS}report").AllLimits(self._quotas)
        found: LimitChange = import_module(f"{_ROWS}rows").LimitChange(now_s, report)
        return found

    def settings(self, before: QuotaSettings, now_s: float) -> None:
        """Notify that the settings of the quotas have changed, `before` are the former ones."""
        if self._observers:
            self._tell(now_s, self._rows("settings_rows").changed_settings(before, self._quotas.settings))

    def ip_rate(self, ip: str | None, rate: int | None, now_s: float) -> None:
        if self._observers:
            self._tell(now_s, self._rows("changes").changed_ip_rate(ip, rate))

    def group(self, name: str, limits: "AddressGroupLimits", now_s: float) -> None:
        if self._observers:
            self._tell(now_s, self._rows("changes").changed_group(name, limits))

    def member(self, name: str, member: str, number: float | None, now_s: float) -> None:
        if self._observers:
            self._tell(now_s, self._rows("changes").changed_member(name, member, number))

    def counted(self) -> None:
        """Notify that the open connections of changed groups are counted."""
        if self._observers:
            self._tell(self._now(), [self._rows("changes").COUNTED])

    def listener(self, name: str, now_s: float, *, is_open: bool) -> None:
        if self._observers:
            self._tell(now_s, self._rows("changes").changed_listener(name, is_open=is_open))

    def adapted(self, listener: str | None, rate: int, now_s: float) -> None:
        """Notify that an adaptive rate has moved: that of a listener, or that of the broker for None."""
        if self._observers:
            kind = self._rows("rows").RateKind.ADAPTIVE
            self._tell(now_s, [self._rows("changes").moved_rate(listener, rate, kind)])

    def shares(self, moved: "Sequence[MovedShare]", now_s: float) -> None:
        """Notify that shares of rates of the cluster came into force, or that their lease ended before."""
        if not self._observers:
            return
        row = self._rows("changes").moved_share
        ended = {one.ended_ms for one in moved if one.ended_ms is not None}
        for at_ms in sorted(ended):
            self._tell((at_ms + _START_MS) / 1000, [row(one) for one in moved if one.ended_ms == at_ms])
        self._tell(now_s, [row(one) for one in moved if one.ended_ms is None])

    @staticmethod
    def _rows(module: str) -> Any:
        return import_module(_ROWS + module)

    def _tell(self, now_s: float, rows: "list[LimitRow]") -> None:
        if not rows:
            return
        change: LimitChange = self._rows("rows").LimitChange(now_s, rows)
        for tell in self._observers:
            tell(change)
