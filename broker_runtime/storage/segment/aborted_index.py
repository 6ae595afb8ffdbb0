"""The .txnindex file of a segment: the aborted transactions whose marker lies in the segment (KIP-98).

An entry has Kafka's binary form, 34 bytes: a version, the producer id, the first offset of the transaction, the offset
of its marker, and the last stable offset at that time. Last offsets grow from entry to entry. Most segments have no
such file: the first aborted transaction creates it.

A client that reads committed records skips what the entries name, so a flipped bit would show it records of an aborted
transaction, or hide others. Therefore four bytes follow the last entry, a CRC-32C of all entries: Kafka's readers
ignore what is shorter than an entry. A start rebuilds a file that does not match its checksum from the batches.
"""

from bisect import bisect_left
from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.filesystem import File, FileSystem, read_file
from broker_runtime.storage.records.transactions import ALL_STABLE, NO_OFFSET, Ended
from kafka_bytes.checksum import crc32c

SUFFIX = ".txnindex"
ENTRY = Struct(">hqqqq")
_FIRST_OFFSET = Struct(">10xq16x")
_LAST_OFFSET = Struct(">18xq8x")
_STABLE_OFFSET = Struct(">26xq")
_CHECKSUM = Struct(">I")
_VERSION = 0
_BLOCK = 64
"""Entries that a lookup skips together if none of them begins early enough."""


class DamagedAbortedIndexError(KafkaError):
    """Error for a .txnindex file whose entries cannot be trusted."""

    def __init__(self, path: Path) -> None:
        text = f"{path} is damaged: which transactions were aborted is not known until this broker has rebuilt it"
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, text)


def unpacked(entries: bytes) -> Iterator[Ended]:
    """Yield the aborted transactions of packed entries. May run in any thread."""
    return (Ended(*fields[1:]) for fields in ENTRY.iter_unpack(entries))


