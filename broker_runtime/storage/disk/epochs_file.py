"""The file of a log's leader epochs, whose content is always durable.

The event loop writes a draft; the next sync of the log syncs the draft and renames it to the file. Until then a crash
may lose the epochs of unsynced batches. Those batches still show where their epochs begin, as no cleaning has processed
them.
"""

import threading
from contextlib import suppress
from pathlib import Path

from broker_runtime.storage.disk.epochs import EPOCHS_FILE, LeaderEpochs
from broker_runtime.storage.disk.place import LogPlace


class EpochsDraft:
    """A file with the leader epochs after change number `change`, not yet renamed to the epochs file.

    The descriptor is not kept open, because each log may have a draft.
    """

    __slots__ = ("change", "is_taken", "path")

    def __init__(self, change: int, path: Path) -> None:
        self.change, self.path = change, path
        self.is_taken = False
        """A sync has taken it, and either renames it to the file or removes it."""


class EpochsFile:
    """The file with the leader epochs of a log.

    The event loop calls `prepare`; a sync, in any thread, calls `take` and `store`.
    """

    __slots__ = ("_change", "_draft", "_epochs", "_is_closed", "_lock", "_place", "_stored")

    def __init__(self, place: LogPlace, epochs: LeaderEpochs) -> None:
        self._place = place
        self._epochs = epochs
        self._change = self._stored = 0
        self._draft: EpochsDraft | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        """Held for as long as a rename takes, never during a sync."""

    @property
    def is_stored(self) -> bool:
        return self._stored == self._change

    def prepare(self) -> None:
        """Write a draft of the changed epochs. Raises OSError; then the previous draft stays unchanged."""
        before, change = self._draft, self._change + 1
        path = self._place.folder / f"{EPOCHS_FILE}.{change}.tmp"
        self._place.fs.open(path, create=True).write_at([self._epochs.encode()], 0)
        self._draft, self._change = EpochsDraft(change, path), change
        if before is not None and not before.is_taken:
            # The next start removes it if this fails.
            with suppress(OSError):
                self._place.fs.unlink(before.path)

    def take(self) -> EpochsDraft | None:
        """Return the draft to store, which another sync may have taken, too; None if the file is up to date."""
        draft = self._draft
        if draft is None or draft.change <= self._stored:
            return None
        draft.is_taken = True
        return draft

    def store(self, draft: EpochsDraft) -> None:
        """Rename the draft to the epochs file. A draft older than the file is ignored.

        The rename is durable after a sync of the folder. Raises OSError.
        """
        fs = self._place.fs
        try:
            fs.open(draft.path).fsync()
        except FileNotFoundError:
            if draft.change > self._stored:
                raise
        with self._lock:
            # Another log may have the folder's name by now.
            if self._is_closed or draft.change == self._stored:
                return
            if draft.change < self._stored:
                fs.unlink(draft.path)
                return
            fs.rename(draft.path, self._place.folder / EPOCHS_FILE)
            self._stored = draft.change

    def close(self) -> None:
        """Stop storing the log's leader epochs. Call it before the folder is renamed: another log may get its name."""
        with self._lock:
            self._is_closed = True
