"""The cleaning of one log, from the offset map to the last segment that is swapped.

It runs on the event loop, and yields work for threads; the caller reports when that is done. Between two pieces of work
the log may have been cut, deleted, reassigned or reconfigured: then the cleaning stops. Completed swaps stay, because
readers see the same log after each.
"""

import errno
from collections.abc import Generator
from dataclasses import dataclass

from broker_runtime.clock import Clock
from broker_runtime.storage.compaction.dirt import Dirt, grouped
from broker_runtime.storage.compaction.offset_map import OffsetMap
from broker_runtime.storage.compaction.steps import (
    BufferSizes,
    CleaningSource,
    Counts,
    Rules,
    fill_map,
    note_newest,
    write_kept,
)
from broker_runtime.storage.compaction.transactions import CleanedTransactions, load_aborted
from broker_runtime.storage.disk.disk_slices import DiskSlices, Work
from broker_runtime.storage.disk.filesystem import File
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.replacing import ReplacingStoppedError, put_in_place, tidy
from broker_runtime.storage.log.swap import Swap
from broker_runtime.storage.records.transactions import Ended
from broker_runtime.storage.segment.segment import Segment

_ROOM_BYTES = 16 << 20
"""Space that is left to producers: a cleaning must not fill the disk."""


class CleaningStoppedError(Exception):
    """Stops a cleaning whose log has changed meanwhile. The log is not damaged."""


@dataclass(frozen=True, slots=True)
class CleanerSettings:
    """The limits of a cleaning's memory and reads, from the keys log.cleaner.*."""

    map_bytes: int
    map_load_factor: float
    io_bytes: int
    unpacked_bytes_max: int


class Cleaning:
    """One cleaning of a log.

    Only the swapped segments are durable; the caller stores the offset that `run` returns.
    """

    def __init__(self, log: Log, dirt: Dirt, settings: CleanerSettings, clock: Clock) -> None:
        self.counts = Counts()
        self.utilization = 0.0
        self._log = log
        self._dirt = dirt
        self._settings = settings
        self._clock = clock
        self._cuts = log.files.syncs.cuts
        self._slices: DiskSlices | None = None
        self._old_files: list[File] = []
        self._bytes = 0

    @property
    def bytes(self) -> int:
        """Return the bytes that were read and written so far."""
        return self._bytes + (0 if self._slices is None else self._slices.bytes)

    def run(self) -> Generator[Work, None, int]:
        """Clean the log, and return the offset up to which it is clean.

        Raises CleaningStoppedError, OSError, KafkaError, and any other error of its work.
        """
        try:
            return (yield from self._run())
        except Exception:
            # A log that was closed or cut during the work is not damaged.
            self._check()
            raise

    def _run(self) -> Generator[Work, None, int]:
        log, dirt, settings = self._log, self._dirt, self._settings
        buffers = BufferSizes(settings.io_bytes, settings.unpacked_bytes_max, log.config.index_interval_bytes)
        offsets = OffsetMap(settings.map_bytes, settings.map_load_factor)
        offsets.latest = dirt.first_dirty - 1
        dirty = [each for each in log.segments if dirt.first_dirty < each.next_offset <= dirt.end]
        sources = [_source(segment, dirt.first_dirty) for segment in dirty]
        del dirty
        aborted: list[Ended] = []
        packed: list[bytes] = []
        for each in list(log.segments):
            # Old segments may be deleted meanwhile.
            if each.indexes.aborted is not None and each.base_offset >= log.segments[0].base_offset:
                packed.append(each.indexes.aborted.packed)
                yield _nothing
                self._check()
        yield from self._in_slices(DiskSlices(load_aborted(packed, aborted), self._now))
        del packed
        filling = fill_map(offsets, sources, dirt.first_dirty, CleanedTransactions(aborted), buffers, self.counts)
        yield from self._in_slices(DiskSlices(filling, self._now))
        del sources
        self.utilization = offsets.utilization
        end = offsets.latest + 1
        newest: dict[int, int] = {}
        yield from self._in_slices(DiskSlices(note_newest(log.producers, newest), self._now))
        now_ms, retention_ms = self._clock.wall_ms(), log.config.delete_retention_ms
        rules = Rules(offsets, newest, CleanedTransactions(aborted), now_ms, retention_ms)
        segments = [each for each in log.segments if each.base_offset < end and each.next_offset <= dirt.end]
        groups = [segments[begin:stop] for begin, stop in grouped(segments, log.config)]
        del segments
        while groups:
            yield from self._clean_group(groups.pop(0), rules, buffers)
            # Dropping the last reference to a large file that has no name any more takes milliseconds.
            yield self._old_files.clear
            self._check()
        return end

    def _now(self) -> float:
        return self._clock.monotonic()

    def _in_slices(self, slices: DiskSlices) -> Generator[Work, None, None]:
        self._slices = slices
        for time_slice in slices:
            yield time_slice
            self._check()
        self._bytes, self._slices = self.bytes, None

    def _check(self) -> None:
        log = self._log
        if log.failure is not None:
            raise CleaningStoppedError(log.failure)
        if log.files.syncs.cuts != self._cuts or not log.config.compacted:
            raise CleaningStoppedError(f"{log.place} was truncated, or is no longer compacted")

    def _clean_group(self, old: list[Segment], rules: Rules, buffers: BufferSizes) -> Generator[Work, None, None]:
        log, counts = self._log, self.counts
        place, needed = log.place, sum(segment.size for segment in old)
        if place.fs.free_bytes(place.folder) < needed + _ROOM_BYTES:
            raise OSError(
                errno.ENOSPC, f"the disk has too little space: {needed} bytes are needed, and some for other logs"
            )
        changed_before, base = counts.batches_changed, old[0].base_offset
        if not log.files.swaps.claim(base):
            raise CleaningStoppedError(f"a segment of {log.place} is being repaired")
        swap: Swap | None = None
        try:
            swap = Swap(log.place, log.segments, old)
            sources = [_source(segment, segment.base_offset) for segment in old]
            yield from self._in_slices(DiskSlices(write_kept(swap.new, sources, rules, buffers, counts), self._now))
            if len(old) > 1 or counts.batches_changed > changed_before:
                yield swap.sync
                yield from self._put_in_place(swap)
                self._old_files += [segment.file for segment in old]
        finally:
            if swap is not None:
                tidy(log, swap)
            log.files.swaps.release(base)

    def _put_in_place(self, swap: Swap) -> Generator[Work, None, None]:
        try:
            yield from put_in_place(self._log, swap, self._check, "it is compacted")
        except ReplacingStoppedError as stopped:
            raise CleaningStoppedError(str(stopped)) from None


def _nothing() -> None:
    """Let the event loop run between two steps that only it may do."""


def _source(segment: Segment, from_offset: int) -> CleaningSource:
    start = segment.position_of(max(from_offset, segment.base_offset))
    begin = segment.size if start is None else start
    return CleaningSource(segment.file, segment.path, begin, segment.size, segment.base_offset, segment.next_offset)
