"""Periodic work on a folder's logs: retention, syncs, checkpoints, and folders of deleted logs.

A tick is bounded: it checks some of the logs, starts slow work in threads, and leaves the rest to the next tick.
"""

import logging
from collections import deque
from collections.abc import Mapping
from heapq import nlargest

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerConfig
from broker_runtime.errors import KafkaError
from broker_runtime.slicing.steps import Steps
from broker_runtime.storage.disk.checkpoint import HIGH_WATERMARKS, RECOVERY_POINTS, Partition
from broker_runtime.storage.log.expiry import apply_retention, remove_below_start, roll_idle
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.checkpoints import Checkpoints, knows_begin
from broker_runtime.storage.log_dir.deleted import DeletedFolders
from broker_runtime.storage.records.transactions import ALL_STABLE

_LOGGER = logging.getLogger(__name__)
_LOGS_PER_TICK = 256
_LOGS_OF_A_STEP = 32
"""Logs that are maintained between two breaks; each takes about 20 microseconds."""
_RECOVERED_PER_TICK = 16
_SEALED_PER_TICK = 64
"""Limit of segments. Each takes a few system calls on the event loop."""
_SEALED_BYTES_PER_TICK = 64 << 20
"""One segment is synced whatever its size; other users of the disk must not wait for more."""


