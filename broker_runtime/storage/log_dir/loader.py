"""Loads a `Log` from the files of a partition's folder, and creates a new one."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from uuid import UUID

from broker_runtime.config import LONG_MAX, TopicConfig
from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.checkpoint import PARTITION_METADATA
from broker_runtime.storage.disk.epochs import EPOCHS_FILE, LeaderEpochs
from broker_runtime.storage.disk.filesystem import FileSystem, read_file, replace_file
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.log_files import LoadedLog
from broker_runtime.storage.log.old_segments import RENAMED, RENAMED_LOG, end_of_renamed
from broker_runtime.storage.log.swap import CLEANED, GAPS_FILE, complete_swaps, superseded
from broker_runtime.storage.records.producers import ProducerStates
from broker_runtime.storage.recovery.recovery import (
    Damage,
    DamagedLogError,
    RecoveryReport,
    is_damage,
    is_followed,
    keep_scanned,
    load_quickly,
    scan_segment,
)
from broker_runtime.storage.recovery.scan_past import scan_past
from broker_runtime.storage.recovery.snapshots import is_whole, load_snapshot, replay_producers, store_indexes
from broker_runtime.storage.recovery.stand_in import UnreadableFile, mark_lost
from broker_runtime.storage.segment.aborted_index import SUFFIX as ABORTED
from broker_runtime.storage.segment.damaged_ranges import DamagedRange, range_at
from broker_runtime.storage.segment.segment import Segment, new_segment
from broker_runtime.storage.segment.segment_indexes import aborted_path, begin_aborted, find_aborted
from kafka_bytes.batches import Header

_LEFTOVERS = (".tmp", ".cleaned", ".swap")
_INDEXES = (".index", ".timeindex", ABORTED)


ACCEPT_LOSS = "accept-loss"
"""Name of the file that a person creates in the partition's folder to start with the readable records."""


def new_log(place: LogPlace, config: TopicConfig, segment: Segment) -> Log:
    """Return a log without records. `segment` is a result of `new_segment`."""
    return Log(place, config, LoadedLog([segment], ProducerStates(), has_new_names=True))


@dataclass(frozen=True, slots=True)
class Promise:
    """The guarantees of the last run for a log.

    They follow from the log's checkpoints and from the way in which the run ended.
    """

    log_start_offset: int = 0
    recovery_point: int = 0
    high_watermark: int = 0
    committed_end: int = 0
    """End of the committed records of the metadata log: no record above it was acknowledged."""
    is_journal: bool = False
    """Whether the log is the metadata log, which is synced in the order of its writes, before it acknowledges."""
    clean: bool = False
    """Whether the last run stopped cleanly, with everything synced."""
    whole: bool = False
    """Whether no written record can be lost: the last run stopped cleanly, or its page cache still exists."""

    kept: bool = True
    """Whether this version wrote the checkpoints: then none of them belongs to an earlier topic of that name."""
    begin: int = -1
    """Base offset of the first segment; -1 if unknown."""
    accepts_loss: bool = False
    """Whether a person gives up the records that cannot be read; all other records stay."""

    @property
    def least_end(self) -> int:
        """Return the lower limit for the end of the log: a log that ends before this offset has lost records."""
        known = max(self.high_watermark, self.log_start_offset) if self.whole and self.kept else 0
        return max(self.recovery_point, self.committed_end, known)

    def excuses(self, damage: Damage) -> bool:
        """Return whether the log may be cut at the damage.

        Such damage is the usual result of a crash, and the last run vouched for no record after it.
        """
        if self.is_journal and damage.followed:
            return False
        return damage.offset >= self.least_end and (not self.whole or (damage.torn and not self.clean))


@dataclass(frozen=True, slots=True)
class DamagedPartition:
    """A partition some of whose records must exist and cannot be read.

    `topic_id` is None if the folder does not have it; all promised records up to `offset` can be read.
    """

    topic_id: UUID | None
    offset: int
    promise: Promise
    reason: str

    def __str__(self) -> str:
        return (
            f"its log is damaged on this broker: {self.reason}. Restore the folder while the broker is stopped, or "
            f"create an empty file {ACCEPT_LOSS} in it to continue with the readable records"
        )


