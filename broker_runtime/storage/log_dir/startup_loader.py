"""Loads the partitions of a folder at a start, by what the last run has recorded of them.

`loader` loads one log as its `Promise` demands. This module derives the promise from the checkpoints, the ledger and
the run record, and determines what a folder without a readable topic id means.
"""

import logging
from importlib import import_module
from pathlib import Path
from uuid import UUID

from broker_runtime.config import TopicConfig
from broker_runtime.errors import KafkaError
from broker_runtime.storage.disk.checkpoint import PARTITION_METADATA, Partition, read_topic_id, write_topic_id
from broker_runtime.storage.disk.run_record import RunRecord
from broker_runtime.storage.disk.stray import StrayFolders
from broker_runtime.storage.log.log import Log
from broker_runtime.storage.log_dir.checkpoints import Checkpoints
from broker_runtime.storage.log_dir.deleted import remove_folder
from broker_runtime.storage.log_dir.loader import ACCEPT_LOSS, DamagedPartition, Promise, load_log
from broker_runtime.storage.log_dir.log_places import LogPlaces
from broker_runtime.storage.recovery.recovery import DamagedLogError, RecoveryReport, is_damage

_LOGGER = logging.getLogger(__name__)
MENDING = "broker_runtime.storage.damage.mending"
"""The module `mending`, imported when a log has damaged ranges (decision 45)."""


