"""One sync of a log's files: the event loop collects what has to become durable, and a thread syncs it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from broker_runtime.storage.disk.checkpoint import PARTITION_METADATA
from broker_runtime.storage.disk.epochs import EPOCHS_FILE
from broker_runtime.storage.disk.epochs_file import EpochsDraft, EpochsFile
from broker_runtime.storage.disk.filesystem import File
from broker_runtime.storage.disk.place import LogPlace
from broker_runtime.storage.segment.segment_indexes import SegmentIndexes


@dataclass(frozen=True, slots=True)
class Sync:
    """A sync of a log's files.

    After `run` all records below `end` survive a power loss, unless the log was cut since `cuts` was read.
    """

    place: LogPlace
    files: Sequence[File]
    indexes: Sequence[SegmentIndexes]
    """The indexes whose files are in `files`."""
    snapshot: Path | None
    """The snapshot of producers, if it was never synced."""
    epochs_file: EpochsFile
    epochs: EpochsDraft | None
    """The draft to replace the epochs file; None if the file is up to date."""
    names: int
    """The number of names made in the folder so far."""
    names_are_new: bool
    metadata_is_new: bool
    """Whether partition.metadata was never synced."""
    folder_is_new: bool
    """Whether the folder's own name was never synced."""
    end: int
    cuts: int

    def run(self) -> None:
        """Sync all files; a call after an error may repeat this.

        Touches nothing that a log in use changes. Raises FsyncFailedError, and other OSErrors if a file could not be
        opened or renamed.
        """
        fs, folder = self.place.fs, self.place.folder
        for file in self.files:
            file.fsync()
        if self.snapshot is not None:
            # A newer snapshot may have replaced it meanwhile.
            with suppress(FileNotFoundError):
                fs.open(self.snapshot).fsync()
        if self.epochs is not None:
            self.epochs_file.store(self.epochs)
        if self.metadata_is_new:
            fs.open(folder / PARTITION_METADATA).fsync()
            # A killed process of an earlier version did not sync it.
            with suppress(FileNotFoundError):
                fs.open(folder / EPOCHS_FILE).fsync()
        if self.folder_is_new:
            fs.fsync_dir(folder.parent)
        if self.names_are_new or self.snapshot is not None or self.epochs is not None:
            fs.fsync_dir(folder)