def load_log(place: LogPlace, config: TopicConfig, promise: Promise, report: RecoveryReport) -> Log:
    """Load a log; unless the last run stopped cleanly, scan all segments above the promised recovery point.

    The scanned records are not synced if no sync was promised and nothing was cut: a start with thousands of partitions
    would wait for as many fsyncs. Then the recovery point stays unchanged.

    Records that must exist and cannot be read become damaged ranges of the log if readable ones follow them. Otherwise
    raises DamagedLogError, and leaves everything on disk that could help a person.
    """
    try:
        return _load(place, config, promise, report, scan_all=False)
    except KafkaError:
        # An index, or a batch that was not checked, is damaged: checking each batch finds the place.
        pass
    except OSError as error:
        if not is_damage(error):
            raise
    try:
        return _load(place, config, promise, report, scan_all=True)
    except KafkaError as error:
        raise DamagedLogError(promise.log_start_offset, str(error)) from error
    except OSError as error:
        if not is_damage(error):
            raise
        raise DamagedLogError(promise.log_start_offset, str(error)) from error


def _load(place: LogPlace, config: TopicConfig, promise: Promise, report: RecoveryReport, *, scan_all: bool) -> Log:
    complete_swaps(place)
    bases, leftovers, renamed = _contents(place.fs, place.folder)
    syncs = scan_all or promise.is_journal or not promise.kept or config.flush_messages != LONG_MAX
    cut_before = report.cut
    loading = _Segments(place, config, promise, report, scan_all=scan_all, syncs=syncs)
    segments = loading.load(bases, renamed)
    end = segments[-1].next_offset if segments else loading.lost_from
    if end < promise.least_end and (promise.kept or promise.clean) and not promise.accepts_loss:
        raise DamagedLogError(end, f"the log ends there, but had records up to {promise.least_end}")
    for path in leftovers:
        place.fs.unlink(path)
    start = promise.log_start_offset if promise.kept or end >= promise.log_start_offset else 0
    start = max(start, loading.lost_from)
    loaded = LoadedLog(segments, ProducerStates(), start, promise.recovery_point, renamed=renamed)
    scan_from = 0 if scan_all else None if promise.clean else promise.recovery_point
    if not segments or end < loaded.log_start_offset:
        # Everything that is left lies below the log's start: continue at the start.
        for segment in segments:
            segment.unlink()
        loaded.segments = [new_segment(place, loaded.log_start_offset)]
        loaded.has_new_names = True
    loaded.log_start_offset = max(loaded.log_start_offset, loaded.segments[0].base_offset)
    end = loaded.segments[-1].next_offset
    if loaded.segments[-1].damage:
        # Nothing is appended to a damaged segment.
        loaded.segments.append(new_segment(place, end))
        loaded.has_new_names = True
    # The recovery point may be that of before the crash: the content of the page cache still has to be synced.
    is_synced = not promise.clean and (syncs or report.cut != cut_before)
    synced_below = end if is_synced else promise.recovery_point
    _load_producers(place, loaded, loading.unindexed, promise.high_watermark, synced_below)
    loaded.epochs = _load_epochs(place, loaded.segments, scan_from)
    loaded.may_have_gaps = place.fs.exists(place.folder / GAPS_FILE)
    if not is_synced:
        loaded.recovery_point = min(loaded.recovery_point, end)
        loaded.has_new_names = loaded.has_new_names or not promise.clean
    else:
        # The scanned records are synced; partition.metadata and the names that the crash left must be, too, before that
        # counts. The folder's own name is synced with all others, before the recovery points are written.
        place.fs.open(place.folder / PARTITION_METADATA).fsync()
        place.sync_folder()
        loaded.recovery_point = end
    report.partitions += 1
    return Log(place, config, loaded)


def _load_producers(
    place: LogPlace, loaded: LoadedLog, unindexed: list[Segment], high_watermark: int, synced_below: int
) -> None:
    """Load the producers' states from a snapshot, and replay the batches after it.

    Segments whose index of aborted transactions is missing or damaged need the states at their beginning. Their indexes
    are synced up to `synced_below`.
    """
    segments, producers = loaded.segments, loaded.producers
    end = segments[-1].next_offset
    unindexed = [segment for segment in unindexed if segment in segments]
    at_most = min((segment.base_offset for segment in unindexed), default=end)
    loaded.snapshot_offset = load_snapshot(place.fs, place.folder, end, producers, at_most=at_most)
    replay_producers(
        segments,
        producers,
        loaded.snapshot_offset,
        place.clock.wall_ms(),
        high_watermark=high_watermark,
        unindexed=unindexed,
    )
    if unindexed:
        store_indexes(place, unindexed, synced_below)
        loaded.has_new_names = True


