"""The log cleaner of a broker: the dirtiest log first, one at a time, while there is one (KIP-58, KIP-354).

A log that cannot be cleaned is logged once, counted and skipped until the broker restarts; the others are cleaned.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerConfig
from broker_runtime.errors import KafkaError
from broker_runtime.on_demand import Importer, imported
from broker_runtime.storage.compaction.dirt import Dirt
from broker_runtime.storage.compaction.metrics import CleanerMetrics
from broker_runtime.storage.disk.checkpoint import Partition
from broker_runtime.storage.disk.disk import Disk, done_by
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.segment.stored_batches import DamagedFileError

if TYPE_CHECKING:
    from broker_runtime.storage.compaction.cleaning import Cleaning

_LOGGER = logging.getLogger(__name__)
CLEANING = "broker_runtime.storage.compaction.cleaning"
"""The module `cleaning`, imported when a log has to be cleaned (decision 45)."""
_CHECKS_MAX = 10
_LOGS_PER_LOOK = 256
"""Number of logs that are checked before other tasks run on the event loop."""


class LogCleaner:
    """The log cleaner of a folder, which cleans one compacted log after the other.

    `logs` are the manager's; `checkpoint` writes their first dirty offsets later. `config` may be replaced.
    """

    def __init__(self, logs: Mapping[Partition, Log], disk: Disk, clock: Clock, checkpoint: Callable[[], None]) -> None:
        self.config = BrokerConfig()
        self.figures = CleanerMetrics(clock.monotonic())
        self._logs = logs
        self._disk = disk
        self._clock = clock
        self._checkpoint = checkpoint
        self._importer = Importer()
        self._uncleanable: dict[Partition, UUID] = {}
        self._failed: set[Partition] = set()
        """Logs that are skipped for now, until no other log is to be cleaned."""
        self._damaged: dict[Path, int] = {}
        """How often a cleaning has met damage in each of these files."""

    async def run(self) -> None:
        """Clean compacted logs until cancelled."""
        while True:
            if not await self.clean_filthiest():
                await asyncio.sleep(self.config.log_cleaner_backoff_ms / 1000)

    async def clean_filthiest(self) -> bool:
        """Clean the log with the largest dirty share; return whether a log was cleaned."""
        found = await self._filthiest()
        if found is not None and imported(CLEANING) is None:
            # Other tasks run meanwhile.
            found = await self._filthiest() if await self._is_loaded() else None
        self.figures.last_look_s = self._clock.monotonic()
        if found is None:
            self._failed.clear()
            return False
        log, dirt = found
        began_s = self._clock.monotonic()
        code = import_module(CLEANING)
        settings = code.CleanerSettings(*_settings(self.config))
        cleaning: Cleaning = code.Cleaning(log, dirt, settings, self._clock)
        try:
            end = await self._drive(cleaning)
        except code.CleaningStoppedError as stopped:
            _LOGGER.info("the cleaning of a log stopped: %s", stopped)
        except OSError as error:
            _LOGGER.error("cleaning %s failed; retrying after the other logs: %s", log.place, error)
            self._failed.add((log.topic, log.partition))
        except DamagedFileError as error:
            self._note_damage(log, error)
        except Exception as error:  # noqa: BLE001 - it is counted and logged, and the other logs go on
            self._give_up(log, error)
        else:
            log.first_dirty_offset = max(log.first_dirty_offset, end)
            self._checkpoint()
            self._note(log, dirt, cleaning, self._clock.monotonic() - began_s)
        return True

    async def _is_loaded(self) -> bool:
        """Import the code that cleans; False when that fails, for example while no file can be opened."""
        try:
            await self._importer.load(CLEANING)
        except Exception:
            _LOGGER.exception("the log cleaner cannot be loaded; it retries later")
            return False
        return True

    async def _filthiest(self) -> tuple[Log, Dirt] | None:
        """Return the log with the greatest dirty ratio; also counts logs that cannot be cleaned."""
        best: tuple[Log, Dirt] | None = None
        most, uncleanable_bytes, now_ms = 0.0, 0, self._clock.wall_ms()
        self._uncleanable = {key: topic for key, topic in self._uncleanable.items() if self._is_given_up(key)}
        for number, (key, log) in enumerate(list(self._logs.items()), 1):
            if number % _LOGS_PER_LOOK == 0:
                await asyncio.sleep(0)
            if not log.config.compacted or log.failure is not None or self._logs.get(key) is not log:
                continue
            dirt = _dirt(log, now_ms)
            if dirt.end < _dirt(log, now_ms, log.log_end_offset).end:
                # Clean what is synced, and sync the rest for the next time.
                log.files.syncs.begin_sealed()
            if key in self._uncleanable:
                uncleanable_bytes += dirt.dirty_bytes
            elif key not in self._failed and dirt.is_cleanable(log.config) and dirt.ratio > most:
                most, best = dirt.ratio, (log, dirt)
        self.figures.checked(best[1] if best else None, len(self._uncleanable), uncleanable_bytes)
        if best is None or not _has_room(best[0]):
            return None
        # Other tasks ran meanwhile.
        return best[0], _dirt(best[0], now_ms)

    def _is_given_up(self, key: Partition) -> bool:
        log = self._logs.get(key)
        return log is not None and log.topic_id == self._uncleanable[key]

    async def _drive(self, cleaning: "Cleaning") -> int:
        """Run the cleaning to its end. Raises what the cleaning or its work raises."""
        works = cleaning.run()
        began_s = self._clock.monotonic()
        try:
            work = next(works)
            while True:
                try:
                    await done_by(self._disk, work)
                except Exception as error:  # noqa: BLE001 - the cleaning says what it means
                    work = works.throw(error)
                else:
                    await self._throttle(cleaning.bytes, began_s)
                    work = next(works)
        except StopIteration as done:
            end: int = done.value
            return end
        finally:
            works.close()

    async def _throttle(self, count: int, began_s: float) -> None:
        """Wait if `count` bytes since `began_s` exceed the I/O limit."""
        early_s = began_s + count / self.config.log_cleaner_io_max_bytes_per_second - self._clock.monotonic()
        if early_s > 0:
            await asyncio.sleep(early_s)

    def _note_damage(self, log: Log, error: DamagedFileError) -> None:
        """Have the segment checked; the next cleaning stops before the damage."""
        segment = next((segment for segment in log.segments if segment.path == error.path), None)
        tries = self._damaged[error.path] = self._damaged.get(error.path, 0) + 1
        if segment is None or log.on_unreadable is None or tries > _CHECKS_MAX:
            self._give_up(log, error)
            return
        log.on_unreadable(segment)
        self._failed.add((log.topic, log.partition))

    def _give_up(self, log: Log, error: Exception) -> None:
        """Skip a log until the restart: it is damaged, or the cleaner has a bug, which is logged with its traceback."""
        self._uncleanable[log.topic, log.partition] = log.topic_id
        _LOGGER.error(
            "%s cannot be cleaned, and is not cleaned until this broker is restarted: %s",
            *(log.place, error if isinstance(error, KafkaError) else repr(error)),
            exc_info=None if isinstance(error, KafkaError) else error,
        )

    def _note(self, log: Log, dirt: Dirt, cleaning: "Cleaning", took_s: float) -> None:
        counts = cleaning.counts
        self.figures.cleaned(counts, cleaning.utilization, took_s, dirt.delay_ms)
        if counts.records_without_key:
            _LOGGER.warning("%d records of %s had no key and were removed", counts.records_without_key, log.place)
        _LOGGER.info(
            "%s was cleaned from %d to %d in %.1f s: %d of %d records kept, %d bytes read, %d written",
            *(log.place, dirt.first_dirty, log.first_dirty_offset, took_s),
            *(counts.records_kept, counts.records_read, counts.bytes_read, counts.bytes_written),
        )


def _dirt(log: Log, now_ms: int, synced_end: int | None = None) -> Dirt:
    """Return the dirt of a log: only records that a power loss cannot take make older ones superfluous."""
    first_dirty = max(log.first_dirty_offset, log.log_start_offset)
    # A cleaning removes the records of aborted transactions, so it ends where one is undecided.
    settled_end = min(log.last_stable_offset, log.recovery_point if synced_end is None else synced_end)
    return Dirt(log.segments, log.config, first_dirty, settled_end, now_ms)


def _has_room(log: Log) -> bool:
    try:
        log.place.may_append()
    except KafkaError:
        return False
    return True


def _settings(config: BrokerConfig) -> tuple[int, float, int, int]:
    """Return the values of CleanerSettings, in its order."""
    return (
        config.log_cleaner_dedupe_buffer_size,
        config.log_cleaner_io_buffer_load_factor,
        config.log_cleaner_io_buffer_size,
        config.sluicegate_record_validation_max_bytes,
    )