class StartupLoader:
    """The loading of one start. It returns logs and damaged partitions, which the manager then owns.

    For a partition that has lost something, the loader notes in the run record that this run cannot vouch for it.
    """

    def __init__(
        self,
        places: LogPlaces,
        checkpoints: Checkpoints,
        run_record: RunRecord,
        strays: StrayFolders,
        report: RecoveryReport,
    ) -> None:
        """`report` gets the counts of what is loaded."""
        self.accepted: list[Path] = []
        """The files by which a person has accepted losses, to be removed when all checkpoints are written."""
        self.accepted_ranges = 0
        """Number of damaged ranges that these files give up."""
        self._places = places
        self._fs = places.fs
        self._checkpoints = checkpoints
        self._run_record = run_record
        self._strays = strays
        self._report = report

    def load(self, key: Partition, config: TopicConfig) -> Log | DamagedPartition | None:
        """Return the log of a folder, or its damage if the log cannot be served.

        None if the folder was removed or set aside. Raises OSError for a failure that is not damage.
        """
        try:
            return self._load(key, config)
        except OSError as error:
            if not is_damage(error):
                raise
            promise, known = self._promise(key), self._checkpoints.ledger.on_disk.get(key)
            topic_id, start = None if known is None else known.topic_id, promise.log_start_offset
            return self._damaged(key, DamagedPartition(topic_id, start, promise, str(error)))

    def missing(self, key: Partition) -> DamagedPartition | None:
        """Return the damage of a partition whose folder is missing.

        None if a power loss can explain it, because nothing of the folder was synced.
        """
        promise, known = self._promise(key), self._checkpoints.ledger.on_disk[key]
        if not promise.whole and not promise.recovery_point:
            return None
        reason = f"the folder {self._places.folder(key)} is lost"
        return self._damaged(key, DamagedPartition(known.topic_id, known.begin, promise, reason))

    def _load(self, key: Partition, config: TopicConfig) -> Log | DamagedPartition | None:
        folder = self._places.folder(key)
        loss_is_accepted = self._fs.exists(folder / ACCEPT_LOSS)
        topic_id = self._topic_id(key)
        promise = self._promise(key)
        was_synced = promise.recovery_point > 0 and not loss_is_accepted
        if topic_id is None and not (was_synced and promise.kept) and self._set_aside(folder, keep=was_synced):
            return None
        if topic_id is None:
            reason = f"{folder / PARTITION_METADATA} is missing or damaged"
            return self._damaged(key, DamagedPartition(None, promise.log_start_offset, promise, reason))
        try:
            asked = promise
            if loss_is_accepted:
                asked = Promise(promise.log_start_offset, accepts_loss=not promise.is_journal)
            log = load_log(self._places.place(key, topic_id), config, asked, self._report)
        except DamagedLogError as error:
            return self._damaged(key, DamagedPartition(topic_id, error.offset, promise, str(error)))
        if loss_is_accepted:
            self._give_up_damage(log)
        if log.log_end_offset < max(promise.least_end, promise.high_watermark):
            _LOGGER.error("%s-%d ends at %d, but had more records before", *key, log.log_end_offset)
            self._run_record.lost()
        if loss_is_accepted:
            # The end of the log does not show what is missing at its beginning.
            self._run_record.lost()
            self.accepted.append(folder / ACCEPT_LOSS)
        log.start_replicating(promise.high_watermark)
        if promise.kept and not loss_is_accepted:
            first_dirty = self._checkpoints.said_of(key).first_dirty
            log.first_dirty_offset = first_dirty if first_dirty <= log.log_end_offset else 0
        if log.damage:
            self._run_record.lost()
            self._report.ranges_damaged += len(log.damage)
        return log

    def _give_up_damage(self, log: Log) -> None:
        """Accept the loss of all damaged ranges, at a start, when an import blocks no request. Raises OSError."""
        for damaged in log.damage:
            offsets = damaged.first_offset, damaged.next_offset - 1
            _LOGGER.error("%s: the loss of offsets %d to %d was accepted", log.place, *offsets)
            self.accepted_ranges += 1
        try:
            import_module(MENDING).accept_losses(log)
        except KafkaError as error:
            _LOGGER.error("%s: the loss cannot be accepted: %s", log.place, error)

    def _topic_id(self, key: Partition) -> UUID | None:
        """Return the topic id from partition.metadata, or None if no file has it.

        If the file is damaged, it is rewritten from the ledger.
        """
        folder = self._places.folder(key)
        found, known = None, self._checkpoints.ledger.on_disk.get(key)
        try:
            found = read_topic_id(self._fs, folder)
        except ValueError as error:
            _LOGGER.warning("%s", error)
        except OSError as error:
            if not is_damage(error):
                raise
            _LOGGER.warning("%s-%d: %s cannot be read: %s", *key, PARTITION_METADATA, error)
        if known is None or found == known.topic_id:
            return found
        if self._run_record.kept_ledger:
            _LOGGER.error("%s-%d: %s is damaged, and is rewritten", *key, PARTITION_METADATA)
            write_topic_id(self._fs, folder, known.topic_id)
            return known.topic_id
        # An earlier version of this broker has recreated the topic, and left the entries of the one before.
        self._checkpoints.forget_stale(key)
        return found

    def _promise(self, key: Partition) -> Promise:
        clean = self._report.clean
        if key[0] == self._places.copy:
            return Promise(clean=clean)
        record = self._run_record
        said, known = self._checkpoints.said_of(key), self._checkpoints.ledger.on_disk.get(key)
        is_journal = key[0] == self._places.journal
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

    def _damaged(self, key: Partition, damaged: DamagedPartition) -> DamagedPartition:
        """Record a damaged partition: the controller must not count on this broker for it, nor let it lead."""
        if key[0] != self._places.copy:
            self._run_record.lost()
        self._checkpoints.keep(key, damaged.promise.least_end)
        self._report.partitions_damaged += 1
        _LOGGER.error("%s-%d is damaged: %s. Its files stay unchanged", *key, damaged.reason)
        return damaged

    def _set_aside(self, folder: Path, *, keep: bool) -> bool:
        """Handle a folder without a topic id: remove it if it has no records, otherwise rename it.

        Returns False, and does nothing, for a folder that has records and is to be kept.
        """
        if not any(name.endswith(".log") and self._fs.open(folder / name).size() for name in self._fs.listdir(folder)):
            remove_folder(self._fs, folder)
        elif keep:
            return False
        else:
            self._run_record.lost()
            stray = self._strays.take(folder)
            _LOGGER.error("%s has no topic id, and was never synced; its records are kept in %s", folder, stray)
        return True