def _contents(fs: FileSystem, folder: Path) -> tuple[list[int], list[Path], list[Path]]:
    """Return (base offsets of segments, leftovers of a crash, files of segments removed from the log)."""
    names = fs.listdir(folder)
    logs = {name.removesuffix(".log") for name in names if name.endswith(".log")}
    leftovers = []
    renamed = [folder / name for name in names if name.endswith(RENAMED) and name.partition(".")[0].isdecimal()]
    for name in names:
        stem, dot, _ = name.partition(".")
        if name.endswith(_LEFTOVERS) or (dot and name.endswith(_INDEXES) and stem not in logs):
            leftovers.append(folder / name)
    return sorted(int(stem) for stem in logs), leftovers, renamed


class _Segments:
    """Loads the segments of one log, up to its first damage if the log may be cut there."""

    def __init__(
        self,
        place: LogPlace,
        config: TopicConfig,
        promise: Promise,
        report: RecoveryReport,
        *,
        scan_all: bool,
        syncs: bool,
    ) -> None:
        self._place = place
        self._index_interval = config.index_interval_bytes
        self._promise = promise
        self._report = report
        self._scan_all = scan_all
        self._syncs = syncs
        self._gaps = place.fs.exists(place.folder / GAPS_FILE)
        names = place.fs.listdir(place.folder)
        self._aborted = {int(name.partition(".")[0]) for name in names if name.endswith(ABORTED)}
        """Base offsets of the segments that have an index of aborted transactions."""
        self._unfinished = {int(name.partition(".")[0]) for name in names if name.endswith(ABORTED + CLEANED)}
        """Base offsets of the segments whose index was not replaced, although a swap may have replaced the batches."""
        self.unindexed: list[Segment] = []
        """Segments whose index of aborted transactions is to be filled from the batches."""
        self.lost_from = 0
        """Where the log continues if its first segment is lost, and with it everything after it."""

    def load(self, bases: Sequence[int], renamed: Sequence[Path]) -> list[Segment]:
        """Load all segments; `renamed` are files of segments that were removed from the log. Raises DamagedLogError."""
        found: list[Segment] = []
        begin = self._begin(bases, renamed)
        if 0 <= begin < min(bases, default=0):
            damage = Damage(begin, 0, f"the log began at {begin}, but its first segment begins at {bases[0]}")
            if not bases or not self._takes_ranges(damage):
                self._excused(damage)
                self._drop(bases)
                self.lost_from = begin
                return found
            found.append(self._replacement(begin, bases[0]))
        bases = list(bases)
        number = 0
        while number < len(bases):
            segment = Segment(self._place.fs, self._place.folder, bases[number], self._place.clock.wall_ms())
            damage_before = self._gap(found, segment)
            if damage_before is None:
                number += 1
                damage_before = self._load_one(segment, bases[number:])
                found.append(segment)
            if damage_before is not None:
                # What follows the damage cannot be trusted to belong to the log: the log ends there.
                self._drop(bases[number:])
                break
            if self._gaps and number < len(bases) and bases[number] < segment.next_offset:
                old = superseded(segment, bases[number:])
                self._drop(bases[number : number + old])
                del bases[number : number + old]
        return found

    def _begin(self, bases: Sequence[int], renamed: Sequence[Path]) -> int:
        """Return the base offset of the first segment; -1 if it is not known.

        It is the end of the segments that were removed from the log since the offset was noted.
        """
        noted = self._promise.begin
        retired = {int(path.name.partition(".")[0]): path for path in renamed if path.name.endswith(RENAMED_LOG)}
        before = [base for base in retired if noted <= base < min(bases, default=0)]
        if noted not in before:
            return noted
        # The renamed segment is no longer part of the log: its damage is not a reason to give up the rest.
        try:
            end = end_of_renamed(self._place.fs, retired[max(before)])
        except (OSError, KafkaError):
            return -1
        may_be_torn = not self._promise.whole and end >= self._promise.recovery_point
        return -1 if may_be_torn else end

    def _gap(self, found: list[Segment], segment: Segment) -> Damage | None:
        """Return the damage if the log ends before `segment`. A lost segment between others becomes a damaged range."""
        if not found or found[-1].next_offset == segment.base_offset:
            return None
        end = found[-1].next_offset
        reason = f"{segment.path} does not begin at the next offset, {end}"
        damage = Damage(min(end, segment.base_offset), 0, reason)
        if end > segment.base_offset or not self._takes_ranges(damage):
            return self._excused(damage)
        if found[-1].size == 0:
            # An empty segment has represented the lost one since an earlier start.
            found.pop()
        found.append(self._replacement(end, segment.base_offset))
        return None

    def _replacement(self, base: int, follows: int) -> Segment:
        """Return a segment without records in place of a lost one. Raises OSError."""
        segment = Segment(self._place.fs, self._place.folder, base, self._place.clock.wall_ms())
        segment.file = self._place.fs.open(segment.path, create=True)
        lost = DamagedRange(base, follows, 0, 0, f"{segment.path} is lost, or the file before it ends too early")
        mark_lost(segment, lost)
        return segment

    def _load_one(self, segment: Segment, bases: Sequence[int]) -> Damage | None:
        """Load one segment and return the damage where the log ends; `bases` are those of the segments after it."""
        report, follows = self._report, bases[0] if bases else None
        report.segments_total += 1
        try:
            segment.open()
        except OSError as error:
            unopened = Damage(segment.base_offset, 0, f"{segment.path} cannot be opened: {error}")
            if follows is None or not is_damage(error) or not self._takes_ranges(unopened):
                raise
            segment.file = UnreadableFile(error)
            mark_lost(segment, DamagedRange(segment.base_offset, follows, 0, 0, unopened.reason))
            return None
        is_unsynced = not self._promise.clean and (follows is None or follows > self._promise.recovery_point)
        scan = self._scan_all or is_unsynced or segment.base_offset in self._unfinished
        if not scan:
            if load_quickly(segment, gaps=self._gaps) and self._is_in_place(segment, bases):
                self._find_aborted(segment)
                return None
            report.indexes_rebuilt += 1
        found = scan_segment(segment, self._index_interval, report, gaps=self._gaps)
        if found is None and not self._is_in_place(segment, bases):
            found = scan_segment(segment, self._index_interval, report, gaps=self._gaps, end_offset=follows)
        damage = None if found is None else self._judged(segment, found, follows)
        if segment.indexes.aborted is not None:
            self.unindexed.append(segment)
        if not is_unsynced and (segment.indexes.aborted is not None or segment.base_offset in self._aborted):
            # If this start is interrupted, the next one does not check each batch: this file shows it that the index of
            # aborted transactions is not filled.
            self._place.fs.open(aborted_path(segment.indexes), create=True).fsync()
            self._place.sync_folder()
        keep_scanned(segment, report, sync=self._syncs)
        if segment.indexes.aborted is None and segment.base_offset in self._aborted:
            self._place.fs.unlink(aborted_path(segment.indexes))
        return damage

    def _find_aborted(self, segment: Segment) -> None:
        """Take over the index of aborted transactions of an intact segment, or have it filled if it is damaged."""
        if segment.base_offset not in self._aborted:
            return
        find_aborted(segment.indexes)
        if not is_whole(segment):
            begin_aborted(segment.indexes)
            self.unindexed.append(segment)

    def _is_in_place(self, segment: Segment, bases: Sequence[int]) -> bool:
        return not self._gaps or _ends_in_place(segment, bases)

    def _judged(self, segment: Segment, damage: Damage, follows: int | None) -> Damage | None:
        """Return the damage where the log ends; None if the log continues after it. Raises DamagedLogError."""
        if follows is not None:
            # This file got no more writes once the next segment had begun.
            damage = replace(damage, torn=False)
        if self._promise.is_journal:
            damage = replace(damage, followed=follows is not None or is_followed(segment, damage))
        if not self._takes_ranges(damage) or (follows is not None and damage.offset >= follows):
            return self._excused(damage, segment)
        may_end = partial(self._may_end, is_last=follows is None)
        left = scan_past(segment, damage, follows, self._index_interval, may_end, gaps=self._gaps)
        return None if left is None else self._excused(left, segment)

    def _may_end(self, damage: Damage, *, is_last: bool) -> bool:
        """Whether the log is cut at a damage after another one, by the rules for the first damage after a crash."""
        damage = replace(damage, torn=damage.torn and is_last)
        return self._promise.excuses(damage) and not self._promise.accepts_loss

    def _takes_ranges(self, damage: Damage) -> bool:
        """Whether the broker serves records after the damage although those in it cannot be read."""
        return self._promise.accepts_loss or not (self._promise.is_journal or self._promise.excuses(damage))

    def _excused(self, damage: Damage, segment: Segment | None = None) -> Damage:
        if not self._promise.excuses(damage):
            if segment is not None:
                segment.indexes.forget()
            raise DamagedLogError(damage.offset, damage.reason)
        return damage

    def _drop(self, bases: Sequence[int]) -> None:
        for base in bases:
            Segment(self._place.fs, self._place.folder, base, 0).unlink()
            self._report.segments_dropped += 1


