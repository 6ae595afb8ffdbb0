"""An open file for regions of replies, without a log around it."""

import os
from typing import BinaryIO


class OpenFile:
    """The reads of a file that a region needs."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file

    def fileno(self) -> int:
        return self._file.fileno()

    def pread(self, size: int, offset: int) -> bytes:
        return os.pread(self.fileno(), size, offset)
