"""The events of one boot of a broker in the order of their numbers, read piece by piece. Shell over Arrow."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from audit_pipeline.contract import Boot
from audit_pipeline.hours import HOUR_US
from audit_pipeline.reading.recorded_connections import COLUMNS, recorded_events, recorded_limits
from audit_pipeline.spool.segment import NoSegmentError
from audit_pipeline.spool.stored_segment import row_groups_at
from audit_pipeline.spool.targets import Target
from audit_pipeline.what_if.attempts import RecordedEvent
from audit_pipeline.what_if.limits_in_force import LimitsInForce, limits_in_force
from audit_pipeline.what_if.recording import EarlyConnection

CONNECTIONS: Final = "connection"
LIMITS: Final = "connection_limit"
LEAD_US: Final = HOUR_US
"""Earlier events that are read, too: they say which connections are open and which rates are used at the start."""
_ROUNDED_US: Final = 1_000
"""Times and durations are rounded: a connection is early if it was open so long before the first event."""
LIMITS_LEAD_US: Final = 2 * HOUR_US
"""Earlier limits that are read: brokers report all of them every hour."""


@dataclass(frozen=True, slots=True)
class BootPart:
    """The files of a boot that may have events from `from_us` to `to_us`, microseconds since 1970; None: all.

    The paths are in the order of the numbers of their events.
    """

    boot: Boot
    connections: Sequence[str]
    limits: Sequence[str]
    from_us: int | None = None
    to_us: int | None = None

    def is_wanted(self, wall_us: int) -> bool:
        """Whether a connection that came at this time is in the part: earlier ones only say what is open and used."""
        return (self.from_us is None or wall_us >= self.from_us) and (self.to_us is None or wall_us < self.to_us)


class BootEvents:
    """Reads a part. `damaged` lists the files that could not be read to their end.

    `without_times` counts connections of versions before 1.3 of events, which have no times of decisions, and
    `without_times_us` has the first and the last time of them.
    """

    def __init__(self, part: BootPart, target: Target) -> None:
        self._part = part
        self._target = target
        self.damaged: list[str] = []
        self.without_times = 0
        self.without_times_us: tuple[int, int] | None = None

    def connections(self) -> Iterator[RecordedEvent]:
        """Yield the connection events with their times."""
        for rows in self._rows(CONNECTIONS, self._part.connections, LEAD_US):
            chosen = rows.select([*COLUMNS, "ts"])
            known = chosen.filter(pc.is_valid(chosen["decided_us"]))
            if len(known) < len(chosen):
                self._note_without_times(chosen.filter(pc.is_null(chosen["decided_us"]))["ts"].cast(pa.int64()))
            yield from recorded_events(known)

    def _note_without_times(self, times: pa.ChunkedArray) -> None:
        bounds = pc.min_max(times).as_py()
        first, last = self.without_times_us or (bounds["min"], bounds["max"])
        self.without_times += len(times)
        self.without_times_us = min(first, bounds["min"]), max(last, bounds["max"])

    def early(self) -> list[EarlyConnection]:
        """Return the connections that were open before the first event, as far as their ends are in the part."""
        first_us: int | None = None
        found: list[EarlyConnection] = []
        for rows in self._rows(CONNECTIONS, self._part.connections, LEAD_US):
            decided = rows["decided_us"]
            if first_us is None and len(valid := decided.drop_null()):
                first_us = pc.min(valid).as_py()
            is_early = pc.and_(
                pc.equal(rows["event"].cast(pa.string()), "closed"),
                pc.less(pc.subtract(decided, rows["duration_us"]), (first_us or 0) - _ROUNDED_US),
            )
            closed = rows.filter(pc.fill_null(is_early, False)).select(["listener", "client_ip", "decided_us", "seq"])
            columns = (
                column.cast(pa.string()) if number < 2 else column for number, column in enumerate(closed.columns)
            )
            found += map(EarlyConnection._make, zip(*(column.to_pylist() for column in columns), strict=True))
        return found

    def limits(self) -> LimitsInForce | None:
        """Return the limits in force; None if the log does not have them: brokers before version 1.4 write none."""
        rows = (row for part in self._rows(LIMITS, self._part.limits, LIMITS_LEAD_US) for row in recorded_limits(part))
        return limits_in_force(rows)

    def _rows(self, table: str, paths: Sequence[str], lead_us: int) -> Iterator[pa.Table]:
        part = self._part
        low = None if part.from_us is None else part.from_us - lead_us
        for path in paths:
            try:
                for rows in row_groups_at(path, table, self._target):
                    ts = rows["ts"].cast(pa.int64())
                    is_wanted = pc.is_valid(ts)
                    if low is not None:
                        is_wanted = pc.and_(is_wanted, pc.greater_equal(ts, low))
                    if part.to_us is not None:
                        is_wanted = pc.and_(is_wanted, pc.less(ts, part.to_us))
                    yield rows.filter(is_wanted).sort_by("seq")
            except NoSegmentError:
                if path not in self.damaged:
                    self.damaged.append(path)
