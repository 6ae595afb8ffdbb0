"""All logs of one folder: opening and recovering them, creating, deleting, and the work that comes with time.

Owns the folder's lock, its checkpoints and its run record. Knows topics by name only; who leads what is the
controller's matter. `meta.properties` belongs to the broker.
"""

import errno
import logging
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from uuid import UUID, uuid4

from broker_runtime.clock import Clock
from broker_runtime.config import TopicConfig
from broker_runtime.errors import ConfigError, ErrorCode, KafkaError
from broker_runtime.storage.checkpoint import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    Partition,
    read_offsets,
    read_topic_id,
    topic_id_text,
    write_offsets,
    write_topic_id,
)
from broker_runtime.storage.disk import Disk, InlineDisk
from broker_runtime.storage.filesystem import FileSystem
from broker_runtime.storage.loader import load_log, new_log
from broker_runtime.storage.log import Log
from broker_runtime.storage.log_files import LoadedLog
from broker_runtime.storage.place import LogPlace
from broker_runtime.storage.producers import ProducerStates
from broker_runtime.storage.recovery import RecoveryReport
from broker_runtime.storage.run_record import UNKNOWN_BOOT, RunRecord

_LOGGER = logging.getLogger(__name__)
_FOLDER = re.compile(r"(?P<topic>[A-Za-z0-9._-]+)-(?P<partition>\d+)")
_STRAY_FOLDER = re.compile(r".+-(?P<partition>\d+)\.[0-9a-f]{32}-stray")
_DELETED = "-delete"
STRAY = "-stray"
_NAME_MAX = 255
_LOGS_PER_TICK = 256
_CHECKPOINT_INTERVAL_S = 60.0
PRODUCER_EXPIRATION_MS = 86_400_000
HIGH_WATERMARK_INTERVAL_MS = 5_000


def parting_name(folder: Path, suffix: str) -> Path:
    """Kafka's name for a partition's folder that is no longer in use; a long topic's name is cut, as there."""
    topic, _, partition = folder.name.rpartition("-")
    rest = f"-{partition}.{uuid4().hex}{suffix}"
    return folder.with_name(topic[: _NAME_MAX - len(rest)] + rest)


