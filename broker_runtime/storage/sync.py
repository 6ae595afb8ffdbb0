"""One sync of a log's files: what it has to make durable, taken on the event loop, and the work, done in a thread."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from broker_runtime.storage.checkpoint import PARTITION_METADATA
from broker_runtime.storage.filesystem import File
from broker_runtime.storage.place import LogPlace


@dataclass(frozen=True, slots=True)
class Sync:
    """After `run` everything below `end` survives a power loss, unless the log was cut since `cuts` was taken."""

    place: LogPlace
    files: Sequence[File]
    small_files: Sequence[Path]
    """That were written anew as a whole: leader epochs, a snapshot of producers."""
    names: int
    """How many times names had come to the folder."""
    names_are_new: bool
    metadata_is_new: bool
    """Whether partition.metadata was never synced."""
    folder_is_new: bool
    """The same of the folder's own name."""
    end: int
    cuts: int

    def run(self) -> None:
        """Raises OSError. Touches nothing that a log in use changes."""
        fs, folder = self.place.fs, self.place.folder
        for file in self.files:
            file.fsync()
        for path in self.small_files:
            try:
                small = fs.open(path)
            except FileNotFoundError:
                # A newer snapshot has taken its place meanwhile.
                continue
            small.fsync()
        if self.metadata_is_new:
            fs.open(folder / PARTITION_METADATA).fsync()
        if self.folder_is_new:
            fs.fsync_dir(folder.parent)
        if self.names_are_new or self.small_files:
            fs.fsync_dir(folder)
