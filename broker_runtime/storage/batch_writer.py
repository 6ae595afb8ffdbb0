"""Writes batches to a new segment that is to take the place of others, some hundred kilobytes at a time."""

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.batch import Header, parse_header
from broker_runtime.storage.filesystem import Buffer
from broker_runtime.storage.segment import Segment

SEGMENT_BYTES_MAX = 2**31 - 1
"""Limit of positions in an index."""


class BatchWriter:
    """Counts each batch in the segment, and writes `io_bytes` at a time to its file. Runs in any thread."""

    def __init__(self, new: Segment, io_bytes: int, index_interval_bytes: int) -> None:
        self._new = new
        self._io_bytes = io_bytes
        self._index_interval_bytes = index_interval_bytes
        self._waiting: list[Buffer] = []
        self._written = 0

    def put(self, header: Header, batch: bytes | memoryview) -> int:
        """How many bytes were written by it. Raises OSError, and KafkaError if the segment would be too large.

        `header` says which offsets the batch takes, the batch itself everything else.
        """
        new = self._new
        if new.size + len(batch) > SEGMENT_BYTES_MAX:
            # Other varints and another compression may take more room than there was.
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{new.path} would be larger than a segment may be")
        new.commit(len(batch), header.last_offset, parse_header(batch).newest_ms, self._index_interval_bytes)
        self._waiting.append(batch)
        return self.flush() if new.size - self._written >= self._io_bytes else 0

    def flush(self) -> int:
        """Write what waits; how many bytes that was. Raises OSError."""
        size = self._new.size - self._written
        if size:
            self._new.file.write_at(self._waiting, self._written)
            self._written += size
            self._waiting = []
        return size