class LogManager:
    """`disk` runs the syncs of logs in use, so that a slow one stops nobody else; starts and stops sync at once."""

    def __init__(
        self,
        log_dir: Path,
        *,
        fs: FileSystem,
        clock: Clock,
        disk: Disk | None = None,
        producer_expiration_ms: int = PRODUCER_EXPIRATION_MS,
        boot_id: str = UNKNOWN_BOOT,
    ) -> None:
        self._log_dir = log_dir
        self._fs = fs
        self._clock = clock
        self._disk = disk or InlineDisk()
        self.producer_expiration_ms = producer_expiration_ms
        self._logs: dict[Partition, Log] = {}
        self._lock: object | None = None
        self.run_record = RunRecord(fs, log_dir, boot_id)
        self._doomed: list[tuple[int, Path]] = []
        self._strays: dict[str, tuple[UUID, int]] = {}
        self._turn: list[Log] = []
        self._sealing: Log | None = None
        """The log of which a sealed segment is being synced."""
        self._checkpointed: dict[Partition, int] = {}
        self._checkpoint_at = clock.monotonic() + _CHECKPOINT_INTERVAL_S
        self.high_watermark_interval_ms = HIGH_WATERMARK_INTERVAL_MS
        self._watermarks_at = clock.monotonic()
        self._watermarks: dict[Partition, int] = {}
        self._log_starts: dict[Partition, int] = {}

    # Opening

    def open(self, config_of: Callable[[str], TopicConfig]) -> RecoveryReport:
        """Load and where needed recover every partition. Raises ConfigError when the folder cannot be used."""
        began = self._clock.monotonic()
        self._take_lock()
        folders = [name for name in self._fs.listdir(self._log_dir) if self._fs.is_dir(self._log_dir / name)]
        try:
            report = RecoveryReport(clean=self.run_record.begin() or not folders)
            self._load(folders, config_of, report)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                # The system may tell it once only; a second start would find nothing wrong.
                self.run_record.lost()
            raise
        report.took_ms = round((self._clock.monotonic() - began) * 1000)
        return report

    def _load(self, folders: list[str], config_of: Callable[[str], TopicConfig], report: RecoveryReport) -> None:
        points, starts = self._read_checkpoint(RECOVERY_POINTS), self._read_checkpoint(LOG_STARTS)
        self._log_starts = starts
        watermarks = self._watermarks = self._read_checkpoint(HIGH_WATERMARKS)
        for name in folders:
            folder = self._log_dir / name
            if name.endswith(_DELETED):
                self._remove_folder(folder)
                continue
            if name.endswith(STRAY):
                self._note_stray(folder)
                continue
            match = _FOLDER.fullmatch(name)
            if match is None:
                continue
            key = (match["topic"], int(match["partition"]))
            if not points.get(key) and self._set_aside(folder):
                continue
            place = self._place(key, self._topic_id(folder))
            found = LoadedLog([], ProducerStates(), starts.get(key, 0), points.get(key, 0))
            log = load_log(place, config_of(key[0]), found, report)
            if log.log_end_offset < watermarks.get(key, 0):
                _LOGGER.error("%s-%d ends at %d, and once had more", *key, log.log_end_offset)
                self.run_record.lost()
            log.start_replicating(watermarks.get(key, 0))
            self._add(key, log)
        if not report.clean:
            self._fs.fsync_dir(self._log_dir)
        self._write_recovery_points()

    def _take_lock(self) -> None:
        try:
            if not self._fs.exists(self._log_dir):
                self._fs.mkdir(self._log_dir)
                self._fs.fsync_dir(self._log_dir.parent)
            self._lock = self._fs.lock(self._log_dir / ".lock")
        except BlockingIOError:
            raise ConfigError(
                f"log.dirs={self._log_dir}: another process uses this folder; stop it or give this broker its own"
            ) from None
        except OSError as error:
            raise ConfigError(f"log.dirs={self._log_dir} cannot be used: {error}") from error

    def _read_checkpoint(self, name: str) -> dict[Partition, int]:
        try:
            return read_offsets(self._fs, self._log_dir / name)
        except ValueError as error:
            # Without it everything is checked from the start, which is slower but loses nothing.
            _LOGGER.warning("ignoring a damaged checkpoint: %s", error)
            return {}

    def _topic_id(self, folder: Path) -> UUID:
        try:
            return read_topic_id(self._fs, folder)
        except ValueError as error:
            raise ConfigError(f"{error}; restore it or move the folder away from log.dirs") from None

    def _set_aside(self, folder: Path) -> bool:
        """Nothing of this folder was ever synced, and a crash may have left nothing to tell whose it is."""
        try:
            read_topic_id(self._fs, folder)
        except ValueError as error:
            if any(name.endswith(".log") and self._fs.open(folder / name).size() for name in self._fs.listdir(folder)):
                stray = self._rename_stray(folder)
                _LOGGER.error("%s: it was never synced; its records are kept in %s", error, stray)
            else:
                self._remove_folder(folder)
            return True
        return False

    def _place(self, key: Partition, topic_id: UUID) -> LogPlace:
        folder = self._log_dir / f"{key[0]}-{key[1]}"
        return LogPlace(folder, *key, topic_id, self._fs, self._clock, self.run_record.failed, self._disk)

    def _add(self, key: Partition, log: Log) -> None:
        log.on_start_moved = self._write_log_starts
        log.on_cut = partial(self._lower_offsets, key, log)
        self._logs[key] = log

    # Partitions

    def create(self, topic: str, partition: int, topic_id: UUID, config: TopicConfig) -> Log:
        """Raises KafkaError: KAFKA_STORAGE_ERROR, or INCONSISTENT_TOPIC_ID when another topic's log has the name."""
        key = (topic, partition)
        existing = self._logs.get(key)
        if existing is not None:
            if existing.topic_id != topic_id:
                raise KafkaError(
                    ErrorCode.INCONSISTENT_TOPIC_ID, f"{topic}-{partition} on disk belongs to {existing.topic_id}"
                )
            existing.update_config(config)
            return existing
        place = self._place(key, topic_id)
        try:
            if key in self._watermarks:
                # Of a log with that name that is gone; this one would look as if it had lost records.
                self._write_high_watermarks(sync=False)
            self._fs.mkdir(place.folder)
            write_topic_id(self._fs, place.folder, topic_id)
            log = new_log(place, config)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"creating {topic}-{partition} failed: {error}") from error
        self._add(key, log)
        return log

    def get(self, topic: str, partition: int) -> Log | None:
        return self._logs.get((topic, partition))

    def logs(self) -> list[Log]:
        return list(self._logs.values())

    def delete(self, topic: str, partition: int) -> None:
        """The name is free at once; the files go with a later tick. Readers that have begun may finish."""
        log = self._logs.pop((topic, partition), None)
        if log is None:
            return
        log.on_start_moved = log.on_cut = None
        log.end()
        folder = log.place.folder
        doomed = parting_name(folder, _DELETED)
        try:
            self._fs.rename(folder, doomed)
            self._fs.fsync_dir(self._log_dir)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"deleting {topic}-{partition} failed: {error}") from error
        self._doomed.append((self._clock.wall_ms() + log.config.file_delete_delay_ms, doomed))

    def set_aside(self, topic: str, partition: int) -> None:
        """Nobody ordered to delete this log, but it belongs to nobody: it is kept under another name, for a person."""
        log = self._logs.pop((topic, partition))
        log.on_start_moved = log.on_cut = None
        try:
            log.close()
        except KafkaError as error:
            _LOGGER.error("%s-%d is set aside as it is: %s", topic, partition, error)
            log.end()
        try:
            stray = self._rename_stray(log.place.folder)
        except OSError as error:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"setting {topic}-{partition} aside failed: {error}"
            ) from error
        _LOGGER.error(
            "the metadata does not give %s-%d (topic id %s) to this broker, and no record has ordered to delete it: it "
            "is set aside as %s; remove that folder if it is not needed, rename it to %s if the metadata was at fault",
            *(topic, partition, topic_id_text(log.topic_id), stray, log.place.folder.name),
        )

    def _rename_stray(self, folder: Path) -> Path:
        # This broker does not have everything any more that it had when it gave its word to the controller.
        self.run_record.lost()
        stray = parting_name(folder, STRAY)
        self._fs.rename(folder, stray)
        self._fs.fsync_dir(self._log_dir)
        self._note_stray(stray)
        return stray

    def _note_stray(self, folder: Path) -> None:
        match = _STRAY_FOLDER.fullmatch(folder.name)
        if match is None:
            return
        try:
            topic_id = read_topic_id(self._fs, folder)
        except ValueError:
            # Nobody can ask for it.
            topic_id = UUID(int=0)
        self._strays[folder.name] = topic_id, int(match["partition"])

    @property
    def stray_count(self) -> int:
        """Folders that are set aside, whether by this process or by one before."""
        return len(self._strays)

    def stray_of(self, topic_id: UUID, partition: int) -> str | None:
        """The name of a folder that holds records of this partition and is set aside."""
        return next((name for name, known in self._strays.items() if known == (topic_id, partition)), None)

    # Work that comes with time

    def tick(self) -> None:
        """A bounded piece of upkeep; call it every second or so. A log that fails is reported and the others go on."""
        now_ms = self._clock.wall_ms()
        if not self._turn:
            self._turn = list(self._logs.values())
        batch, self._turn = self._turn[:_LOGS_PER_TICK], self._turn[_LOGS_PER_TICK:]
        for log in batch:
            if self._logs.get((log.topic, log.partition)) is log:
                self._maintain(log, now_ms)
        self._flush_sealed()
        try:
            self._remove_one_doomed(now_ms)
            if self._clock.monotonic() >= self._watermarks_at:
                self._watermarks_at = self._clock.monotonic() + self.high_watermark_interval_ms / 1000
                self._write_high_watermarks(sync=False)
            if self._clock.monotonic() >= self._checkpoint_at:
                self._checkpoint_at = self._clock.monotonic() + _CHECKPOINT_INTERVAL_S
                self._write_recovery_points()
        except OSError as error:
            _LOGGER.error("log upkeep failed, it is tried again: %s", error)

    def _maintain(self, log: Log, now_ms: int) -> None:
        try:
            log.apply_retention(now_ms)
            log.flush_when_due(now_ms)
            log.files.remove_renamed(now_ms - log.config.file_delete_delay_ms)
        except (OSError, KafkaError) as error:
            _LOGGER.error("upkeep of %s-%d failed, it is tried again: %s", log.topic, log.partition, error)
        log.producers.expire(now_ms, self.producer_expiration_ms)
        log.files.release_idle()

    def _flush_sealed(self) -> None:
        """One segment at a time: it may be large, and others want the disk too."""
        if self._sealing is None or not self._sealing.files.is_syncing:
            self._sealing = next((log for log in self._logs.values() if log.files.sync_sealed_soon()), None)

    def _remove_one_doomed(self, now_ms: int) -> None:
        for number, (due_ms, folder) in enumerate(self._doomed):
            if due_ms <= now_ms:
                self._remove_folder(folder)
                del self._doomed[number]
                return

    def _remove_folder(self, folder: Path) -> None:
        for name in self._fs.listdir(folder):
            self._fs.unlink(folder / name)
        self._fs.rmdir(folder)

    def _write_recovery_points(self) -> None:
        points = {key: log.recovery_point for key, log in self._logs.items()}
        if points != self._checkpointed:
            write_offsets(self._fs, self._log_dir / RECOVERY_POINTS, points)
            self._checkpointed = points

    def _write_high_watermarks(self, *, sync: bool) -> None:
        """Where a restarted replica surely agrees with the others; a crash may lose it, too low is only slower."""
        watermarks = {key: log.high_watermark for key, log in self._logs.items()}
        if watermarks != self._watermarks:
            write_offsets(self._fs, self._log_dir / HIGH_WATERMARKS, watermarks, sync=sync)
            self._watermarks = watermarks

    def _lower_offsets(self, key: Partition, log: Log) -> None:
        """A log is cut: offsets on disk behind its end would vouch for records that are yet to come."""
        try:
            if self._checkpointed.get(key, 0) > log.recovery_point:
                self._write_recovery_points()
            if self._watermarks.get(key, 0) > log.high_watermark:
                self._write_high_watermarks(sync=True)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"writing the checkpoints failed: {error}") from error
        self._write_log_starts()

    def _write_log_starts(self) -> None:
        starts = {
            key: log.log_start_offset
            for key, log in self._logs.items()
            if log.log_start_offset > log.segments[0].base_offset
        }
        if starts == self._log_starts:
            return
        try:
            write_offsets(self._fs, self._log_dir / LOG_STARTS, starts)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"writing {LOG_STARTS} failed: {error}") from error
        self._log_starts = starts

    def close(self) -> None:
        """Sync everything and leave the clean-shutdown marker, unless a log could not be closed (then it is logged)."""
        clean = True
        for log in self._logs.values():
            try:
                log.close()
            except KafkaError as error:
                clean = False
                _LOGGER.error("closing %s-%d failed, it is recovered at start: %s", log.topic, log.partition, error)
        try:
            self._write_recovery_points()
            self._write_log_starts()
            self._write_high_watermarks(sync=True)
            if clean:
                self.run_record.stopped_cleanly()
        except (OSError, KafkaError) as error:
            _LOGGER.error("no clean-shutdown marker, the logs are recovered at start: %s", error)
        self._logs.clear()
        self._lock = None