class AbortedIndex:
    """The aborted transactions of one segment, by the offset of their markers.

    The first `_written` bytes of the entries are in the file. Entries are in memory while they are used. Methods raise
    OSError.
    """

    __slots__ = ("_checksum", "_data", "_fs", "_least", "_reach", "_synced", "_used", "_written", "path")

    def __init__(self, fs: FileSystem, path: Path, *, is_new: bool) -> None:
        self.path = path
        self._fs = fs
        self._data: bytearray | None = bytearray() if is_new else None
        self._written = 0
        self._checksum = 0
        """CRC-32C of the written entries."""
        self._reach: tuple[int, int] | None = (ALL_STABLE, NO_OFFSET) if is_new else None
        """The least first offset of all entries, and the last stable offset of the last one; None if not known.

        It stays in memory: while a transaction stays open, lookups ask all later segments.
        """
        self._least: list[int] = []
        """The least first offset of each block of `_BLOCK` entries, as far as a lookup has needed it."""
        self._synced = True
        self._used = True

    def __len__(self) -> int:
        """Return the number of entries."""
        if self._data is None and self._written:
            # They are in the file, and were in memory.
            return self._written // ENTRY.size
        return len(self._entries) // ENTRY.size

    @property
    def packed(self) -> bytes:
        """Return a copy of all entries, for `unpacked`."""
        return bytes(self._entries)

    def __iter__(self) -> Iterator[Ended]:
        return unpacked(self.packed)

    @property
    def _entries(self) -> bytearray:
        """Return all entries, packed. Raises DamagedAbortedIndexError."""
        self._used = True
        if self._data is None:
            content = read_file(self._fs, self.path)
            data = content[: -_CHECKSUM.size]
            if len(content) < _CHECKSUM.size or len(data) % ENTRY.size:
                raise DamagedAbortedIndexError(self.path)
            checksum = crc32c(data)
            if checksum != _CHECKSUM.unpack_from(content, len(data))[0]:
                raise DamagedAbortedIndexError(self.path)
            self._data, self._written, self._checksum = bytearray(data), len(data), checksum
        return self._data

    def is_whole(self, base_offset: int, next_offset: int) -> bool:
        """Return whether the file matches its checksum, and all markers lie within these offsets of the segment."""
        try:
            before = base_offset - 1
            for ended in self:
                if not before < ended.last_offset < next_offset or ended.first_offset >= ended.last_offset:
                    return False
                before = ended.last_offset
            # From the start on, lookups know it without reading the file again.
            self._reach_of_all()
        except DamagedAbortedIndexError:
            return False
        return True

    def append(self, ended: Ended) -> None:
        """Add an aborted transaction, whose marker is the newest one of the segment. `write` stores it."""
        first, _ = self._reach_of_all()
        self._entries.extend(ENTRY.pack(_VERSION, *ended))
        self._reach = min(first, ended.first_offset), ended.last_stable_offset

    def end_of(self, offset: int, most: int) -> int | None:
        """Return the offset after the marker of entry `most` of those whose marker lies at `offset` or above.

        None if there are fewer.
        """
        data = self._entries
        number = self._number_from(data, offset) + most - 1
        if (number + 1) * ENTRY.size > len(data):
            return None
        return int(_LAST_OFFSET.unpack_from(data, number * ENTRY.size)[0]) + 1

    @staticmethod
    def _number_from(data: bytearray, offset: int) -> int:
        """Return the number of the first entry whose marker lies at `offset` or above."""
        count = len(data) // ENTRY.size
        return bisect_left(range(count), offset, key=lambda at: _LAST_OFFSET.unpack_from(data, at * ENTRY.size)[0])

    def collect(self, offset: int, upper: int, found: list[tuple[int, int]]) -> bool:
        """Add the (producer id, first offset) of transactions with records from `offset` up to `upper` to `found`.

        Returns whether later segments have no more of them.
        """
        first, stable = self._reach_of_all()
        if first >= upper:
            return stable >= upper
        data = self._entries
        count, number = len(data) // ENTRY.size, self._number_from(data, offset)
        while number < count:
            block, begin = divmod(number, _BLOCK)
            if begin == 0 and number + _BLOCK <= count and self._least_first(block) >= upper:
                # A transaction that stayed open for long lets all later ones be looked at again and again.
                number += _BLOCK
                continue
            _, producer_id, first, _, stable = ENTRY.unpack_from(data, number * ENTRY.size)
            if first < upper:
                found.append((producer_id, first))
            if stable >= upper:
                return True
            number += 1
        return False

    def _reach_of_all(self) -> tuple[int, int]:
        """Return the least first offset of all entries, and the last stable offset of the last one."""
        if self._reach is None:
            data = self._entries
            first = min((first for (first,) in _FIRST_OFFSET.iter_unpack(data)), default=ALL_STABLE)
            self._reach = first, _STABLE_OFFSET.unpack_from(data, len(data) - ENTRY.size)[0] if data else NO_OFFSET
        return self._reach

    def _least_first(self, block: int) -> int:
        """Return the least first offset of a whole block of entries."""
        least = self._least
        if block >= len(least):
            begin, size = len(least) * _BLOCK * ENTRY.size, _BLOCK * ENTRY.size
            whole = self._entries[begin : len(self._entries) // size * size]
            firsts = [first for (first,) in _FIRST_OFFSET.iter_unpack(whole)]
            least += [min(firsts[at : at + _BLOCK]) for at in range(0, len(firsts), _BLOCK)]
        return least[block]

    def write(self) -> None:
        """Write the new entries to the file; the next call repeats a failed write."""
        data = self._data
        if data is None or self._written == len(data):
            return
        new = bytes(data[self._written :])
        checksum = crc32c(new, self._checksum)
        file = self._fs.open(self.path, create=not self._written)
        file.write_at([new, _CHECKSUM.pack(checksum)], self._written)
        self._written, self._checksum, self._synced = len(data), checksum, False

    def write_to(self, file: File) -> None:
        """Write and sync all entries to `file`, which is about to get the index's name. May run in any thread."""
        data = bytes(self._entries)
        self._checksum = crc32c(data)
        file.write_at([data, _CHECKSUM.pack(self._checksum)], 0)
        file.fsync()
        self._written, self._synced = len(data), True

    def cut(self, end: int) -> None:
        """Drop the transactions whose marker lies at `end` or above; without any entry the file is removed.

        The caller syncs the file and the folder.
        """
        data = self._entries
        kept = self._number_from(data, end)
        if kept * ENTRY.size < len(data):
            del data[kept * ENTRY.size :]
            del self._least[kept // _BLOCK :]
            self._reach = None
            self.rewrite()

    def rewrite(self) -> None:
        """Replace the content of the file by all entries, or remove a file that would have none."""
        self._written = self._checksum = 0
        if self._entries:
            self.write()
        else:
            self._synced = True
            if self._fs.exists(self.path):
                self._fs.unlink(self.path)

    def take_unsynced(self) -> File | None:
        """Return the file if it was written since it was last synced or taken; the caller syncs the file."""
        if self._synced:
            return None
        file = self._fs.open(self.path)
        self._synced = True
        return file

    def put_back(self) -> None:
        """Record that the taken file was not synced."""
        self._synced = not self._written

    def release(self) -> None:
        """Drop the entries from memory if nothing used them since the last call, and the file has them."""
        if self._used:
            self._used = False
        elif self._data is not None and self._written == len(self._data) > 0:
            self._data = None
            self._least = []
