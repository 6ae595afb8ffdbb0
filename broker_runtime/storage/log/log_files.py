"""The files of one partition's log: writing to them, and cutting them back.

Owns the segments, the leader epochs' file and the snapshots of producers. Nothing counts until it is written
completely, so a full disk or a crash leaves no partial batch to read. Knows neither clients' rules nor watermarks:
`log.Log` does.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.epochs import LeaderEpochs
from broker_runtime.storage.disk.epochs_file import EpochsFile
from broker_runtime.storage.disk.filesystem import Buffer
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.log.log_health import LogHealth
from broker_runtime.storage.log.log_swaps import LogSwaps
from broker_runtime.storage.log.log_syncs import LogSyncs
from broker_runtime.storage.log.old_segments import OldSegments
from broker_runtime.storage.log.truncation import begin_anew, cut_back, reload_producers
from broker_runtime.storage.records.producers import ProducerStates
from broker_runtime.storage.recovery.snapshots import take_snapshot
from broker_runtime.storage.segment.known_damage import KnownDamage
from broker_runtime.storage.segment.segment import Segment


@dataclass(slots=True)
class LoadedLog:
    """The result of loading a log's folder. A new log has one empty segment."""

    segments: list[Segment]
    producers: ProducerStates
    log_start_offset: int = 0
    recovery_point: int = 0
    epochs: LeaderEpochs = field(default_factory=LeaderEpochs)
    has_new_names: bool = False
    snapshot_offset: int = -1
    renamed: list[Path] = field(default_factory=list)
    """Files of segments that had been removed from the log, under their present names."""
    may_have_gaps: bool = False


