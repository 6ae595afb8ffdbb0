"""Folders of deleted logs: renamed at once, and removed when no file on disk lists their partition any more."""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from broker_runtime.storage.disk.checkpoint import Partition
from broker_runtime.storage.disk.disk import Disk
from broker_runtime.storage.disk.filesystem import FileSystem
from broker_runtime.storage.disk.stray import DELETED, parting_name

_LOGGER = logging.getLogger(__name__)
FOLDERS_PER_SLICE = 128


class _Deleted(NamedTuple):
    due_ms: int
    key: Partition | None
    """None for a folder that an earlier process left."""
    folder: Path


class DeletedFolders:
    """Folders of deleted logs, which are renamed and later removed.

    One sync of the parent makes many renames durable, and one piece of work removes many folders. Both run beside the
    event loop, one at a time. The next `remove_some` retries failures.
    """

    def __init__(self, fs: FileSystem, log_dir: Path, disk: Disk, is_missed: Callable[[Partition], bool]) -> None:
        self._fs = fs
        self._log_dir = log_dir
        self._disk = disk
        self._is_missed = is_missed
        """Whether a file on disk still lists the partition: its folder has to wait."""
        self._renamed: list[_Deleted] = []
        """Folders whose renames are not durable yet: a power loss brings them back under their old names, whole."""
        self._syncing: list[_Deleted] = []
        self._unsettled: set[Partition | None] = set()
        """The partitions of `_renamed` and `_syncing`."""
        self._due: list[_Deleted] = []
        self._is_removing = False

    def take(self, key: Partition, folder: Path, due_ms: int) -> None:
        """Rename the folder of a deleted log, which frees its name at once. Raises OSError."""
        gone = parting_name(folder, DELETED)
        self._fs.rename(folder, gone)
        self._renamed.append(_Deleted(due_ms, key, gone))
        self._unsettled.add(key)
        self._sync_renames()

    def note(self, name: str) -> None:
        """Schedule the removal of a deleted log's folder that the start of the broker found."""
        self._due.append(_Deleted(0, None, self._log_dir / name))

    def settle(self, key: Partition) -> None:
        """Make the rename of a partition's folder durable before its name is used again. Raises OSError."""
        if key in self._unsettled:
            self._fs.fsync_dir(self._log_dir)
            self._due += self._renamed + self._syncing
            self._renamed, self._syncing = [], []
            self._unsettled.clear()

    def remove_some(self, now_ms: int) -> bool:
        """Begin to remove the folders that are due. Return whether some must wait because a file still lists them."""
        self._sync_renames()
        if self._is_removing:
            return False
        due = [deleted for deleted in self._due if deleted.due_ms <= now_ms]
        free = [deleted for deleted in due if deleted.key is None or not self._is_missed(deleted.key)]
        if free:
            removing = free[:FOLDERS_PER_SLICE]
            chosen = set(removing)
            self._due = [deleted for deleted in self._due if deleted not in chosen]
            self._is_removing = True
            work = partial(_remove, self._fs, [deleted.folder for deleted in removing])
            self._disk.submit(work, partial(self._removed, removing))
        return len(free) < len(due)

    def _removed(self, removing: Sequence[_Deleted], error: Exception | None) -> None:
        self._is_removing = False
        if error is not None:
            _LOGGER.error("folders of deleted logs could not be removed; retrying: %s", error)
            self._due += [deleted for deleted in removing if self._fs.exists(deleted.folder)]

    def _sync_renames(self) -> None:
        if self._renamed and not self._syncing:
            self._syncing, self._renamed = self._renamed, []
            self._disk.submit(partial(self._fs.fsync_dir, self._log_dir), partial(self._synced, self._syncing))

    def _synced(self, synced: list[_Deleted], error: Exception | None) -> None:
        if self._syncing is not synced:
            # `settle` could not wait, and has synced them.
            return
        self._syncing = []
        if error is not None:
            _LOGGER.error("deleted logs could not be synced, and may reappear after a power loss; retrying: %s", error)
            self._renamed += synced
            return
        self._due += synced
        self._unsettled.difference_update(deleted.key for deleted in synced)
        self._unsettled.update(deleted.key for deleted in self._renamed)
        self._sync_renames()


def _remove(fs: FileSystem, folders: Sequence[Path]) -> None:
    """Remove every folder that can be removed. Raises OSError, which names the last one that could not."""
    failed = ""
    for folder in folders:
        try:
            remove_folder(fs, folder)
        except OSError as error:
            failed = f"{folder}: {error}"
    if failed:
        raise OSError(failed)


def remove_folder(fs: FileSystem, folder: Path) -> None:
    """Remove a deleted log's folder and its files. Raises OSError."""
    for name in fs.listdir(folder):
        fs.unlink(folder / name)
    fs.rmdir(folder)
