"""The .index and .timeindex files of a segment, entry for entry in Kafka's binary form.

Kafka maps each file and preallocates segment.index.bytes; we keep the entries of the active segment in memory and
append them to the file in pieces, so the files stay small and Kafka's tools still read them. A sealed segment's entries
are read when first needed and dropped again when idle. Knows nothing of batches.
"""

from bisect import bisect_left, bisect_right
from pathlib import Path
from struct import Struct

from broker_runtime.storage.filesystem import File, FileSystem

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
RELATIVE_OFFSET_MAX = 2**31 - 1
"""An entry has no room for more than that above the segment's base offset."""
_WRITE_BYTES = 4096


class Index:
    """Fixed-size entries in ascending order, in memory and, up to `_written`, in the file."""

    __slots__ = ("_entries", "_file", "_fs", "_synced", "_used", "_written", "entry", "path")

    def __init__(self, fs: FileSystem, path: Path, entry: Struct) -> None:
        self.entry = entry
        self._fs = fs
        self.path = path
        self._entries: bytearray | None = None
        self._file: File | None = None
        self._written = 0
        self._used = False
        self._synced = True

    def create(self) -> None:
        """Start empty, also over what a crash left."""
        self._file = self._fs.open(self.path, create=True)
        self._entries = bytearray()
        self._written = 0
        self._synced = False

    def renew(self) -> None:
        """Start empty; what the file holds stays until the next `write`."""
        self._entries = bytearray()
        self._file = None
        self._written = -1

    def exists(self) -> bool:
        return self._fs.exists(self.path)

    def data(self) -> bytearray:
        self._used = True
        if self._entries is None:
            file = self._fs.open(self.path)
            self._entries = bytearray(file.pread(file.size(), 0))
            self._written = len(self._entries)
        return self._entries

    def size(self) -> int:
        return len(self.data())

    def count(self) -> int:
        return len(self.data()) // self.entry.size

    def get(self, number: int) -> tuple[int, int]:
        first, second = self.entry.unpack_from(self.data(), number * self.entry.size)
        return first, second

    def last(self) -> tuple[int, int] | None:
        count = self.count()
        return self.get(count - 1) if count else None

    def floor(self, first: int) -> tuple[int, int] | None:
        """The last entry whose first field is at most `first`."""
        number = bisect_right(range(self.count()), first, key=lambda at: self.get(at)[0])
        return self.get(number - 1) if number else None

    def ceiling(self, first: int) -> tuple[int, int] | None:
        """The first entry whose first field is at least `first`."""
        count = self.count()
        number = bisect_left(range(count), first, key=lambda at: self.get(at)[0])
        return self.get(number) if number < count else None

    def floor_by_second(self, second: int) -> tuple[int, int] | None:
        number = bisect_right(range(self.count()), second, key=lambda at: self.get(at)[1])
        return self.get(number - 1) if number else None

    def append(self, first: int, second: int) -> None:
        entries = self._entries if self._entries is not None else self.data()
        entries += self.entry.pack(first, second)

    @property
    def write_due(self) -> bool:
        return self._entries is not None and len(self._entries) - self._written >= _WRITE_BYTES

    def _open(self) -> File:
        if self._file is None:
            self._file = self._fs.open(self.path)
        return self._file

    def write(self) -> None:
        """Bring the file up to date; a failed write is made again by the next call."""
        if self._entries is None or self._written == len(self._entries):
            return
        if self._written < 0:
            self._file = self._fs.open(self.path, create=True)
            self._written = 0
        end = len(self._entries)
        self._open().write_at([bytes(self._entries[self._written : end])], self._written)
        self._written = end
        self._synced = False

    def fsync(self) -> None:
        """Nothing to do for most appends of a log that syncs each one: entries come every few batches only."""
        if self._file is not None and not self._synced:
            self._file.fsync()
            self._synced = True

    def take_unsynced(self) -> File | None:
        """The file if something was written to it since it was synced or taken; who takes it syncs it."""
        if self._file is None or self._synced:
            return None
        self._synced = True
        return self._file

    def release(self) -> None:
        """Drop memory and descriptor if nothing used them since the last call."""
        if self._used:
            self._used = False
        elif self._entries is not None and self._written == len(self._entries):
            self._entries = None
            self._file = None
