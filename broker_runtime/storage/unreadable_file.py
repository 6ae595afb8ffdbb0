"""Stands for the file of a segment that cannot be opened: every read raises the error of the open."""

from collections.abc import Sequence

from broker_runtime.storage.filesystem import Buffer


class UnreadableFile:
    """Implements `filesystem.File`. Has no bytes, and nothing to sync."""

    __slots__ = ("_error",)

    def __init__(self, error: OSError) -> None:
        self._error = error

    def fileno(self) -> int:
        raise self._error

    def size(self) -> int:
        return 0

    def pread(self, size: int, offset: int) -> bytes:
        del size, offset
        raise self._error

    def write_at(self, buffers: Sequence[Buffer], offset: int) -> None:
        del buffers, offset
        raise self._error

    def truncate(self, size: int) -> None:
        del size
        raise self._error

    def fsync(self) -> None:
        pass
