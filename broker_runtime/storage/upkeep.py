"""The work on a folder's logs that comes with time: retention, syncs, checkpoints, and folders of deleted logs.

A tick is bounded: it looks at some of the logs, begins what takes long beside the event loop, and leaves the rest to
the next one.
"""

import logging
from collections import deque
from collections.abc import Mapping

from broker_runtime.clock import Clock
from broker_runtime.config import BrokerConfig
from broker_runtime.errors import KafkaError
from broker_runtime.storage.checkpoint import HIGH_WATERMARKS, RECOVERY_POINTS, Partition
from broker_runtime.storage.checkpoints import Checkpoints, knows_begin
from broker_runtime.storage.deleted import DeletedFolders
from broker_runtime.storage.expiry import apply_retention
from broker_runtime.storage.log import Log

_LOGGER = logging.getLogger(__name__)
_LOGS_PER_TICK = 256
_RECOVERED_PER_TICK = 16
_CHECKPOINT_INTERVAL_S = 60.0


class LogUpkeep:
    """`logs` are the manager's. A log that fails is reported, and the others go on."""

    def __init__(
        self, logs: Mapping[Partition, Log], checkpoints: Checkpoints, deleted: DeletedFolders, clock: Clock
    ) -> None:
        self.producer_expiration_ms = BrokerConfig.producer_id_expiration_ms.default
        self.high_watermark_interval_ms = BrokerConfig.replica_high_watermark_checkpoint_interval_ms.default
        self._logs = logs
        self._checkpoints = checkpoints
        self._deleted = deleted
        self._clock = clock
        self._turn: list[Log] = []
        self._recovered: deque[Log] = deque()
        self._sealing: Log | None = None
        """The log of which a sealed segment is being synced."""
        self._checkpoint_at = clock.monotonic() + _CHECKPOINT_INTERVAL_S
        self._watermarks_at = clock.monotonic()

    def sync_soon(self, log: Log) -> None:
        """A crash has left it with records that are not synced, and nobody has asked for it."""
        self._recovered.append(log)

    def tick(self) -> None:
        now_ms, now_s = self._clock.wall_ms(), self._clock.monotonic()
        if not self._turn:
            self._turn = list(self._logs.values())
        batch, self._turn = self._turn[:_LOGS_PER_TICK], self._turn[_LOGS_PER_TICK:]
        for log in batch:
            if self._logs.get((log.topic, log.partition)) is log:
                self._maintain(log, now_ms)
        self._sync_recovered()
        self._sync_sealed()
        self._checkpoints.log_starts.write_soon(_say_unless_noted)
        must_forget = self._deleted.remove_some(now_ms)
        try:
            if now_s >= self._watermarks_at:
                self._watermarks_at = now_s + self.high_watermark_interval_ms / 1000
                self._checkpoints.write_soon(HIGH_WATERMARKS)
            if now_s >= self._checkpoint_at or must_forget:
                self._checkpoint_at = now_s + _CHECKPOINT_INTERVAL_S
                self._checkpoints.write_soon(RECOVERY_POINTS)
        except OSError as error:
            _LOGGER.error("log upkeep failed, it is tried again: %s", error)

    def _maintain(self, log: Log, now_ms: int) -> None:
        try:
            apply_retention(log, now_ms)
            log.files.old.retry()
            if log.waits_for_sync or log.files.syncs.is_due(now_ms, log.config.flush_ms):
                # One that waits has its sync under way, unless that was put off.
                log.files.syncs.begin()
            if knows_begin(self._checkpoints.ledger.get((log.topic, log.partition)), log):
                log.files.old.remove_renamed(now_ms - log.config.file_delete_delay_ms)
        except (OSError, KafkaError) as error:
            _LOGGER.error("upkeep of %s-%d failed, it is tried again: %s", log.topic, log.partition, error)
        log.producers.expire(now_ms, self.producer_expiration_ms)
        log.files.release_idle()

    def _sync_recovered(self) -> None:
        """A few at a time, so that the next crash leaves less to scan."""
        for _ in range(min(len(self._recovered), _RECOVERED_PER_TICK)):
            log = self._recovered.popleft()
            if log.recovery_point < log.log_end_offset:
                log.files.syncs.begin()

    def _sync_sealed(self) -> None:
        """One segment at a time: it may be large, and others want the disk too."""
        if self._sealing is None or not self._sealing.files.syncs.is_under_way:
            self._sealing = next((log for log in self._logs.values() if log.files.syncs.begin_sealed()), None)


def _say_unless_noted(error: Exception | None) -> None:
    if error is not None:
        _LOGGER.error("the starts of logs are not noted, it is tried again: %s", error)
