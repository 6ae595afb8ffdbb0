"""All logs of one folder: opening and recovering, creating and deleting them, and their periodic upkeep.

Owns the folder's lock, its checkpoints and its run record. Knows topics by name only: the controller decides which
broker leads a partition. `meta.properties` belongs to the broker.

`startup_loader` loads the partitions at a start, `log_places` names their files, and `freed_names` has the folders that
no log uses any more. `LogManager` alone changes which logs and which damaged partitions there are.
"""

import errno
import logging
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.compaction.cleaner import LogCleaner
from broker_runtime.storage.damage.damage_watch import DamageWatch
from broker_runtime.storage.disk.checkpoint import FIRST_DIRTY, Partition
from broker_runtime.storage.disk.disk import Disk, InlineDisk
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.disk.run_record import UNKNOWN_BOOT, RunRecord
from broker_runtime.storage.disk.stray import DELETED, STRAY, missing_partitions
from broker_runtime.storage.disk.waiters import AtOnce, Wakes
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.checkpoints import Checkpoints
from broker_runtime.storage.log_dir.freed_names import FreedNames
from broker_runtime.storage.log_dir.loader import DamagedPartition, Promise, load_log, new_log
from broker_runtime.storage.log_dir.log_dir_health import LogDirHealth
from broker_runtime.storage.log_dir.log_places import LogPlaces
from broker_runtime.storage.log_dir.new_logs import NewLogs
from broker_runtime.storage.log_dir.startup_loader import StartupLoader
from broker_runtime.storage.log_dir.upkeep import LogUpkeep
from broker_runtime.storage.recovery.recovery import DamagedLogError, RecoveryReport

_LOGGER = logging.getLogger(__name__)
_FOLDER = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")