class LogFiles:
    """The files of a log.

    The last segment always exists: it receives all writes, and the log ends at its `next_offset`.

    A killed process loses nothing that was written; a power loss takes what lies above the recovery point of `syncs`.
    `health` records the effects of a failing disk and `old` the segments that have left the log at its beginning.
    `swaps` has the state of the log cleaner and `damage` the offsets that cannot be read.
    """

    __slots__ = (
        "damage",
        "epochs",
        "epochs_file",
        "has_aborted",
        "health",
        "old",
        "place",
        "producers",
        "segments",
        "snapshot_offset",
        "swaps",
        "syncs",
    )

    def __init__(self, place: LogPlace, loaded: LoadedLog) -> None:
        self.place = place
        self.segments = loaded.segments
        self.producers = loaded.producers
        self.epochs = loaded.epochs
        self.health = LogHealth(place)
        self.epochs_file = EpochsFile(place, self.epochs)
        self.syncs = LogSyncs(
            place,
            self.segments,
            self.health,
            self.epochs_file,
            loaded.recovery_point,
            is_new=loaded.has_new_names,
        )
        self.old = OldSegments(place, self.segments, self.syncs, loaded.renamed)
        self.snapshot_offset = loaded.snapshot_offset
        self.damage = KnownDamage(self.segments)
        self.has_aborted = any(segment.indexes.aborted is not None for segment in self.segments)
        """Whether a segment has, or had, an index of aborted transactions."""
        self.swaps = LogSwaps(place, self.syncs, may_have_gaps=loaded.may_have_gaps)

    @property
    def size(self) -> int:
        """Return the size of all batches, in bytes."""
        return sum(segment.size for segment in self.segments)

    def write(self, segment: Segment, buffers: list[Buffer]) -> None:
        """Append the buffers to the segment with one write. Undo a failed write, and raise KafkaError."""
        try:
            segment.append(buffers)
        except OSError as error:
            self._undo(segment)
            raise self.health.write_failure("append", error) from error

    def _undo(self, segment: Segment) -> None:
        """Cut what a failed write left behind, and forget a leader epoch that was to begin with it."""
        try:
            segment.truncate_tail()
        except OSError:
            # Nothing reads past the segment's size; the next append has to cut first.
            self.health.torn()
        # The epochs' file may still have it: a start ignores an epoch that begins where the log ends.
        self.epochs.truncate_end(segment.next_offset)

    def write_indexes_soon(self, segment: Segment) -> None:
        try:
            segment.indexes.write()
        except OSError as error:
            # The batch is stored. The entries stay in memory and are written with the next ones.
            self.place.on_write_failed(f"writing an index of {self.place}", error)

    def roll(self) -> Segment:
        """Begin a new segment at the end of the log, after completing the old one's index files.

        Bytes that a failed write left behind are cut first: in a segment that is not the last one, a start would treat
        it as damage. Raises KafkaError.
        """
        self._cut_torn()
        old = self.segments[-1]
        new = Segment(self.place.fs, self.place.folder, old.next_offset, self.place.clock.wall_ms())
        try:
            old.index_time()
            old.indexes.write()
            if old.indexes.aborted is not None:
                old.indexes.aborted.write()
            self._snapshot()
            new.create()
        except OSError as error:
            raise self.health.write_failure("roll", error) from error
        self.syncs.names_made += 1
        self.segments.append(new)
        return new

    def _snapshot(self) -> None:
        """Write a snapshot of producers, which is synced with the batches. If damaged, the one before is used."""
        end = self.segments[-1].next_offset
        # As in Kafka, an empty log has no snapshot.
        if self.snapshot_offset != end > 0:
            self.syncs.unsynced_snapshot = take_snapshot(self.place.fs, self.place.folder, self.producers, end)
            self.snapshot_offset = end

    def begin_epoch(self, epoch: int, start: int) -> None:
        """Record a leader epoch in memory before its first batch is written.

        The file gets the epoch when that batch is synced. Raises KafkaError.
        """
        self.epochs.assign(epoch, start)
        try:
            self.epochs_file.prepare()
        except OSError as error:
            self.epochs.truncate_end(start)
            raise self.health.write_failure("writing the leader epochs", error) from error

    def _store_epochs(self) -> None:
        """Write the leader epochs and sync them. Raises OSError."""
        self.epochs_file.prepare()
        draft = self.epochs_file.take()
        if draft is not None:
            self.epochs_file.store(draft)
        self.place.sync_folder()

    def make_usable(self) -> None:
        """Cut the bytes that a failed write left.

        Raises KafkaError, always if the log is offline or the disk is full.
        """
        self.health.check()
        self.place.may_append()
        self._mend()

    def _mend(self) -> None:
        self._cut_torn()
        self.health.mended()

    def _cut_torn(self) -> None:
        if self.health.is_torn:
            try:
                self.segments[-1].truncate_tail()
            except OSError as error:
                raise self.health.write_failure("truncate", error) from error
            self.health.is_torn = False

    def cut_back(self, end: int, index_interval: int, high_watermark: int) -> None:
        """Drop, durably, all batches that begin at or above `end`, the end of a batch. Raises KafkaError.

        Transactions whose marker lies below the `high_watermark` are replicated.
        """
        self.syncs.cuts += 1
        try:
            self.swaps.withdraw()
            unindexed = cut_back(self.place, self.segments, end, index_interval)
            self.epochs.truncate_end(end)
            self._store_epochs()
            self._after_cut(high_watermark, unindexed)
        except (OSError, KafkaError) as error:
            raise self._cut_failed(error) from error

    def begin_anew(self, offset: int) -> None:
        """Drop all batches, durably, and continue at `offset`. Raises KafkaError."""
        self.syncs.cuts += 1
        try:
            self.swaps.withdraw()
            self.epochs.clear()
            self._store_epochs()
            begin_anew(self.place, self.segments, offset)
            self.old.are_gone_for_good()
            self._after_cut(offset, ())
        except (OSError, KafkaError) as error:
            raise self._cut_failed(error) from error

    def _after_cut(self, high_watermark: int, unindexed: Sequence[Segment]) -> None:
        place, segments = self.place, self.segments
        self.snapshot_offset = reload_producers(place, segments, self.producers, high_watermark, unindexed)
        self.health.mended()

    def _cut_failed(self, error: Exception) -> KafkaError:
        self.health.give_up("truncation", error)
        return self.health.failure("truncate", error)

    def forget_epochs_before(self, offset: int) -> None:
        """Forget the leader epochs before `offset` in memory.

        The file changes with the next epoch, and a start forgets the same epochs.
        """
        self.epochs.truncate_start(offset)

    def release_idle(self) -> None:
        """Drop index entries from memory that were not used since the last call."""
        for segment in self.segments[:-1]:
            if segment.next_offset <= self.syncs.recovery_point:
                segment.indexes.release()

    def complete(self) -> None:
        """Write complete indexes and a snapshot of producers; the caller syncs. Raises KafkaError."""
        self.health.check()
        self._mend()
        active = self.segments[-1]
        active.index_time()
        try:
            active.indexes.write()
            if active.indexes.aborted is not None:
                active.indexes.aborted.write()
            self._snapshot()
        except OSError as error:
            raise self.health.write_failure("snapshot", error) from error

    def close(self) -> None:
        """Complete the files and sync all unsynced ones. Raises KafkaError.

        Raises it while a sync is under way, too: only the result of that sync tells whether the files are whole.
        """
        if self.syncs.is_under_way:
            raise self.health.failure("close", RuntimeError("a sync has not ended"))
        self.complete()
        self.syncs.flush()
