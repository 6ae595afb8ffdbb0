"""Which logs of a folder have damaged ranges, and the check of a segment after a failed read (decision 46).

A start finds most damage. While a broker runs, a read that finds no batch or meets an I/O error triggers a check of the
whole segment in a thread. Damaged parts become damaged ranges of the log, and everything else is served. If only an
index is lost or cannot be read, it is rebuilt.
"""

import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from broker_runtime.clock import Clock
from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.checkpoint import Partition
from broker_runtime.storage.disk.disk import Disk
from broker_runtime.storage.disk.disk_slices import DiskSlices, Work
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.recovery.recovery import BatchScan, Damage
from broker_runtime.storage.recovery.scan_past import steps_past
from broker_runtime.storage.recovery.snapshots import is_whole
from broker_runtime.storage.segment.damaged_ranges import DamagedRange
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.segment_indexes import keep_in_files, keep_in_memory

if TYPE_CHECKING:
    from broker_runtime.storage.damage.refilling import Refilling

_LOGGER = logging.getLogger(__name__)
REFILLING = "broker_runtime.storage.damage.refilling"
"""The module `refilling`, imported when an index of aborted transactions is damaged (decision 45)."""
_WAITING_MAX = 100
_AGAIN_S = 60.0
"""Least time between two checks of a segment, in seconds; `_DAMAGED_AGAIN_S` is for one with known damage."""
_DAMAGED_AGAIN_S = 600.0


