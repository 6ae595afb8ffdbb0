"""All logs of one folder: opening and recovering, creating and deleting them, and their periodic upkeep.

Owns the folder's lock, its checkpoints and its run record. Knows topics by name only: the controller decides which
broker leads a partition. `meta.properties` belongs to the broker.
"""

import errno
import logging
import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.compaction.cleaner import LogCleaner
from broker_runtime.storage.damage.damage_watch import DamageWatch
from broker_runtime.storage.disk.checkpoint import (
    FIRST_DIRTY,
    PARTITION_METADATA,
    Partition,
    read_topic_id,
    write_topic_id,
)
from broker_runtime.storage.disk.disk import Disk, InlineDisk
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.disk.run_record import UNKNOWN_BOOT, RunRecord
from broker_runtime.storage.disk.stray import DELETED, STRAY, StrayFolders, missing_partitions
from broker_runtime.storage.disk.waiters import AtOnce, Wakes
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.checkpoints import Checkpoints
from broker_runtime.storage.log_dir.damaged import ACCEPT_LOSS, DamagedPartition
from broker_runtime.storage.log_dir.deleted import DeletedFolders, remove_folder
from broker_runtime.storage.log_dir.loader import Promise, load_log, new_log
from broker_runtime.storage.log_dir.log_dir_health import LogDirHealth
from broker_runtime.storage.log_dir.new_logs import NewLogs
from broker_runtime.storage.log_dir.upkeep import LogUpkeep
from broker_runtime.storage.recovery.recovery import DamagedLogError, RecoveryReport, is_damage

_LOGGER = logging.getLogger(__name__)
_FOLDER = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
MENDING = "broker_runtime.storage.damage.mending"
"""Imported when a log has damaged ranges (decision 45)."""


