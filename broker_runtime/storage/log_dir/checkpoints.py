"""Kafka's four offset checkpoints of a folder and the broker's ledger: their contents, and the order of their writes.

A partition is durable in the ledger before it is in a checkpoint. It is removed from all files before its name is used
again.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.checkpoint import FIRST_DIRTY, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, Partition
from broker_runtime.storage.disk.disk import Disk
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.storage.disk.ledger import Entry
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log.log_starts import LogStarts
from broker_runtime.storage.log_dir.checkpoint_writer import CheckpointWriter, LedgerFile, Logs, OffsetsFile


class CheckpointedOffsets(NamedTuple):
    """The values of one partition in the checkpoint files; 0 for missing ones."""

    log_start: int
    recovery_point: int
    high_watermark: int
    first_dirty: int


class Checkpoints:
    """The checkpoint files of a log directory.

    Contents are the current offsets of `logs`, the manager's, and the values that `keep` has saved for other
    partitions. Methods raise OSError unless they say otherwise. `write_soon` writes in a thread of `disk`; it reports a
    failure, and its next call repeats the write.
    """

    def __init__(
        self,
        fs: FileSystem,
        log_dir: Path,
        logs: Logs,
        disk: Disk,
        on_failed: Callable[[str, Exception], None],
    ) -> None:
        """`on_failed` is called on the event loop with a description of the failed write."""
        self._logs = logs
        self._on_failed = on_failed
        self._recovery_points = OffsetsFile(fs, log_dir / RECOVERY_POINTS, logs, _recovery_points)
        self._high_watermarks = OffsetsFile(fs, log_dir / HIGH_WATERMARKS, logs, _high_watermarks)
        self._log_starts = OffsetsFile(fs, log_dir / LOG_STARTS, logs, _log_starts)
        self._first_dirty = OffsetsFile(fs, log_dir / FIRST_DIRTY, logs, _first_dirty)
        self._offset_files = (self._recovery_points, self._high_watermarks, self._log_starts, self._first_dirty)
        self.ledger = LedgerFile(fs, log_dir, logs)
        self._writer = CheckpointWriter(self.ledger, disk)
        self._under_way: set[str] = set()
        self.log_starts = LogStarts(
            self._log_starts,
            partial(self._writer.write, self._log_starts),
            partial(self._writer.write_soon, self._log_starts),
        )

    def read(self) -> None:
        for file in (self.ledger, *self._offset_files):
            file.read()

    def said_of(self, key: Partition) -> CheckpointedOffsets:
        return CheckpointedOffsets(
            self._log_starts.on_disk.get(key, 0),
            self._recovery_points.on_disk.get(key, 0),
            self._high_watermarks.on_disk.get(key, 0),
            self._first_dirty.on_disk.get(key, 0),
        )

    def keep(self, key: Partition, least_end: int) -> None:
        """Keep the entries of a partition whose log cannot be loaded now.

        The recovery point becomes `least_end`, so that the next start, too, knows up to which offset the log had
        records.
        """
        for file in self._offset_files:
            if key in file.on_disk:
                file.kept[key] = file.on_disk[key]
        self._recovery_points.kept[key] = least_end
        if key in self.ledger.on_disk:
            self.ledger.kept[key] = self.ledger.on_disk[key]

    def keep_no_longer(self, key: Partition) -> None:
        self.ledger.kept.pop(key, None)
        for file in self._offset_files:
            file.kept.pop(key, None)

    def forget(self, key: Partition) -> None:
        """Remove durably all entries of a partition without a log. Raises OSError, KafkaError."""
        self.forget_offsets(key)
        self.ledger.kept.pop(key, None)
        if self.ledger.may_say(key):
            self.ledger.write_now()

    def forget_offsets(self, key: Partition) -> None:
        """Remove durably the offsets of a partition without a log.

        The ledger still has the first offset of its log. Raises OSError, KafkaError.
        """
        for file in self._offset_files:
            file.kept.pop(key, None)
        if self._recovery_points.may_say(key):
            self._writer.write(self._recovery_points)
        if self._high_watermarks.may_say(key):
            self._writer.write(self._high_watermarks)
        if self._log_starts.may_say(key):
            self.log_starts.write()
        if self._first_dirty.may_say(key):
            self._writer.write(self._first_dirty)

    def forget_stale(self, key: Partition) -> None:
        """Forget the entries of an earlier topic of that name, while a folder is opened."""
        for file in self._offset_files:
            file.forget(key)

    def write_recovery_points(self) -> None:
        """Write the ledger and the recovery points."""
        self.ledger.write_now()
        self._recovery_points.write(self._recovery_points.now())

    def write_all(self, *, sync_high_watermarks: bool) -> None:
        self.write_recovery_points()
        self._writer.write(self._log_starts)
        self._writer.write(self._first_dirty)
        self._write_high_watermarks(sync=sync_high_watermarks)

    def _write_high_watermarks(self, *, sync: bool) -> None:
        """Write the offsets up to which a restarted replica certainly agrees with the others.

        A crash may lose them: a value that is too low only makes the start slower.
        """
        self._writer.write(self._high_watermarks, sync=sync)

    def write_soon(self, name: str) -> None:
        """Write the checkpoint file `name` in a thread, unless an earlier write of the file is still under way."""
        if name in self._under_way:
            return
        self._under_way.add(name)
        done = partial(self._is_written, name)
        if name == HIGH_WATERMARKS:
            self._writer.write_soon(self._high_watermarks, done, sync=False)
        elif name == FIRST_DIRTY:
            self._writer.write_soon(self._first_dirty, done)
        else:
            self._writer.write_with_ledger_soon(self._recovery_points, done)

    def _is_written(self, name: str, error: Exception | None) -> None:
        self._under_way.discard(name)
        if error is not None:
            self._on_failed(f"writing {name}", error)

    def lower(self, key: Partition, log: Log) -> None:
        """Lower the stored offsets of a log that is being cut.

        Otherwise offsets above the log's end would vouch for future records. Raises KafkaError.
        """
        try:
            if max(self._recovery_points.may_say(key), default=0) > log.recovery_point:
                self.write_recovery_points()
            if max(self._high_watermarks.may_say(key), default=0) > log.high_watermark:
                self._write_high_watermarks(sync=True)
            if max(self._first_dirty.may_say(key), default=0) > log.first_dirty_offset:
                # Records written in their place would count as cleaned: a key could keep a record that a tombstone has
                # deleted.
                self._writer.write(self._first_dirty)
            if key in self._logs and not knows_begin(self.ledger.on_disk.get(key), log):
                self.ledger.write_now()
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"writing the checkpoints failed: {error}") from error
        self.log_starts.write()


def knows_begin(entry: Entry | None, log: Log) -> bool:
    """Return whether the ledger's entry has the log's begin, so that the next start misses no offsets before it."""
    return entry is not None and entry.topic_id == log.topic_id and entry.begin >= log.segments[0].base_offset


def _recovery_points(logs: Logs) -> dict[Partition, int]:
    return {key: log.recovery_point for key, log in logs.items()}


def _high_watermarks(logs: Logs) -> dict[Partition, int]:
    return {key: log.high_watermark for key, log in logs.items()}


def _log_starts(logs: Logs) -> dict[Partition, int]:
    """Return the starts of logs that begin after the offset that the ledger has."""
    found = logs.items()
    return {key: log.log_start_offset for key, log in found if log.log_start_offset > log.files.old.durable_base}


def _first_dirty(logs: Logs) -> dict[Partition, int]:
    return {key: log.first_dirty_offset for key, log in logs.items() if log.first_dirty_offset}