class DamageWatch:
    """Finds and reports damage in the logs of a folder.

    `logs` are the manager's. Damage is stored with the segments; this class keeps only counts.
    """

    def __init__(self, logs: Mapping[Partition, Log], disk: Disk, clock: Clock) -> None:
        self.on_found: Callable[[], None] = _nothing
        """Called when a log has new damaged ranges."""
        self.mended_ranges = 0
        """Number of ranges that have become readable again since the start."""
        self.accepted_ranges = 0
        """Number of ranges that a person has given up since the start."""
        self._logs = logs
        self._disk = disk
        self._clock = clock
        self._damaged: dict[Partition, None] = {}
        self._waiting: deque[tuple[Log, Segment]] = deque()
        self._checks = False

    def note(self, log: Log) -> None:
        """Log that `log` has damaged ranges, and remember this log."""
        self._damaged[log.topic, log.partition] = None
        for damaged in log.damage:
            _LOGGER.error(
                "offsets %d to %d of %s cannot be read: %s. All other offsets are served",
                *(damaged.first_offset, damaged.next_offset - 1, log.place, damaged.reason),
            )
        self.on_found()

    def logs(self) -> list[Log]:
        """Return the logs that have damaged ranges now."""
        found = []
        for key in list(self._damaged):
            log = self._logs.get(key)
            if log is not None and log.is_damaged:
                found.append(log)
            else:
                del self._damaged[key]
        return found

    @property
    def count(self) -> int:
        """Return the number of damaged ranges in all logs now."""
        return sum(len(log.damage) for log in self.logs())

    def suspect(self, log: Log, segment: Segment) -> None:
        """Check the segment soon after a failed read, unless a check is under way or recent.

        A damaged segment is checked again, too: a disk may have recovered.
        """
        now_s = self._clock.monotonic()
        if (segment.damage and not segment.size) or len(self._waiting) >= _WAITING_MAX:
            return
        if now_s - segment.checked_s < (_DAMAGED_AGAIN_S if segment.damage else _AGAIN_S):
            return
        segment.checked_s = now_s
        try:
            if segment is log.segments[-1]:
                # Nothing is appended to a segment that is checked.
                log.files.roll()
        except KafkaError as error:
            _LOGGER.error("%s is not checked: %s", segment.path, error)
            return
        self._waiting.append((log, segment))
        self._next()

    def _next(self) -> None:
        if self._checks or not self._waiting:
            return
        self._checks = True
        log, segment = self._waiting.popleft()
        copy = Segment(segment.fs, log.place.folder, segment.base_offset, segment.created_ms)
        copy.file = segment.file
        copy.indexes.renew()
        keep_in_memory(copy.indexes)
        gaps, interval = log.files.swaps.may_have_gaps, log.config.index_interval_bytes
        steps = _check(copy, segment.next_offset, interval, gaps=gaps)
        self._slice(log, segment, copy, iter(DiskSlices(steps, self._clock.monotonic)))

    def _slice(
        self, log: Log, segment: Segment, copy: Segment, slices: Iterator[Work], error: Exception | None = None
    ) -> None:
        """Submit the next piece of a check to a thread; after the last one, apply the result."""
        work = None if error is not None else next(slices, None)
        if work is not None:
            self._disk.submit(work, partial(self._slice, log, segment, copy, slices))
            return
        self._checks = False
        if error is not None:
            _LOGGER.error("the check of %s failed: %s", segment.path, error)
        elif any(each is segment for each in log.segments):
            # The aborted transactions are not known from the segment alone.
            copy.indexes.aborted = segment.indexes.aborted
            if copy.damage != segment.damage:
                self._take(log, segment, copy)
            elif not copy.damage and copy.next_offset == segment.next_offset and not segment.indexes.are_there:
                self._renew_indexes(segment, copy)
            if not is_whole(segment):
                self._refill(log, segment)
        self._next()

    def _take(self, log: Log, segment: Segment, copy: Segment) -> None:
        segment.indexes = copy.indexes
        log.files.damage.found(segment, copy.damage)
        if copy.damage:
            self._disk.submit(copy.indexes.forget, partial(_forgotten, segment))
            self.note(log)
        else:
            _LOGGER.warning("%s can be read again", segment.path)

    def _refill(self, log: Log, segment: Segment) -> None:
        """Fill the damaged index of aborted transactions from the batches."""
        _LOGGER.warning("the aborted transactions of %s cannot be read, and are found in its batches", segment.path)
        refilling: Refilling = import_module(REFILLING).Refilling(log, segment, replaces_states=False)
        self._refill_slice(segment, refilling.run())

    def _refill_slice(
        self, segment: Segment, works: Generator[Work, None, None], error: Exception | None = None
    ) -> None:
        try:
            work = next(works) if error is None else works.throw(error)
        except StopIteration:
            return
        except (OSError, KafkaError) as failed:
            _LOGGER.error("the aborted transactions of %s cannot be found: %s", segment.path, failed)
            return
        self._disk.submit(work, partial(self._refill_slice, segment, works))

    def _renew_indexes(self, segment: Segment, copy: Segment) -> None:
        """Replace the indexes: the records are intact, but an index file is lost or cannot be read."""
        _LOGGER.warning("the indexes of %s cannot be read, and are rebuilt", segment.path)
        copy.index_time()
        keep_in_files(copy.indexes)
        segment.indexes = copy.indexes
        self._disk.submit(copy.indexes.write, partial(_written, segment))


def _check(copy: Segment, next_offset: int, index_interval: int, *, gaps: bool) -> Generator[int, None, None]:
    """Scan the file of a sealed segment; `copy` has its damage afterwards."""
    scan = BatchScan(copy, copy.file.size(), gaps=gaps, end_offset=next_offset)
    for header in scan:
        copy.commit(header.size, header.last_offset, header.newest_ms, index_interval)
        yield header.size
    damage = scan.damage
    if damage is not None and damage.offset < next_offset:
        yield from steps_past(copy, damage, next_offset, index_interval, _continue_past, gaps=gaps)
    elif copy.next_offset < next_offset:
        end, reason = copy.file.size(), f"{copy.path} ends too early"
        copy.take_damage((DamagedRange(copy.next_offset, next_offset, end, end, reason),))


def _continue_past(_: Damage) -> bool:
    return False


def _forgotten(segment: Segment, error: Exception | None) -> None:
    if error is not None:
        _LOGGER.error(
            "the indexes of %s could not be removed, so the next start may not detect the damage: %s",
            segment.path,
            error,
        )


def _written(segment: Segment, error: Exception | None) -> None:
    if error is not None:
        _LOGGER.error(
            "the indexes of %s could not be written, so the next start rebuilds them: %s", segment.path, error
        )


def _nothing() -> None:
    pass
