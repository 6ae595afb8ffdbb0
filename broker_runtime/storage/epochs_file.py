"""The file of a log's leader epochs, which only ever holds what is on the disk for good.

The event loop writes a draft, whoever syncs the log syncs that and gives it the file's name. Until then a crash may
lose what it says of batches that are not synced: those tell again where their epochs begin, as no cleaning has been
through them.
"""

import threading
from contextlib import suppress
from pathlib import Path

from broker_runtime.storage.epochs import EPOCHS_FILE, LeaderEpochs
from broker_runtime.storage.place import LogPlace


class EpochsDraft:
    """What the file is to hold after so many changes. It is not kept open: there may be one for each log."""

    __slots__ = ("change", "is_taken", "path")

    def __init__(self, change: int, path: Path) -> None:
        self.change, self.path = change, path
        self.is_taken = False
        """Whoever took it makes it the file, or removes it."""


class EpochsFile:
    """`prepare` is for the event loop, `take` and `store` are for whoever syncs, in any thread."""

    __slots__ = ("_change", "_draft", "_epochs", "_is_closed", "_lock", "_place", "_stored")

    def __init__(self, place: LogPlace, epochs: LeaderEpochs) -> None:
        self._place = place
        self._epochs = epochs
        self._change = self._stored = 0
        self._draft: EpochsDraft | None = None
        self._is_closed = False
        self._lock = threading.Lock()
        """Held for as long as a rename takes, never while something is synced."""

    @property
    def is_stored(self) -> bool:
        return self._stored == self._change

    def prepare(self) -> None:
        """The epochs have changed. Raises OSError, with the draft before this one as it was."""
        before, change = self._draft, self._change + 1
        path = self._place.folder / f"{EPOCHS_FILE}.{change}.tmp"
        self._place.fs.open(path, create=True).write_at([self._epochs.encode()], 0)
        self._draft, self._change = EpochsDraft(change, path), change
        if before is not None and not before.is_taken:
            # What stays the next start removes.
            with suppress(OSError):
                self._place.fs.unlink(before.path)

    def take(self) -> EpochsDraft | None:
        """What is to be stored, which others may have taken, too; None where that is done."""
        draft = self._draft
        if draft is None or draft.change <= self._stored:
            return None
        draft.is_taken = True
        return draft

    def store(self, draft: EpochsDraft) -> None:
        """For good once the folder is synced; what is older than the file is not. Raises OSError."""
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
        """Nothing is stored any more: the folder loses its name next."""
        with self._lock:
            self._is_closed = True
