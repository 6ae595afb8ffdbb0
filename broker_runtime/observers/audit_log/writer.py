"""The layer between events and the spool: numbers, the current block, and the queue of blocks not written yet.

Numbers have no holes: an event that is dropped because the queue is full takes one too. A gap event, written as soon as
the queue has space again, accounts for it. Pure except for the spool; the clock and the timers are passed in.
"""

import logging
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from broker_runtime.clock import Clock, Timer
from broker_runtime.observers.audit_log.block import EventBlock

log = logging.getLogger(__name__)

_RESERVE_FIRST: Final = 16
_RESERVE_FACTOR: Final = 4
_RESERVE_MAX: Final = 1024
_RETRY_S_MAX: Final = 1.0
_LOG_INTERVAL_S: Final = 60.0


class SpoolFile(Protocol):
    """The methods of `spool.Spool` that a writer needs. All raise OSError."""

    @property
    def size(self) -> int: ...

    def begin(self, first_seq: int, reserved: int, wall_us: int) -> None: ...

    def reserve(self, seq: int) -> None: ...

    def append(self, block: bytes) -> None: ...

    def close(self, last_seq: int, wall_us: int) -> None: ...

    def let_go(self) -> None: ...


class WriterLimits(NamedTuple):
    """Limits of the audit log's writer. `queue_bytes` is for blocks that wait because the spool cannot be written."""

    flush_s: float = 0.1
    queue_bytes: int = 1024 * 1024
    segment_s: float = 60.0
    segment_bytes: int = 16 * 1024 * 1024


