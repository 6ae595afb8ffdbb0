"""The .index and .timeindex files of a segment, entry for entry in Kafka's binary form.

Kafka maps each file and preallocates segment.index.bytes. This broker keeps the entries of the active segment in memory
and appends them to the file in pieces. So the files stay small, and Kafka's tools can still read them. A sealed
segment's entries are read at their first use and dropped when idle. No file stays open. Knows nothing of batches.
"""

from bisect import bisect_left, bisect_right
from pathlib import Path
from struct import Struct

from broker_runtime.storage.disk.filesystem import File, FileSystem

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
RELATIVE_OFFSET_MAX = 2**31 - 1
"""Greatest distance from the segment's base offset that an entry can store."""
_WRITE_BYTES = 4096


class Entries:
    """Pairs of numbers in ascending order, in the packed form of an index file. Pure."""

    __slots__ = ("data", "entry")

    def __init__(self, entry: Struct, data: bytes = b"") -> None:
        self.entry = entry
        self.data = bytearray(data)

    def __len__(self) -> int:
        return len(self.data) // self.entry.size

    def __getitem__(self, number: int) -> tuple[int, int]:
        first, second = self.entry.unpack_from(self.data, number * self.entry.size)
        return first, second

    def last(self) -> tuple[int, int] | None:
        count = len(self)
        return self[count - 1] if count else None

    def floor(self, first: int) -> tuple[int, int] | None:
        """Return the last entry whose first field is at most `first`."""
        if not self.data:
            return None
        number = bisect_right(range(len(self)), first, key=lambda at: self[at][0])
        return self[number - 1] if number else None

    def floor_by_second(self, second: int) -> tuple[int, int] | None:
        if not self.data:
            return None
        number = bisect_right(range(len(self)), second, key=lambda at: self[at][1])
        return self[number - 1] if number else None

    def ceiling(self, first: int) -> tuple[int, int] | None:
        """Return the first entry whose first field is at least `first`."""
        count = len(self)
        number = bisect_left(range(count), first, key=lambda at: self[at][0])
        return self[number] if number < count else None

    def up_to(self, second: int) -> bytes:
        """Return the entries whose second field is at most `second`, packed."""
        number = bisect_right(range(len(self)), second, key=lambda at: self[at][1])
        return bytes(self.data[: number * self.entry.size])

    def append(self, first: int, second: int) -> None:
        self.data += self.entry.pack(first, second)


class Index:
    """One index of a segment. Its entries are in memory while they are used.

    The first `_written` bytes of them are in the file. Methods raise OSError.
    """

    __slots__ = ("_entries", "_fs", "_synced", "_used", "_written", "entry", "is_written", "path")

    def __init__(self, fs: FileSystem, path: Path, entry: Struct) -> None:
        self.entry = entry
        self.path = path
        self.is_written = True
        """Whether `write` writes: the indexes of a damaged segment stay in memory."""
        self._fs = fs
        self._entries: Entries | None = None
        self._written = 0
        self._used = False
        self._synced = True

    def create(self) -> None:
        """Start with no entries and an empty file, even if a crash left a file."""
        # A new file is empty after a power loss, too; the content of an older one would reappear, so it needs a sync.
        self._synced = not self.exists()
        self._fs.open(self.path, create=True)
        # Most logs have few batches: memory for entries is allocated with the first one.
        self._entries = None
        self._written = 0

    def renew(self) -> None:
        """Start with no entries; the file keeps its content until the next `write`."""
        self._entries = Entries(self.entry)
        self._written = -1

    def exists(self) -> bool:
        return self._fs.exists(self.path)

    @property
    def entries(self) -> Entries:
        self._used = True
        entries = self._entries
        if entries is None:
            file = self._fs.open(self.path)
            entries = self._entries = Entries(self.entry, file.pread(file.size(), 0))
            self._written = len(entries.data)
        return entries

    @property
    def size(self) -> int:
        """Return the size of all entries, in bytes."""
        return len(self.entries.data)

    @property
    def write_due(self) -> bool:
        return self._entries is not None and len(self._entries.data) - self._written >= _WRITE_BYTES

    def write(self) -> None:
        """Write new entries to the file; the next call repeats a failed write."""
        if self._entries is None or self._written == len(self._entries.data) or not self.is_written:
            return
        file = self._fs.open(self.path, create=self._written < 0)
        self._written = max(self._written, 0)
        data = self._entries.data
        end = len(data)
        if end > self._written:
            file.write_at([bytes(data[self._written : end])], self._written)
        self._written = end
        self._synced = False

    def write_to(self, file: File) -> None:
        """Write and sync all entries to `file`, which is about to get the index's name. May run in any thread."""
        data = bytes(self.entries.data)
        file.write_at([data], 0)
        file.fsync()
        self._written, self._synced = len(data), True

    def take_unsynced(self) -> File | None:
        """Return the file if it was written since it was last synced or taken; the caller syncs the file.

        Returns None for most appends of a log that syncs each one: an entry comes only every few batches.
        """
        if self._synced or not self.is_written:
            return None
        file = self._fs.open(self.path)
        self._synced = True
        return file

    def put_back(self) -> None:
        """Record that the taken file was not synced. One more sync of an unchanged file costs little."""
        self._synced = False

    def release(self) -> None:
        """Drop the entries from memory if nothing used them since the last call."""
        if self._used or not self.is_written:
            self._used = False
        elif self._entries is not None and self._written == len(self._entries.data):
            self._entries = None