class LogManager:
    """`disk` runs the syncs of logs in use, so that a slow one blocks no other work; starts and stops sync inline.

    `wakes` runs the callbacks of those that wait for a log.
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
        self._disk = disk or InlineDisk()
        self.wakes = wakes or AtOnce()
        self._logs: dict[Partition, Log] = {}
        self._lock: object | None = None
        self._journal: str | None = None
        self._copy: str | None = None
        self.run_record = RunRecord(fs, log_dir, boot_id)
        self.dir_health = LogDirHealth(fs, log_dir, clock, self._disk, reserve_bytes, self._hold_records)
        self._checkpoints = Checkpoints(fs, log_dir, self._logs, self._disk, self.dir_health.write_failed)
        self.log_starts = self._checkpoints.log_starts
        self.strays = StrayFolders(fs, log_dir)
        self._deleted = DeletedFolders(fs, log_dir, self._disk, self._is_missed)
        self.new_logs = NewLogs(self._disk, self._place_to_make, self._clear_name, self._remove_made)
        self.cleaner = LogCleaner(self._logs, self._disk, clock, partial(self._checkpoints.write_soon, FIRST_DIRTY))
        self.upkeep = LogUpkeep(self._logs, self._checkpoints, self._deleted, clock)
        self.damage = DamageWatch(self._logs, self._disk, clock)
        """Finds and counts damaged ranges of logs that are served."""
        self._accepted: list[Path] = []
        self.damaged: dict[Partition, DamagedPartition] = {}
        """Partitions that cannot be served at all.

        Their files stay unchanged for a person, or until another broker is known to have the records.
        """

    def open(
        self, config_of: Callable[[str], TopicConfig], *, journal: str | None = None, copy: str | None = None
    ) -> RecoveryReport:
        """Load every partition and recover it if needed. Raises ConfigError when the folder cannot be used.

        `journal` is the topic whose high watermark moves only after a sync, and whose offsets are broker epochs. `copy`
        is a topic that is stored elsewhere and rebuilt when that store is read, so its damage is not a loss of records.
        """
        self._journal, self._copy = journal, copy
        began = self._clock.monotonic()
        self._take_lock()
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
        parted = [name for name in folders if name.endswith((DELETED, STRAY))]
        found = {(m["topic"], int(m["partition"])): name for name in folders if (m := _FOLDER.fullmatch(name))}
        for key in found:
            try:
                self._load_partition(key, config_of(key[0]), report)
            except OSError as error:
                if not is_damage(error):
                    raise
                promise, known = self._promise(key, clean=report.clean), checkpoints.ledger.get(key)
                topic_id, start = None if known is None else known.topic_id, promise.log_start_offset
                self._found_damaged(key, DamagedPartition(topic_id, start, promise, str(error)), report)
        if self.run_record.kept_ledger:
            for key in missing_partitions(checkpoints.ledger.keys() - found.keys(), parted):
                self._miss_folder(key, report)
        for name in parted:
            self.strays.note(name)
        if not report.clean:
            self._fs.fsync_dir(self._log_dir)
        # A high watermark must not vouch for records that replace lost ones. Nor may a log that ends before its noted
        # start look as if it had lost records once it gets new ones.
        checkpoints.write_all(sync_high_watermarks=bool(self._accepted))
        for marker in self._accepted:
            self._fs.unlink(marker)
        # Only now does no file say any more that these partitions should exist.
        for name in parted:
            if name.endswith(DELETED):
                self._deleted.note(name)
        self.run_record.recovered()

    def _miss_folder(self, key: Partition, report: RecoveryReport) -> None:
        """Report a missing folder as damage, unless a power loss can explain it: nothing of the folder was synced."""
        promise, known = self._promise(key, clean=report.clean), self._checkpoints.ledger[key]
        if promise.whole or promise.recovery_point:
            reason = f"the folder {self._folder(key)} is lost"
            self._found_damaged(key, DamagedPartition(known.topic_id, known.begin, promise, reason), report)

    def _load_partition(self, key: Partition, config: TopicConfig, report: RecoveryReport) -> None:
        folder = self._folder(key)
        loss_is_accepted = self._fs.exists(folder / ACCEPT_LOSS)
        topic_id = self._topic_id(key)
        promise = self._promise(key, clean=report.clean)
        was_synced = promise.recovery_point > 0 and not loss_is_accepted
        if topic_id is None and not (was_synced and promise.kept) and self._set_aside(folder, keep=was_synced):
            return
        if topic_id is None:
            reason = f"{folder / PARTITION_METADATA} is missing or damaged"
            self._found_damaged(key, DamagedPartition(None, promise.log_start_offset, promise, reason), report)
            return
        try:
            asked = promise
            if loss_is_accepted:
                asked = Promise(promise.log_start_offset, accepts_loss=not promise.is_journal)
            log = load_log(self._place(key, topic_id), config, asked, report)
        except DamagedLogError as error:
            self._found_damaged(key, DamagedPartition(topic_id, error.offset, promise, str(error)), report)
            return
        if loss_is_accepted:
            self._give_up_damage(log)
        if log.log_end_offset < max(promise.least_end, promise.high_watermark):
            _LOGGER.error("%s-%d ends at %d, but had more records before", *key, log.log_end_offset)
            self.run_record.lost()
        if loss_is_accepted:
            # The end of the log does not show what is missing at its beginning.
            self.run_record.lost()
            self._accepted.append(folder / ACCEPT_LOSS)
        log.start_replicating(promise.high_watermark)
        if promise.kept and not loss_is_accepted:
            first_dirty = self._checkpoints.said_of(key).first_dirty
            log.first_dirty_offset = first_dirty if first_dirty <= log.log_end_offset else 0
        self._add(key, log)
        if log.damage:
            self.run_record.lost()
            report.ranges_damaged += len(log.damage)
            self.damage.note(log)
        if log.recovery_point < log.log_end_offset:
            self.upkeep.sync_soon(log)

    def _give_up_damage(self, log: Log) -> None:
        """Accept the loss of all damaged ranges, at a start, when an import blocks no request. Raises OSError."""
        for damaged in log.damage:
            offsets = damaged.first_offset, damaged.next_offset - 1
            _LOGGER.error("%s: the loss of offsets %d to %d was accepted", log.place, *offsets)
            self.damage.accepted_ranges += 1
        try:
            import_module(MENDING).accept_losses(log)
        except KafkaError as error:
            _LOGGER.error("%s: the loss cannot be accepted: %s", log.place, error)

    def _topic_id(self, key: Partition) -> UUID | None:
        """The topic id from partition.metadata, or None if no file has it.

        If the file is damaged, it is rewritten from the ledger.
        """
        found, known = None, self._checkpoints.ledger.get(key)
        try:
            found = read_topic_id(self._fs, self._folder(key))
        except ValueError as error:
            _LOGGER.warning("%s", error)
        except OSError as error:
            if not is_damage(error):
                raise
            _LOGGER.warning("%s-%d: %s cannot be read: %s", *key, PARTITION_METADATA, error)
        if known is None or found == known.topic_id:
            return found
        if self.run_record.kept_ledger:
            _LOGGER.error("%s-%d: %s is damaged, and is rewritten", *key, PARTITION_METADATA)
            write_topic_id(self._fs, self._folder(key), known.topic_id)
            return known.topic_id
        # An earlier version of this broker has recreated the topic, and left the entries of the one before.
        self._checkpoints.forget_stale(key)
        return found

    def _promise(self, key: Partition, *, clean: bool) -> Promise:
        if key[0] == self._copy:
            return Promise(clean=clean)
        record = self.run_record
        said, known = self._checkpoints.said_of(key), self._checkpoints.ledger.get(key)
        is_journal = key[0] == self._journal
        return Promise(
            said.log_start,
            said.recovery_point,
            said.high_watermark,
            max(said.high_watermark, record.last_epoch + 1) if is_journal else 0,
            is_journal,
            clean=clean,
            whole=clean or record.page_cache_kept,
            kept=record.kept_ledger,
            begin=known.begin if known is not None and record.kept_ledger else -1,
        )

    def _found_damaged(self, key: Partition, damaged: DamagedPartition, report: RecoveryReport) -> None:
        """Record a damaged partition: the controller must not count on this broker for it, nor let it lead."""
        if key[0] != self._copy:
            self.run_record.lost()
        self.damaged[key] = damaged
        self._checkpoints.keep(key, damaged.promise.least_end)
        report.partitions_damaged += 1
        _LOGGER.error("%s-%d is damaged: %s. Its files stay unchanged", *key, damaged.reason)

    def _take_lock(self) -> None:
        try:
            if not self._fs.exists(self._log_dir):
                self._fs.mkdir(self._log_dir)
                self._fs.fsync_dir(self._log_dir.parent)
            self._lock = self._fs.lock(self._log_dir / ".lock")
        except BlockingIOError:
            raise ConfigError(
                f"log.dirs={self._log_dir}: another process uses this folder; stop that process, or give this "
                "broker its own folder"
            ) from None
        except OSError as error:
            raise ConfigError(f"log.dirs={self._log_dir} cannot be used: {error}") from error

    def _set_aside(self, folder: Path, *, keep: bool) -> bool:
        """Handle a folder without a topic id: remove it if it has no records, otherwise rename it.

        Returns False, and does nothing, for a folder that has records and is to be kept.
        """
        if not any(name.endswith(".log") and self._fs.open(folder / name).size() for name in self._fs.listdir(folder)):
            remove_folder(self._fs, folder)
        elif keep:
            return False
        else:
            self.run_record.lost()
            stray = self.strays.take(folder)
            _LOGGER.error("%s has no topic id, and was never synced; its records are kept in %s", folder, stray)
        return True

    def _place(self, key: Partition, topic_id: UUID) -> LogPlace:
        return LogPlace(
            self._folder(key),
            *key,
            topic_id,
            self._fs,
            self._clock,
            on_failed=self.run_record.failed,
            on_write_failed=self.dir_health.write_failed,
            may_append=_always if key[0] in (self._journal, self._copy) else self.dir_health.check,
            disk=self._disk,
            wakes=self.wakes,
        )

    def _folder(self, key: Partition) -> Path:
        return self._log_dir / f"{key[0]}-{key[1]}"

    def _add(self, key: Partition, log: Log) -> None:
        log.on_start_moved = self._checkpoints.log_starts.moved
        log.on_cut = partial(self._checkpoints.lower, key, log)
        if key[0] not in (self._journal, self._copy):
            log.on_unreadable = partial(self.damage.suspect, log)
        self._logs[key] = log
        if self.dir_health.is_full:
            log.files.health.usable = False

    def _hold_records(self) -> None:
        """Make each log check for space before it appends, because the directory is full."""
        for log in self._logs.values():
            log.files.health.usable = False

    def create(self, topic: str, partition: int, topic_id: UUID, config: TopicConfig) -> Log:
        """The partition's log, which is created if it does not exist.

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
        place = self._place(key, topic_id)
        try:
            log = new_log(place, config, self.new_logs.take(place))
        except OSError as error:
            self.dir_health.write_failed(f"creating {topic}-{partition}", error)
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"creating {topic}-{partition} failed: {error}") from error
        self._add(key, log)
        return log

    def _place_to_make(self, key: Partition, topic_id: UUID) -> LogPlace | None:
        there_is_one = key in self._logs or key in self.damaged
        return None if there_is_one or self.dir_health.is_full else self._place(key, topic_id)

    def _remove_made(self, place: LogPlace) -> None:
        try:
            self._deleted.take((place.topic, place.partition), place.folder, self._clock.wall_ms())
        except OSError as error:
            _LOGGER.error("%s could not be removed; the next start sets it aside: %s", place.folder, error)

    def _clear_name(self, place: LogPlace) -> None:
        """Remove all traces of a deleted log with that name; the new log would look as if it had lost records."""
        key = (place.topic, place.partition)
        self._checkpoints.forget(key)
        self._deleted.settle(key)
        if self._fs.exists(place.folder):
            # The folder could not be renamed when its log was deleted: none of its files may count for the new log.
            self.strays.take(place.folder)

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def logs(self) -> list[Log]:
        return list(self._logs.values())

    def holdings(self) -> list[tuple[Partition, UUID | None]]:
        """All partitions with a folder here, whole or damaged, with their topic ids if known."""
        whole = [(key, log.topic_id) for key, log in self._logs.items()]
        return whole + [(key, damaged.topic_id) for key, damaged in self.damaged.items()]

    def cut_damaged(self, topic: str, partition: int, topic_id: UUID, config: TopicConfig) -> Log:
        """Cut a damaged log where its damage begins, and return it.

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
            if damaged.topic_id is None or not self._fs.exists(self._folder(key)):
                return self._begin_anew(key, topic_id, config)
            start, begin = min(damaged.promise.log_start_offset, damaged.offset), damaged.promise.begin
            promise = Promise(start, damaged.offset, begin=begin)
            log = load_log(self._place(key, damaged.topic_id), config, promise, report)
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

    def _begin_anew(self, key: Partition, topic_id: UUID, config: TopicConfig) -> Log:
        if self._fs.exists(self._folder(key)):
            _LOGGER.error("%s-%d is set aside as %s", *key, self.strays.take(self._folder(key)))
        return self.create(*key, topic_id, config)

    def delete(self, topic: str, partition: int) -> None:
        """Delete a log. Its name is free at once; a later tick removes the files. Current readers may finish."""
        log = self._logs.get((topic, partition))
        delay_ms = TopicConfig().file_delete_delay_ms if log is None else log.config.file_delete_delay_ms
        folder = self._let_go((topic, partition))
        if folder is None:
            return
        try:
            self._deleted.take((topic, partition), folder, self._clock.wall_ms() + delay_ms)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"deleting {topic}-{partition} failed: {error}") from error

    def set_aside(self, topic: str, partition: int) -> None:
        """Rename a log for a person to decide: no metadata assigns it to this broker, and no record deletes it."""
        folder = self._let_go((topic, partition), close=True)
        if folder is None:
            return
        # This broker no longer has everything that it vouched for to the controller.
        self.run_record.lost()
        try:
            stray = self.strays.take(folder)
        except OSError as error:
            what = f"setting {topic}-{partition} aside failed: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, what) from error
        _LOGGER.error(
            "the metadata does not assign %s-%d to this broker, but no record of the metadata has deleted it: it "
            "is set aside as %s. Remove that folder if you do not need it, or rename it to %s if the metadata was "
            "wrong",
            *(topic, partition, stray, folder.name),
        )

    def _let_go(self, key: Partition, *, close: bool = False) -> Path | None:
        """Detach the partition from this manager and return its folder; None if it has none."""
        log = self._logs.pop(key, None)
        if log is not None:
            log.on_start_moved = log.on_cut = log.on_unreadable = None
            if close:
                self._close(log)
            log.end()
            return log.place.folder
        self._checkpoints.keep_no_longer(key)
        is_there = self.damaged.pop(key, None) is not None and self._fs.exists(self._folder(key))
        return self._folder(key) if is_there else None

    def note_recovery_points(self) -> None:
        """Write the recovery points of all logs durably now, without waiting for the next period. Raises KafkaError."""
        try:
            self._checkpoints.write_recovery_points()
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"writing the checkpoints failed: {error}") from error

    def tick(self) -> Steps[None]:
        """Do a bounded piece of upkeep, with breaks; the caller runs it about once a second."""
        yield from self.upkeep.tick()
        self.dir_health.tick()

    def _is_missed(self, key: Partition) -> bool:
        """Whether the next start would report the partition as missing if its folder were removed."""
        return key in self._checkpoints.ledger and key not in self._logs

    def begin_close(self) -> None:
        """Sync everything in threads of `disk`, many logs at once; nothing may be written from here on.

        The caller calls `close` when these syncs have ended. Without this method, and for what fails here, `close` does
        everything.
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
        """Sync everything and write the clean-shutdown marker, unless closing a log failed, which is logged."""
        closed = [self._close(log) for log in self._logs.values()]
        try:
            self._checkpoints.write_all(sync_high_watermarks=True)
            if all(closed):
                self.run_record.stopped_cleanly()
        except OSError as error:
            _LOGGER.error("the clean-shutdown marker could not be written; the next start recovers the logs: %s", error)
        self._logs.clear()
        self._lock = None

    def _close(self, log: Log) -> bool:
        try:
            log.close()
        except KafkaError as error:
            _LOGGER.error("closing %s-%d failed; the next start recovers it: %s", log.topic, log.partition, error)
            return False
        return True


def _always() -> None:
    pass
