"""The limits that were in force, as a log records them: those at its begin, and each change with its time. Pure."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from audit_pipeline.what_if.attempts import Limit
from connection_limits.quotas import ConnectionQuotas
from connection_limits.recorded.applied import AppliedLimits, recount
from connection_limits.recorded.rows import GROUP, LISTENER, LimitEvent, LimitRow, RateKind
from connection_limits.settings import QuotaSettings


class RecordedLimit(NamedTuple):
    """A row of the table connection_limit. `at_us` is of the monotonic clock of the broker's host."""

    seq: int
    at_us: int
    row: LimitRow
    further: int


class Change(NamedTuple):
    """Rows that came into force together; `seq` is the number of the first one."""

    at_us: int
    seq: int
    rows: Sequence[LimitRow]


class LimitsInForce:
    """The limits of one boot of a broker: `first` is the report with which it begins, `changes` follow in order.

    `is_hashed`: addresses are keyed hashes, so groups are left out, because their ranges cannot be found.
    """

    are_recorded = True
    """Whether the broker decided under these limits: the times at which it asked are those of the log."""

    def __init__(self, first: Change, changes: Sequence[Change], *, is_hashed: bool = False) -> None:
        self._first = first
        self.changes: Sequence[Change] = changes
        self.is_hashed = is_hashed
        self._applied = AppliedLimits()
        self._applied.read_settings(first.rows)

    @property
    def known_from_us(self) -> int:
        """Time of the report: what was in force before is not known."""
        return self._first.at_us

    def begin_us(self, began_us: int) -> int:
        """Return when the limits come into force: with the report, which may be before the first event."""
        return min(self._first.at_us, began_us)

    def settings_for(self, _: Sequence[str]) -> QuotaSettings:
        """Return the settings at the start."""
        return self._applied.settings

    def open_at_start(self, listeners: Iterable[str]) -> list[str]:
        """Return the listeners that were open at the start: those of the report, and those that never open later."""
        known = [row.listener for row in self._first.rows if row.key == LISTENER and row.listener is not None]
        opened = {row.listener for change in self.changes for row in change.rows if row.event is LimitEvent.OPENED}
        return list(dict.fromkeys([*known, *(name for name in listeners if name not in opened)]))

    def listener_found(self, quotas: ConnectionQuotas, _: Sequence[str], now_ms: int) -> None:
        """Do nothing: the log has the limits of all listeners."""

    def enforce(self, quotas: ConnectionQuotas, _: Sequence[str], now_ms: int) -> None:
        """Set the limits of the report. Raises InvalidLimitError."""
        self._applied.apply(self._wanted(self._first.rows), quotas, now_ms)
        recount(quotas)

    def apply(self, change: Change, quotas: ConnectionQuotas, now_ms: int) -> None:
        """Carry out a change. Raises InvalidLimitError."""
        self._applied.apply(self._wanted(change.rows), quotas, now_ms)

    def _wanted(self, rows: Sequence[LimitRow]) -> Sequence[LimitRow]:
        if not self.is_hashed:
            return rows
        return [row for row in rows if not (row.entity or "").startswith(GROUP)]

    @property
    def has_groups(self) -> bool:
        """Whether a connection group had limits or members."""
        return any((row.entity or "").startswith(GROUP) for each in (self._first, *self.changes) for row in each.rows)

    @property
    def moves(self) -> int:
        """Number of changes of rates that the broker has chosen itself."""
        moved = (RateKind.ADAPTIVE, RateKind.SHARE)
        return sum(row.kind in moved for change in self.changes for row in change.rows)

    def name_of(self, limit: Limit) -> str | None:
        """Return the ConnectionQuota of a limit, as namespace/name."""
        return limit.quota


def limits_in_force(rows: Iterable[RecordedLimit]) -> LimitsInForce | None:
    """Assemble the limits of one boot; `rows` are in the order of their numbers. None without a whole report.

    A log that begins in the middle of a boot begins at the first report. Later reports repeat what is known.
    """
    report: list[RecordedLimit] = []
    first: Change | None = None
    together: list[LimitRow] = []
    changes: list[Change] = []
    begun_seq = 0
    for each in rows:
        if each.row.event is LimitEvent.KNOWN:
            if first is not None:
                continue
            if report and report[-1].further != each.further + 1:
                # The rest of that report is missing.
                report, changes = [], []
            report.append(each)
            if not each.further:
                first = Change(report[0].at_us, report[0].seq, [one.row for one in report])
        elif report:
            # A change before the report is part of it.
            begun_seq = begun_seq if together else each.seq
            together.append(each.row)
            if not each.further:
                changes.append(Change(each.at_us, begun_seq, together))
                together = []
    return None if first is None else LimitsInForce(first, changes)