class LogManager:
    """All logs of a folder, from their loading to their close.

    `disk` runs the syncs of logs in use, so that a slow one blocks no other work; starts and stops sync inline. `wakes`
    runs the callbacks of those that wait for a log.
    """

    def __init__(
        self,
        log_dir: Path,
        *,
        fs: FileSystem,
        clock: Clock,
        disk: Disk | None = None,
        wakes: Wakes | None = None,
        boot_id: str = UNKNOWN_BOOT,
        reserve_bytes: int = 0,
    ) -> None:
        self._log_dir = log_dir
        self._fs = fs
        self._clock = clock
        disk = disk or InlineDisk()
        self.wakes = wakes or AtOnce()
        self._logs: dict[Partition, Log] = {}
        self._lock: object | None = None
        self.run_record = RunRecord(fs, log_dir, boot_id)
        self.dir_health = LogDirHealth(fs, log_dir, clock, disk, reserve_bytes, self._hold_records)
        self._places = LogPlaces(log_dir, fs, clock, disk, self.wakes, self.dir_health, self.run_record.failed)
        self._checkpoints = Checkpoints(fs, log_dir, self._logs, disk, self.dir_health.write_failed)
        self.log_starts = self._checkpoints.log_starts
        self._names = FreedNames(log_dir, fs, disk, clock, self._checkpoints)
        self.strays = self._names.strays
        self.new_logs = NewLogs(disk, self._place_to_make, self._names.clear, self._names.discard)
        self.cleaner = LogCleaner(self._logs, disk, clock, partial(self._checkpoints.write_soon, FIRST_DIRTY))
        self.upkeep = LogUpkeep(self._logs, self._checkpoints, self._names.deleted, clock)
        self.damage = DamageWatch(self._logs, disk, clock)
        """Finds and counts damaged ranges of logs that are served."""
        self.damaged: dict[Partition, DamagedPartition] = {}
        """Partitions that cannot be served at all.

        Their files stay unchanged for a person, or until another broker is known to have the records.
        """

    def open(
        self, config_of: Callable[[str], TopicConfig], *, journal: str | None = None, copy: str | None = None
    ) -> RecoveryReport:
        """Load every partition of the folder, and recover it if needed.

        Raises ConfigError when the folder cannot be used. `journal` is the topic whose high watermark moves only after
        a sync, and whose offsets are broker epochs. `copy` is a topic that is stored elsewhere and rebuilt when that
        store is read, so its damage is not a loss of records.
        """
        self._places.journal, self._places.copy = journal, copy
        began = self._clock.monotonic()
        self._lock = _locked(self._fs, self._log_dir)
        folders = [name for name in self._fs.listdir(self._log_dir) if self._fs.is_dir(self._log_dir / name)]
        try:
            self.dir_health.release()
            report = RecoveryReport(clean=self.run_record.begin() or not folders)
            self._load(folders, config_of, report)
            self.dir_health.reserve()
        except OSError as error:
            if error.errno != errno.ENOSPC:
                # The system may report the error only once; a second start would find nothing wrong.
                self.run_record.lost()
            raise
        report.took_ms = round((self._clock.monotonic() - began) * 1000)
        return report

    def _load(self, folders: list[str], config_of: Callable[[str], TopicConfig], report: RecoveryReport) -> None:
        checkpoints = self._checkpoints
        checkpoints.read()
        loader = StartupLoader(self._places, checkpoints, self.run_record, self.strays, report)
        parted = [name for name in folders if name.endswith((DELETED, STRAY))]
        found = {(m["topic"], int(m["partition"])): name for name in folders if (m := _FOLDER.fullmatch(name))}
        for key in found:
            loaded = loader.load(key, config_of(key[0]))
            if isinstance(loaded, DamagedPartition):
                self.damaged[key] = loaded
            elif loaded is not None:
                self._add_loaded(key, loaded)
        self.damage.accepted_ranges += loader.accepted_ranges
        if self.run_record.kept_ledger:
            for key in missing_partitions(checkpoints.ledger.on_disk.keys() - found.keys(), parted):
                missing = loader.missing(key)
                if missing is not None:
                    self.damaged[key] = missing
        for name in parted:
            self.strays.note(name)
        if not report.clean:
            self._fs.fsync_dir(self._log_dir)
        # A high watermark must not vouch for records that replace lost ones. Nor may a log that ends before its noted
        # start look as if it had lost records once it gets new ones.
        checkpoints.write_all(sync_high_watermarks=bool(loader.accepted))
        for marker in loader.accepted:
            self._fs.unlink(marker)
        # Only now does no file say any more that these partitions should exist.
        for name in parted:
            if name.endswith(DELETED):
                self._names.deleted.note(name)
        self.run_record.recovered()

    def _add_loaded(self, key: Partition, log: Log) -> None:
        self._add(key, log)
        if log.damage:
            self.damage.note(log)
        if log.recovery_point < log.log_end_offset:
            self.upkeep.sync_soon(log)

    def _add(self, key: Partition, log: Log) -> None:
        log.on_start_moved = self._checkpoints.log_starts.moved
        log.on_cut = partial(self._checkpoints.lower, key, log)
        if not self._places.is_metadata(key[0]):
            log.on_unreadable = partial(self.damage.suspect, log)
        self._logs[key] = log
        if self.dir_health.is_full:
            log.files.health.usable = False

    def _hold_records(self) -> None:
        """Make each log check for space before it appends, because the directory is full."""
        for log in self._logs.values():
            log.files.health.usable = False

    def create(self, topic: str, partition: int, topic_id: UUID, config: TopicConfig) -> Log:
        """Return the partition's log; create a missing one.

        Raises KafkaError: KAFKA_STORAGE_ERROR, or INCONSISTENT_TOPIC_ID when another topic's log has the name.
        """
        key = (topic, partition)
        existing = self._logs.get(key)
        if existing is not None:
            if existing.topic_id != topic_id:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID, f"{topic}-{partition} on disk belongs to {existing.topic_id}"
                )
            existing.update_config(config)
            return existing
        if key in self.damaged:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{topic}-{partition}: {self.damaged[key]}")
        self.dir_health.check()
        place = self._places.place(key, topic_id)
        try:
            log = new_log(place, config, self.new_logs.take(place))
        except OSError as error:
            self.dir_health.write_failed(f"creating {topic}-{partition}", error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"creating {topic}-{partition} failed: {error}") from error
        self._add(key, log)
        return log

    def _place_to_make(self, key: Partition, topic_id: UUID) -> LogPlace | None:
        there_is_one = key in self._logs or key in self.damaged
        return None if there_is_one or self.dir_health.is_full else self._places.place(key, topic_id)

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def logs(self) -> list[Log]:
        return list(self._logs.values())

    def holdings(self) -> list[tuple[Partition, UUID | None]]:
        """Return all partitions with a folder here, whole or damaged, with their topic ids if known."""
        whole = [(key, log.topic_id) for key, log in self._logs.items()]
        return whole + [(key, damaged.topic_id) for key, damaged in self.damaged.items()]

    def cut_damaged(self, topic: str, partition: int, topic_id: UUID, config: TopicConfig) -> Log:
        """Cut a damaged log where its damage begins, and return the log.

        The records from there on are given up, because another broker has all of them. Raises KafkaError.
        """
        key = (topic, partition)
        damaged = self.damaged[key]
        report = RecoveryReport(clean=False)
        try:
            # Before the cut, so that no offset on disk vouches for records that replace the lost ones. The log's first
            # offset stays known: after a crash during the cut, a log without its beginning must not look whole.
            self._checkpoints.forget_offsets(key)
            del self.damaged[key]
            folder_exists = self._fs.exists(self._places.folder(key))
            if damaged.topic_id is None or not folder_exists:
                if folder_exists:
                    _LOGGER.error("%s-%d is set aside as %s", *key, self.strays.take(self._places.folder(key)))
                return self.create(topic, partition, topic_id, config)
            start, begin = min(damaged.promise.log_start_offset, damaged.offset), damaged.promise.begin
            promise = Promise(start, damaged.offset, begin=begin)
            log = load_log(self._places.place(key, damaged.topic_id), config, promise, report)
        except (OSError, DamagedLogError) as error:
            self.damaged[key] = damaged
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"truncating {topic}-{partition} failed: {error}"
            ) from error
        _LOGGER.warning("%s-%d is truncated to %d, by %d bytes", *key, log.log_end_offset, report.bytes_truncated)
        log.start_replicating(0)
        self._add(key, log)
        self._checkpoints.keep_no_longer(key)
        self._checkpoints.log_starts.write()
        return log

    def delete(self, topic: str, partition: int) -> None:
        """Delete a log, and free its name at once. A later tick removes the files. Current readers may finish."""
        log = self._logs.get((topic, partition))
        delay_ms = TopicConfig().file_delete_delay_ms if log is None else log.config.file_delete_delay_ms
        folder = self._let_go((topic, partition))
        if folder is not None:
            self._names.delete((topic, partition), folder, delay_ms)

    def set_aside(self, topic: str, partition: int) -> None:
        """Rename a log so that a person can decide about it.

        No metadata assigns such a log to this broker, and no record deletes it.
        """
        folder = self._let_go((topic, partition), close=True)
        if folder is None:
            return
        # This broker no longer has everything that it vouched for to the controller.
        self.run_record.lost()
        self._names.set_aside((topic, partition), folder)

    def _let_go(self, key: Partition, *, close: bool = False) -> Path | None:
        """Detach the partition from this manager and return its folder; None if it has none."""
        log = self._logs.pop(key, None)
        if log is not None:
            log.on_start_moved = log.on_cut = log.on_unreadable = None
            if close:
                _closed(log)
            log.end()
            return log.place.folder
        self._checkpoints.keep_no_longer(key)
        is_there = self.damaged.pop(key, None) is not None and self._fs.exists(self._places.folder(key))
        return self._places.folder(key) if is_there else None

    def note_recovery_points(self) -> None:
        """Write the recovery points of all logs durably now, without waiting for the next period. Raises KafkaError."""
        try:
            self._checkpoints.write_recovery_points()
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"writing the checkpoints failed: {error}") from error

    def tick(self) -> Steps[None]:
        """Do a bounded part of the upkeep of all logs, in steps. The caller runs it about once a second."""
        yield from self.upkeep.tick()
        self.dir_health.tick()

    def begin_close(self) -> None:
        """Sync all logs in threads of `disk`, many at once.

        Nothing may be written from now on, and the caller calls `close` when these syncs have ended. `close` also syncs
        logs whose sync has failed here.
        """
        try:
            self._fs.fsync_dir(self._log_dir)
        except OSError as error:
            _LOGGER.error("fsync of %s failed: %s", self._log_dir, error)
            return
        for log in self._logs.values():
            log.files.syncs.folder_is_named()
            try:
                log.files.complete()
            except KafkaError:
                # `close` tries again and logs the failure.
                continue
            if not log.files.syncs.has_all:
                log.files.syncs.begin()

    def close(self) -> None:
        """Sync all logs and write the clean-shutdown marker.

        Without the marker if closing a log failed, which is logged.
        """
        closed = [_closed(log) for log in self._logs.values()]
        try:
            self._checkpoints.write_all(sync_high_watermarks=True)
            if all(closed):
                self.run_record.stopped_cleanly()
        except OSError as error:
            _LOGGER.error("the clean-shutdown marker could not be written; the next start recovers the logs: %s", error)
        self._logs.clear()
        self._lock = None


def _closed(log: Log) -> bool:
    """Close the log, and return whether that succeeded. A failure is logged."""
    try:
        log.close()
    except KafkaError as error:
        _LOGGER.error("closing %s-%d failed; the next start recovers it: %s", log.topic, log.partition, error)
        return False
    return True


def _locked(fs: FileSystem, log_dir: Path) -> object:
    """Take the lock of the folder, which is created if it does not exist. Raises ConfigError."""
    try:
        if not fs.exists(log_dir):
            fs.mkdir(log_dir)
            fs.fsync_dir(log_dir.parent)
        return fs.lock(log_dir / ".lock")
    except BlockingIOError:
        raise ConfigError(
            f"log.dirs={log_dir}: another process uses this folder; stop it, or use another folder here"
        ) from None
    except OSError as error:
        raise ConfigError(f"log.dirs={log_dir} cannot be used: {error}") from error
