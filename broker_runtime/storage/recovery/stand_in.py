"""Replacements for a segment without a readable record, whose file is lost or cannot be opened."""

from collections.abc import Sequence

from broker_runtime.storage.disk.filesystem import Buffer
from broker_runtime.storage.segment.damaged_ranges import DamagedRange
from broker_runtime.storage.segment.segment import Segment
from broker_runtime.storage.segment.segment_indexes import keep_in_memory


def mark_lost(segment: Segment, lost: DamagedRange) -> None:
    """Make the segment consist of the damaged range `lost` alone, whatever its file has. Raises OSError."""
    segment.indexes.renew()
    keep_in_memory(segment.indexes)
    segment.indexes.forget()
    segment.take_damage((lost,))
    segment.next_offset = lost.next_offset


class UnreadableFile:
    """Stands in for a file that cannot be opened: implements `filesystem.File`.

    Every read raises an error like that of the open. The file has no bytes, and nothing to sync.
    """

    __slots__ = ("_error",)

    def __init__(self, error: OSError) -> None:
        self._error = (error.errno, error.strerror, error.filename)

    def fileno(self) -> int:
        raise OSError(*self._error)

    def size(self) -> int:
        return 0

    def pread(self, size: int, offset: int) -> bytes:
        del size, offset
        raise OSError(*self._error)

    def write_at(self, buffers: Sequence[Buffer], offset: int) -> None:
        del buffers, offset
        raise OSError(*self._error)

    def truncate(self, size: int) -> None:
        del size
        raise OSError(*self._error)

    def fsync(self) -> None:
        pass