class EventWriter:
    """Numbers the events of one boot, and writes them to the spool in blocks.

    A kill -9 loses `block` and the queue; the spool shows how many events that can be. An event is added to `ready()`,
    or to `block` itself while its numbers are `reserved`. `owed` counts events that have happened and will be numbered
    later (rollups). Raises nothing: a failed write to the spool is retried and logged.
    """

    def __init__(
        self,
        spool: SpoolFile,
        clock: Clock,
        call_later: Callable[[float, Callable[[], None]], Timer],
        limits: WriterLimits,
    ) -> None:
        self._spool = spool
        self._clock = clock
        self._call_later = call_later
        self._limits = limits
        self.block: EventBlock | None = None
        self.owed = 0
        self._next_seq = 1
        self.reserved = 0
        self._reserve_step = _RESERVE_FIRST
        self._queue: deque[bytes] = deque()
        self.queued_bytes = 0
        self.dropped = 0
        self._dropped_from: int | None = None
        self._dropped_s = 0.0
        self._dropped_for = ""
        self._error = ""
        """Why the last write to the spool failed; empty if it succeeded."""
        self._retry_s = 0.0
        self._flush_timer: Timer | None = None
        self._segment_timer: Timer | None = None
        self._logged_s = -_LOG_INTERVAL_S
        spool.begin(1, 0, self._wall_us())

    @property
    def is_full(self) -> bool:
        return self.queued_bytes >= self._limits.queue_bytes

    @property
    def last_seq(self) -> int:
        return self._next_seq - 1 if self.block is None else self.block.last_seq

    def ready(self, events: int = 1) -> EventBlock | None:
        """Return the block for the next event, which may stand for several; None if events are dropped."""
        block = self.block
        if block is None:
            if self.is_full:
                self._drop(events)
                return None
            block = self._new_block()
        needed = block.last_seq + events + self.owed
        if needed > self.reserved:
            self._reserve(needed)
        return block

    def owe(self, events: int = 1) -> None:
        """Count more events that have happened and will be numbered later."""
        self.owed += events
        if self.last_seq + self.owed > self.reserved:
            self._reserve(self.last_seq + self.owed)

    def add(self, table: str, at_s: float, *values: object) -> None:
        """Add an event with one number, at this monotonic time; `values` follow ts in the table's order."""
        block = self.ready()
        if block is not None and block.add(table, block.last_seq + 1, block.wall_us(at_s), *values):
            self.seal()

    def seal(self) -> None:
        """Close the current block, which is full or old enough, and write it."""
        block, self.block = self.block, None
        if block is not None:
            packed = block.packed()
            self._next_seq = block.last_seq + 1
            self._queue.append(packed)
            self.queued_bytes += len(packed)
        if not self._error:
            self._write()

    def close(self) -> None:
        """Stop the writer, after writing what can be written. The reserved number accounts for the rest."""
        self._error = ""
        self.seal()
        if self._dropped_from is not None and not self.is_full:
            self._new_block()
            self.seal()
        if not self._queue:
            try:
                self._spool.close(self.last_seq, self._wall_us())
            except OSError as error:
                self._note(error)
        self._spool.let_go()
        for timer in (self._flush_timer, self._segment_timer):
            if timer is not None:
                timer.cancel()

    def _wall_us(self) -> int:
        return self._clock.wall_ms() * 1000

    def _new_block(self) -> EventBlock:
        now_s = self._clock.monotonic()
        if self._flush_timer is None:
            self._flush_timer = self._call_later(self._limits.flush_s, self._flush)
        first_dropped = self._dropped_from
        block = self.block = EventBlock(first_dropped or self._next_seq, self._wall_us(), now_s)
        if first_dropped is not None:
            last = self._next_seq - 1
            ts = block.wall_us(self._dropped_s)
            block.add("gap", last, first_dropped, ts, last - first_dropped + 1, "queue full", self._dropped_for)
            self._dropped_from = None
        return block

    def _drop(self, events: int) -> None:
        if self._dropped_from is None:
            self._dropped_from = self._next_seq
            self._dropped_s = self._clock.monotonic()
            self._dropped_for = self._error
        self.dropped += events
        self._next_seq += events
        needed = self._next_seq - 1 + self.owed
        if needed > self.reserved:
            self._reserve(needed)

    def _reserve(self, needed: int) -> None:
        """Reserve few numbers at first, so that a kill -9 while little happens does not suggest a large loss."""
        self.reserved = needed + self._reserve_step
        self._reserve_step = min(self._reserve_step * _RESERVE_FACTOR, _RESERVE_MAX)
        self._report_reserved()

    def _report_reserved(self) -> None:
        try:
            self._spool.reserve(self.reserved)
        except OSError as error:
            self._note(error)

    def _flush(self) -> None:
        self._flush_timer = None
        self._error = ""
        self.seal()
        if not self._queue:
            self.reserved = self.last_seq + self.owed
            self._reserve_step = _RESERVE_FIRST
            self._report_reserved()
            if self._dropped_from is not None:
                self._new_block()

    def _write(self) -> None:
        queue, spool = self._queue, self._spool
        try:
            while queue:
                spool.append(queue[0])
                self.queued_bytes -= len(queue.popleft())
                if self._segment_timer is None:
                    self._segment_timer = self._call_later(self._limits.segment_s, self._end_segment)
            if spool.size >= self._limits.segment_bytes and self._all_told:
                self._begin_segment()
        except OSError as error:
            self._error = str(error)
            self._note(error)
            self._retry_s = min(max(self._limits.flush_s, self._retry_s * 2), _RETRY_S_MAX)
            if self._flush_timer is not None:
                self._flush_timer.cancel()
            self._flush_timer = self._call_later(self._retry_s, self._flush)
        else:
            self._retry_s = 0.0

    @property
    def _all_told(self) -> bool:
        """Whether every number is written, also of dropped events: a new file may then begin with the next one."""
        return not self._queue and self._dropped_from is None

    def _end_segment(self) -> None:
        """Complete the segment, which is old enough to be landed."""
        self._segment_timer = None
        self.seal()
        if not self._all_told:
            self._segment_timer = self._call_later(self._limits.segment_s, self._end_segment)
            return
        try:
            self._begin_segment()
        except OSError as error:
            self._note(error)
            self._segment_timer = self._call_later(self._limits.segment_s, self._end_segment)

    def _begin_segment(self) -> None:
        """Begin the next segment. Every number assigned so far is written."""
        self.reserved = self.last_seq + self.owed
        self._spool.begin(self._next_seq, self.reserved, self._wall_us())
        if self._segment_timer is not None:
            self._segment_timer.cancel()
            self._segment_timer = None

    def _note(self, error: OSError) -> None:
        now_s = self._clock.monotonic()
        if now_s - self._logged_s >= _LOG_INTERVAL_S:
            self._logged_s = now_s
            log.error("the audit log cannot write its spool; events wait or are dropped: %s", error)
