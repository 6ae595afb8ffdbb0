"""Frees the names of partitions' folders, and removes what files on disk have of earlier logs of a name."""

import logging
from pathlib import Path

from broker_runtime.clock import Clock
from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.checkpoint import Partition
from broker_runtime.storage.disk.disk import Disk
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.disk.stray import StrayFolders
from broker_runtime.storage.log_dir.checkpoints import Checkpoints
from broker_runtime.storage.log_dir.deleted import DeletedFolders

_LOGGER = logging.getLogger(__name__)


class FreedNames:
    """The folders that have lost their names: deleted ones, and strays.

    No log uses a folder any more when it comes here.
    """

    def __init__(self, log_dir: Path, fs: FileSystem, disk: Disk, clock: Clock, checkpoints: Checkpoints) -> None:
        self.strays = StrayFolders(fs, log_dir)
        self.deleted = DeletedFolders(fs, log_dir, disk, checkpoints.ledger.misses)
        self._fs = fs
        self._clock = clock
        self._checkpoints = checkpoints

    def clear(self, place: LogPlace) -> None:
        """Remove all traces of a deleted log with the name of `place`.

        Otherwise the new log would look as if it had lost records. Raises OSError, KafkaError.
        """
        key = (place.topic, place.partition)
        self._checkpoints.forget(key)
        self.deleted.settle(key)
        if self._fs.exists(place.folder):
            # The folder could not be renamed when its log was deleted: none of its files may count for the new log.
            self.strays.take(place.folder)

    def discard(self, place: LogPlace) -> None:
        """Delete files that were created for a log and are not wanted any more.

        A failure is logged.
        """
        try:
            self.deleted.take((place.topic, place.partition), place.folder, self._clock.wall_ms())
        except OSError as error:
            _LOGGER.error("%s could not be removed; the next start sets it aside: %s", place.folder, error)

    def delete(self, key: Partition, folder: Path, delay_ms: int) -> None:
        """Rename the folder of a deleted log. A tick removes the files after the delay. Raises KafkaError."""
        try:
            self.deleted.take(key, folder, self._clock.wall_ms() + delay_ms)
        except OSError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"deleting {key[0]}-{key[1]} failed: {error}") from error

    def set_aside(self, key: Partition, folder: Path) -> None:
        """Rename the folder of a log so that a person can decide about it. Raises KafkaError."""
        try:
            stray = self.strays.take(folder)
        except OSError as error:
            what = f"setting {key[0]}-{key[1]} aside failed: {error}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, what) from error
        _LOGGER.error(
            "the metadata does not assign %s-%d to this broker, but no record of the metadata has deleted it: it "
            "is set aside as %s. Remove that folder if you do not need it, or rename it to %s if the metadata was "
            "wrong",
            *(*key, stray, folder.name),
        )
