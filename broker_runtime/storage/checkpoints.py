"""Kafka's three offset checkpoints of a folder and our ledger: as they are on disk, and when they are written anew.

A partition is in the ledger, for good, before it is in a checkpoint, and gone from all of them before its name is used
again.
"""

import logging
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.checkpoint import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Partition,
    read_offsets,
    write_offsets,
)
from broker_runtime.storage.disk import Disk, Done
from broker_runtime.storage.filesystem import FileSystem
from broker_runtime.storage.ledger import Entry, read_ledger, write_ledger
from broker_runtime.storage.log import Log

_LOGGER = logging.getLogger(__name__)
_NAMES = (RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS)


class Checkpoints:
    """`logs` are the manager's: what is written is what they have then, and what `keep` holds of others."""

    def __init__(self, fs: FileSystem, log_dir: Path, logs: Mapping[Partition, Log]) -> None:
        self._fs = fs
        self._log_dir = log_dir
        self._logs = logs
        self._on_disk: dict[str, dict[Partition, int]] = {name: {} for name in _NAMES}
        self._kept: dict[str, dict[Partition, int]] = {name: {} for name in _NAMES}
        self._lock = threading.Lock()
        """Held while a file is written, of which one may be in a thread."""
        self._newest = 0
        """Counts the contents of the recovery points' file: an older one must not come after a newer one."""
        self._points_failed = False
        self._gathers_starts = self._starts_have_moved = False
        self._newest_starts = self._written_starts = 0
        """As for the recovery points; the second is the newest that is on disk."""
        self._starts_on_their_way = 0
        self.ledger: dict[Partition, Entry] = {}
        """As it is on disk, for good."""
        self._kept_entries: dict[Partition, Entry] = {}
        self._newest_ledger = 0
        self._ledger_is_on_its_way = False

    def read(self) -> None:
        try:
            self.ledger = read_ledger(self._fs, self._log_dir)
        except ValueError as error:
            _LOGGER.warning("ignoring the damaged ledger of partitions: %s", error)
        self._on_disk = {name: self._read(name) for name in _NAMES}

    def _read(self, name: str) -> dict[Partition, int]:
        try:
            return read_offsets(self._fs, self._log_dir / name)
        except ValueError as error:
            # Without it everything is checked from the start, which is slower but loses nothing.
            _LOGGER.warning("ignoring a damaged checkpoint: %s", error)
            return {}

    def recovery_point(self, key: Partition) -> int:
        return self._on_disk[RECOVERY_POINTS].get(key, 0)

    def log_start(self, key: Partition) -> int:
        return self._on_disk[LOG_STARTS].get(key, 0)

    def high_watermark(self, key: Partition) -> int:
        return self._on_disk[HIGH_WATERMARKS].get(key, 0)

    def keep(self, key: Partition, least_end: int) -> None:
        """No log of this partition can be loaded now: what is said of it stays, and that it had records up to
        `least_end`, so that the next start knows it too."""
        for name in _NAMES:
            if key in self._on_disk[name]:
                self._kept[name][key] = self._on_disk[name][key]
        self._kept[RECOVERY_POINTS][key] = least_end
        if key in self.ledger:
            self._kept_entries[key] = self.ledger[key]

    def keep_no_longer(self, key: Partition) -> None:
        self._kept_entries.pop(key, None)
        for name in _NAMES:
            self._kept[name].pop(key, None)

    def forget(self, key: Partition) -> None:
        """What is said of a partition without a log is gone for good once it returns.

        Raises OSError, KafkaError.
        """
        self.keep_no_longer(key)
        for name in (RECOVERY_POINTS, HIGH_WATERMARKS):
            if key in self._on_disk[name]:
                self._write(name, self._now(name), sync=True)
        if key in self._on_disk[LOG_STARTS] or self._starts_on_their_way:
            self.write_log_starts()
        if key in self.ledger or self._ledger_is_on_its_way:
            self.write_ledger()

    def forget_stale(self, key: Partition) -> None:
        """While a folder is opened: these entries are of an earlier topic of that name."""
        for name in _NAMES:
            self._on_disk[name].pop(key, None)

    def write_ledger(self) -> None:
        """Raises OSError."""
        entries = self._entries()
        if entries != self.ledger or self._ledger_is_on_its_way:
            with self._lock:
                self._newest_ledger += 1
                write_ledger(self._fs, self._log_dir, entries)
            self.ledger, self._ledger_is_on_its_way = entries, False

    def _entries(self) -> dict[Partition, Entry]:
        begins = {key: Entry(log.topic_id, log.files.old.durable_base) for key, log in self._logs.items()}
        return {**self._kept_entries, **begins}

    def knows_begin(self, key: Partition, log: Log) -> bool:
        """Whether what lies before the log's begin may go without being missed by the next start."""
        known = self.ledger.get(key)
        return known is not None and known.topic_id == log.topic_id and known.begin >= log.segments[0].base_offset

    def _now(self, name: str) -> dict[Partition, int]:
        logs = self._logs.items()
        if name == RECOVERY_POINTS:
            found = {key: log.recovery_point for key, log in logs}
        elif name == HIGH_WATERMARKS:
            found = {key: log.high_watermark for key, log in logs}
        else:
            found = {k: log.log_start_offset for k, log in logs if log.log_start_offset > log.files.old.durable_base}
        return {**self._kept[name], **found}

    def _write(self, name: str, offsets: dict[Partition, int], *, sync: bool) -> None:
        if offsets != self._on_disk[name]:
            self._ledger_names(offsets)
            with self._lock:
                self._newest += name == RECOVERY_POINTS
                write_offsets(self._fs, self._log_dir / name, offsets, sync=sync)
            self._on_disk[name] = offsets

    def _ledger_names(self, offsets: Mapping[Partition, int]) -> None:
        """Before a checkpoint names them. Raises OSError."""
        if not offsets.keys() <= self.ledger.keys():
            self.write_ledger()

    def write_recovery_points_soon(self, disk: Disk) -> None:
        """The ledger too, in a thread; what fails is said, and made again by the next call."""
        self._write_ledger_soon(disk)
        points = self._now(RECOVERY_POINTS)
        if points == self._on_disk[RECOVERY_POINTS] and not self._points_failed:
            return
        # They may be there from now on. Those before are lower, or were put there at once by a cut.
        self._on_disk[RECOVERY_POINTS] = points
        self._points_failed = False
        self._newest += 1
        disk.submit(partial(self._write_points, points, self._newest), self._points_are_written)

    def _write_ledger_soon(self, disk: Disk) -> None:
        entries = self._entries()
        if entries == self.ledger:
            return
        if not entries.keys() <= self.ledger.keys():
            # The recovery points that come next must not name what the ledger does not.
            self.write_ledger()
            return
        self._newest_ledger += 1
        self._ledger_is_on_its_way = True
        number = self._newest_ledger
        disk.submit(partial(self._write_entries, entries, number), partial(self._ledger_is_written, entries, number))

    def _write_entries(self, entries: dict[Partition, Entry], number: int) -> None:
        with self._lock:
            if number == self._newest_ledger:
                write_ledger(self._fs, self._log_dir, entries)

    def _ledger_is_written(self, entries: dict[Partition, Entry], number: int, error: Exception | None) -> None:
        if number != self._newest_ledger:
            return
        self._ledger_is_on_its_way = False
        if error is None:
            self.ledger = entries
        else:
            _LOGGER.error("writing the ledger of partitions failed, it is tried again: %s", error)

    def _write_points(self, points: dict[Partition, int], number: int) -> None:
        with self._lock:
            if number == self._newest:
                write_offsets(self._fs, self._log_dir / RECOVERY_POINTS, points)

    def _points_are_written(self, error: Exception | None) -> None:
        if error is not None:
            self._points_failed = True
            _LOGGER.error("writing %s failed, it is tried again: %s", RECOVERY_POINTS, error)

    def write_recovery_points(self) -> None:
        """Raises OSError."""
        self.write_ledger()
        self._write(RECOVERY_POINTS, self._now(RECOVERY_POINTS), sync=True)

    def write_high_watermarks(self, *, sync: bool) -> None:
        """Where a restarted replica surely agrees with the others; a crash may lose it, too low is only slower.

        Raises OSError.
        """
        self._write(HIGH_WATERMARKS, self._now(HIGH_WATERMARKS), sync=sync)

    def write_log_starts(self) -> None:
        """Raises KafkaError."""
        starts = self._now(LOG_STARTS)
        self._starts_have_moved = False
        if starts == self._on_disk[LOG_STARTS] and not self._starts_on_their_way:
            return
        self._newest_starts += 1
        try:
            self._ledger_names(starts)
            self._write_starts(starts, self._newest_starts)
        except OSError as error:
            self._starts_have_moved = True
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"writing {LOG_STARTS} failed: {error}") from error
        self._on_disk[LOG_STARTS] = starts

    def log_start_moved(self) -> None:
        """Raises KafkaError."""
        if self._gathers_starts:
            self._starts_have_moved = True
        else:
            self.write_log_starts()

    @contextmanager
    def gathered_log_starts(self) -> Iterator[None]:
        """Starts that move within are noted together, by the `write_log_starts_soon` that follows."""
        self._gathers_starts = True
        try:
            yield
        finally:
            self._gathers_starts = False

    def write_log_starts_soon(self, disk: Disk, done: Done) -> None:
        """One write in a thread for all that have moved; `done` is called once it is there, or with why it is not."""
        if not self._starts_have_moved and not self._starts_on_their_way:
            done(None)
            return
        starts = self._now(LOG_STARTS)
        try:
            self._ledger_names(starts)
        except OSError as error:
            done(error)
            return
        self._starts_have_moved = False
        self._newest_starts += 1
        self._starts_on_their_way += 1
        number = self._newest_starts
        disk.submit(
            partial(self._write_starts, starts, number), partial(self._starts_are_written, starts, number, done)
        )

    def _write_starts(self, starts: dict[Partition, int], number: int) -> None:
        with self._lock:
            if number > self._written_starts:
                write_offsets(self._fs, self._log_dir / LOG_STARTS, starts)
                self._written_starts = number

    def _starts_are_written(
        self, starts: dict[Partition, int], number: int, done: Done, error: Exception | None
    ) -> None:
        self._starts_on_their_way -= 1
        if error is not None:
            self._starts_have_moved = True
        elif number == self._newest_starts:
            self._on_disk[LOG_STARTS] = starts
        done(error)

    def lower(self, key: Partition, log: Log) -> None:
        """A log is cut: offsets on disk behind its end would vouch for records that are yet to come.

        Raises KafkaError.
        """
        try:
            if self.recovery_point(key) > log.recovery_point:
                self.write_recovery_points()
            if self.high_watermark(key) > log.high_watermark:
                self.write_high_watermarks(sync=True)
            if key in self._logs and not self.knows_begin(key, log):
                self.write_ledger()
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"writing the checkpoints failed: {error}") from error
        self.write_log_starts()
