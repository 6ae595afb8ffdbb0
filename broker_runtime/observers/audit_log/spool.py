"""The spool files of one boot: the shell that writes blocks to the page cache, and reserves numbers before use.

A file begins with a head that holds the highest number that may have been assigned to an event. After a kill -9 it
shows how many events can be missing behind the last block. The head has its place on the disk from the start, so that
it can be written when the disk is full.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from broker_runtime.observers.audit_log.layout import (
    HEAD_BYTES,
    MAGIC,
    RESERVED_AT,
    SCHEMA_VERSION,
    lock_name,
    packed_block,
    packed_reserved,
    spool_name,
)
from broker_runtime.storage.disk.filesystem import File, FileSystem


class SpoolIdentity(NamedTuple):
    """The broker, and its start, that write an audit log's spool.

    `boot_id` is new with each start, and a later one is greater as text.
    """

    cluster_id: str
    broker_id: int
    boot_id: str


class SpoolFullError(OSError):
    """Error of a write because the spools of this folder have reached their limit: no lander removes them."""


class Spool:
    """The audit log's files of one boot in `folder`, one open at a time, and the lock that shows that the broker runs.

    Data is durable once the operating system has written it back: a kill -9 loses nothing that was written, a power
    loss may. All methods raise OSError if the disk fails, and can then be called again. `limit_bytes` covers all spools
    in the folder, also those of earlier boots.
    """

    def __init__(
        self, fs: FileSystem, folder: Path, identity: SpoolIdentity, api_names: dict[int, str], limit_bytes: int
    ) -> None:
        self._fs = fs
        self._folder = folder
        self._identity = identity
        self._api_names = api_names
        self._limit_bytes = limit_bytes
        fs.mkdir(folder)
        lock = folder / lock_name(identity.boot_id)
        # The lock appears locked and complete: otherwise a lander would treat the boot as ended.
        draft = lock.with_name(lock.name + ".new")
        self._lock: object | None = fs.lock(draft)
        # The lock names the owner of the spools, so that it is known even if the header of a spool is damaged.
        fs.open(draft).write_at([packed_block("header", SCHEMA_VERSION, *identity, 0, 1, 0, api_names)], 0)
        fs.rename(draft, lock)
        self._segment = 0
        self._file: File
        self._begin = self._end = 0
        # Thousands of spools may wait for a lander: their sizes are read again only when space runs out and some are
        # gone.
        self._known = self._names()
        self._others_bytes = self._size_of(self._known)
        self.waiting = 0
        """Complete spools in this folder that are not landed yet, counted when the current file was begun."""

    def begin(self, first_seq: int, reserved: int, wall_us: int) -> None:
        """Continue the spool in a new file; the previous file is complete.

        All numbers below `first_seq` are written.
        """
        before = self._file if self._segment else None
        number = self._segment + 1
        path = self._folder / spool_name(self._identity.boot_id, number)
        header = packed_block("header", SCHEMA_VERSION, *self._identity, number, first_seq, wall_us, self._api_names)
        file = self._fs.open(path, create=True)
        try:
            file.write_at([MAGIC, packed_reserved(reserved), header], 0)
        except OSError:
            self._fs.unlink(path)
            raise
        self._file, self._segment = file, number
        if before is not None:
            # The next file has the same information: on a full disk this block may be missing.
            with suppress(OSError):
                before.write_at([packed_block("end", first_seq - 1, wall_us, "next")], self._end)
        self._others_bytes += self._end
        self._end = self._begin = HEAD_BYTES + len(header)
        self._known |= {path.name}
        self.waiting = max(len(self._names()) - 1, 0)

    def reserve(self, seq: int) -> None:
        """Allow the numbers up to `seq` to be assigned to events from now on."""
        self._file.write_at([packed_reserved(seq)], RESERVED_AT)

    def append(self, block: bytes) -> None:
        end = self._end + len(block)
        if self._others_bytes + end > self._limit_bytes and not self._fits(end):
            raise SpoolFullError(
                f"the spools in {self._folder} have {self._limit_bytes} bytes, the limit: they are not being landed"
            )
        self._file.write_at([block], self._end)
        self._end = end

    @property
    def size(self) -> int:
        """Return the size of the open file in bytes."""
        return self._end

    def close(self, last_seq: int, wall_us: int) -> None:
        """Mark the end of the boot: the broker stops, and all events are written."""
        self._file.write_at([packed_block("end", last_seq, wall_us, "stopped")], self._end)

    def let_go(self) -> None:
        """Release the spool's lock: nothing more is written, and for other processes the boot has ended."""
        self._lock = None

    def _fits(self, end: int) -> bool:
        """Whether the spools that exist now leave space up to `end`.

        The first block always fits if there is nothing else: otherwise one that is too large would block the queue
        forever.
        """
        names = self._names()
        if names != self._known:
            self._known = names
            self._others_bytes = self._size_of(names) - self._end
        is_first = self._end == self._begin and not self._others_bytes
        return is_first or self._others_bytes + end <= self._limit_bytes

    def _names(self) -> set[str]:
        return {name for name in self._fs.listdir(self._folder) if name.endswith(".spool")}

    def _size_of(self, names: Iterable[str]) -> int:
        """Return the total size in bytes. A spool that has been landed in the meantime counts as 0."""
        total = 0
        for name in names:
            with suppress(FileNotFoundError):
                total += self._fs.open(self._folder / name).size()
        return total
