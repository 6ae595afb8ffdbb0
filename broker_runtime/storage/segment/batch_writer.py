"""Writes batches to a new segment that is to replace others, some hundred kilobytes at a time."""

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.filesystem import Buffer
from broker_runtime.storage.segment.segment import Segment
from kafka_bytes.batches import Header, parse_header

SEGMENT_BYTES_MAX = 2**31 - 1
"""Limit of a position in an index."""


class BatchWriter:
    """Writes batches to a segment, at least `io_bytes` at a time. Counts each batch in the segment.

    May run in any thread.
    """

    def __init__(self, new: Segment, io_bytes: int, index_interval_bytes: int) -> None:
        self._new = new
        self._io_bytes = io_bytes
        self._index_interval_bytes = index_interval_bytes
        self._waiting: list[Buffer] = []
        self._written = 0

    def put(self, header: Header, batch: bytes | memoryview) -> int:
        """Add a batch and return how many bytes this call wrote.

        `header` has the offsets that the batch takes; all else comes from the batch itself. Raises OSError, and
        KafkaError if the segment would become too large.
        """
        self._check_room(len(batch))
        newest_ms = parse_header(batch).newest_ms
        self._new.commit(len(batch), header.last_offset, newest_ms, self._index_interval_bytes)
        return self._taken(batch)

    def put_raw(self, content: bytes) -> int:
        """Add bytes that are not batches and take no offsets. Return how many bytes this call wrote."""
        self._check_room(len(content))
        self._new.size += len(content)
        return self._taken(content)

    def _check_room(self, size: int) -> None:
        if self._new.size + size > SEGMENT_BYTES_MAX:
            # Other varints and another compression may take more space than before.
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{self._new.path} would be larger than a segment may be")

    def _taken(self, content: Buffer) -> int:
        self._waiting.append(content)
        return self.flush() if self._new.size - self._written >= self._io_bytes else 0

    def flush(self) -> int:
        """Write all buffered bytes and return their number. Raises OSError."""
        size = self._new.size - self._written
        if size:
            self._new.file.write_at(self._waiting, self._written)
            self._written += size
            self._waiting = []
        return size