class LogUpkeep:
    """The upkeep of all logs of a folder: retention, syncs, checkpoints, and folders of deleted logs.

    `logs` are the manager's. A log that fails is reported, and the others are maintained.
    """

    def __init__(
        self, logs: Mapping[Partition, Log], checkpoints: Checkpoints, deleted: DeletedFolders, clock: Clock
    ) -> None:
        self._logs = logs
        self._checkpoints = checkpoints
        self._deleted = deleted
        self._clock = clock
        self._round: list[Log] = []
        self._not_checked: list[Log] = []
        """Logs that the retention check in progress has not reached yet."""
        self._recovered: deque[Log] = deque()
        self._sealing: list[Log] = []
        """Logs whose sealed segments are being synced."""
        self._to_seal: list[Log] = []
        """Logs that the current round of `_sync_sealed` has not reached yet, the next ones last."""
        self._unstable: dict[Partition, Log] = {}
        """Logs that had an open or unreplicated transaction when they were maintained last."""
        self.configure(BrokerConfig())

    def configure(self, config: BrokerConfig) -> None:
        """Use the intervals in `config` for retention and flushes.

        The time until the first retention check begins now.
        """
        self.producer_expiration_ms = config.producer_id_expiration_ms
        self._producers_max = config.sluicegate_partition_producers_max
        self._watermarks_s = config.replica_high_watermark_checkpoint_interval_ms / 1000
        self._checkpoint_s = config.log_flush_offset_checkpoint_interval_ms / 1000
        self._retention_s = config.log_retention_check_interval_ms / 1000
        now_s = self._clock.monotonic()
        self._watermarks_at = now_s
        self._checkpoint_at = now_s + self._checkpoint_s
        self._retention_at = now_s + config.log_initial_task_delay_ms / 1000

    def sync_soon(self, log: Log) -> None:
        """Schedule a sync of records that a crash left unsynced and that no client waits for."""
        self._recovered.append(log)

    def tick(self) -> Steps[None]:
        """Run the upkeep of one tick in steps, each for some logs."""
        now_ms, now_s = self._clock.wall_ms(), self._clock.monotonic()
        if not self._not_checked and now_s >= self._retention_at:
            self._retention_at = now_s + self._retention_s
            self._not_checked = list(self._logs.values())
        batch, self._not_checked = self._not_checked[:_LOGS_PER_TICK], self._not_checked[_LOGS_PER_TICK:]
        for number, log in enumerate(batch):
            self._check_retention(log, now_ms)
            if number % _LOGS_OF_A_STEP == 0:
                yield
        if not self._round:
            self._round = list(self._logs.values())
        batch, self._round = self._round[:_LOGS_PER_TICK], self._round[_LOGS_PER_TICK:]
        for number, log in enumerate(batch):
            self._maintain(log, now_ms)
            yield from log.producers.expire(now_ms, self.producer_expiration_ms, self._producers_max)
            if number % _LOGS_OF_A_STEP == 0:
                yield
        self._sync_recovered()
        yield
        self._sync_sealed()
        yield
        self._checkpoints.log_starts.write_soon(_log_unless_noted)
        must_forget = self._deleted.remove_some(now_ms)
        try:
            if now_s >= self._watermarks_at:
                self._watermarks_at = now_s + self._watermarks_s
                self._checkpoints.write_soon(HIGH_WATERMARKS)
            if now_s >= self._checkpoint_at or must_forget:
                self._checkpoint_at = now_s + self._checkpoint_s
                self._checkpoints.write_soon(RECOVERY_POINTS)
        except OSError as error:
            _LOGGER.error("log upkeep failed; retrying: %s", error)

    def stable_offset_lags(self, most: int) -> list[tuple[Partition, int]]:
        """Return the partitions with the largest lags of the last stable offset behind the high watermark, in offsets.

        A transaction that opened since the last round over all logs is not counted yet.
        """
        lags = ((key, log.high_watermark - log.last_stable_offset) for key, log in self._unstable.items())
        return nlargest(most, (each for each in lags if each[1] > 0), key=lambda each: each[1])

    def _is_gone(self, log: Log) -> bool:
        """Whether the log was deleted since the round began."""
        return self._logs.get((log.topic, log.partition)) is not log

    def _check_retention(self, log: Log, now_ms: int) -> None:
        if self._is_gone(log):
            return
        try:
            apply_retention(log, now_ms)
        except (OSError, KafkaError) as error:
            _LOGGER.error("removing old segments of %s failed; retrying: %s", log.place, error)

    def _maintain(self, log: Log, now_ms: int) -> None:
        key = (log.topic, log.partition)
        if self._is_gone(log):
            self._unstable.pop(key, None)
            return
        if log.transactions.first_unstable < ALL_STABLE:
            self._unstable[key] = log
        elif self._unstable:
            self._unstable.pop(key, None)
        try:
            roll_idle(log, now_ms)
            remove_below_start(log, now_ms)
            log.files.old.retry()
            if log.waits_for_sync or log.files.syncs.is_due(now_ms, log.config.flush_ms):
                # A log that waits has its sync under way, unless that was put off.
                log.files.syncs.begin()
            if knows_begin(self._checkpoints.ledger.on_disk.get((log.topic, log.partition)), log):
                log.files.old.remove_renamed(now_ms - log.config.file_delete_delay_ms)
        except (OSError, KafkaError) as error:
            _LOGGER.error("upkeep of %s-%d failed; retrying: %s", log.topic, log.partition, error)
        log.files.release_idle()

    def _sync_recovered(self) -> None:
        """Sync a few recovered logs at a time, so that the next crash leaves less to scan."""
        for _ in range(min(len(self._recovered), _RECOVERED_PER_TICK)):
            log = self._recovered.popleft()
            if log.recovery_point < log.log_end_offset:
                log.files.syncs.begin()

    def _sync_sealed(self) -> None:
        """Sync one large segment or many small ones, once the previous ones are synced."""
        if any(log.files.syncs.is_under_way for log in self._sealing):
            return
        self._sealing.clear()
        if not self._to_seal:
            self._to_seal = list(self._logs.values())[::-1]
        segments, size = _SEALED_PER_TICK, _SEALED_BYTES_PER_TICK
        for _ in range(min(len(self._to_seal), _LOGS_PER_TICK)):
            log = self._to_seal.pop()
            begun = None if self._is_gone(log) else log.files.syncs.begin_sealed(segments, size)
            if begun is not None:
                self._sealing.append(log)
                segments, size = segments - begun[0], size - begun[1]
                if segments <= 0 or size <= 0:
                    break
        # The logs that were just handled may have more sealed segments.
        self._to_seal += reversed(self._sealing)


def _log_unless_noted(error: Exception | None) -> None:
    if error is not None:
        _LOGGER.error("the start offsets of logs were not stored; retrying: %s", error)