def _ends_in_place(segment: Segment, bases: Sequence[int]) -> bool:
    """Whether a segment of a cleaned log ends where another one begins, or before the next one.

    It may extend over other segments, which a power loss during a swap has brought back. Otherwise the base offset of
    its last batch, which is outside of the checksum, is wrong.
    """
    return not bases or segment.next_offset <= bases[0] or segment.next_offset in bases


def _load_epochs(place: LogPlace, segments: Sequence[Segment], scan_from: int | None) -> LeaderEpochs:
    """Return the leader epochs from their file, completed from the batches.

    The batches supply what a crash may have kept from the file, and everything if the file is damaged.
    """
    path = place.folder / EPOCHS_FILE
    content = read_file(place.fs, path) if place.fs.exists(path) else LeaderEpochs().encode()
    try:
        epochs = LeaderEpochs.decode(content)
    except ValueError:
        epochs = LeaderEpochs()
    epochs.truncate_end(segments[-1].next_offset)
    epochs.truncate_start(segments[0].base_offset)
    if scan_from is not None:
        _find_epochs(segments, scan_from, epochs)
    if not _epochs_fit(segments, epochs):
        epochs = LeaderEpochs()
        _find_epochs(segments, 0, epochs)
    if epochs.encode() != content:
        replace_file(place.fs, path, epochs.encode())
    return epochs


def _find_epochs(segments: Sequence[Segment], scan_from: int, epochs: LeaderEpochs) -> None:
    for segment in segments:
        position = segment.position_from(max(scan_from, segment.base_offset))
        for _, header in () if position is None else segment.headers(position):
            epochs.assign(header.leader_epoch, header.base_offset)


def _epochs_fit(segments: Sequence[Segment], epochs: LeaderEpochs) -> bool:
    """Whether the batches confirm where each epoch begins and ends.

    A cleaning may have removed all batches of an epoch. Offsets in a damaged range confirm or refute nothing.
    """
    end = segments[-1].next_offset
    entries = [entry for entry in epochs.entries if entry[1] < end]
    oldest = next((header for segment in segments for _, header in segment.headers(0)), None)
    if oldest is None or not entries or entries[0][1] > oldest.base_offset:
        return oldest is None
    stops = [start for _, start in entries[1:]] + [end]
    for (epoch, start), stop in zip(entries, stops, strict=True):
        if not all(_fits(segments, offset, epoch, start, stop) for offset in (start, stop - 1)):
            return False
    return True


def _fits(segments: Sequence[Segment], offset: int, epoch: int, start: int, stop: int) -> bool:
    """Whether the batch at `offset`, which is the first or the last of the epoch, has that epoch."""
    if _is_damaged_at(segments, offset):
        return True
    batch = _batch_at(segments, offset)
    if batch is None or (offset == start and batch.base_offset < start):
        return False
    return batch.base_offset >= stop or batch.leader_epoch == epoch


def _is_damaged_at(segments: Sequence[Segment], offset: int) -> bool:
    number = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
    return number >= 0 and range_at(segments[number].damage, offset) is not None


def _batch_at(segments: Sequence[Segment], offset: int) -> Header | None:
    """Return the batch with `offset` or, if that is damaged or left out, the next readable one of the segment."""
    number = bisect_right(segments, offset, key=lambda segment: segment.base_offset) - 1
    position = segments[number].position_from(offset) if number >= 0 else None
    return None if position is None else next(segments[number].headers(position))[1]
