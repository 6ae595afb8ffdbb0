"""The batches in a segment's file, one after another: the position and the header of each.

A generator reads ahead in chunks and uses nothing but the file, so it may run in another thread while the log grows.
KafkaError with KAFKA_STORAGE_ERROR reports a position without a batch.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.disk.filesystem import File
from kafka_bytes.batches import HEADER_BYTES, MAGIC, OVERHEAD_BYTES, Header, checksum, parse_header

_SCAN_BYTES = 64 * 1024
_LOOK_BYTES = 4 * 1024
_EXTENT = Struct(">qi4xb6xi")


class DamagedFileError(KafkaError):
    """Error for a segment's file that does not have a batch at the expected position."""

    def __init__(self, path: Path, position: int) -> None:
        super().__init__(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is damaged at byte {position}")
        self.path = path


def extents(file: File, path: Path, position: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (position, end, base offset, last offset) of the batches from `position` to `stop`, for the fetch path."""
    chunk = b""
    start = position
    unpack = _EXTENT.unpack_from
    while position + HEADER_BYTES <= stop:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            start, at = position, 0
            chunk = file.pread(min(_LOOK_BYTES, stop - position), position)
            if len(chunk) < HEADER_BYTES:
                raise DamagedFileError(path, position)
        base_offset, length, magic, last_delta = unpack(chunk, at)
        if magic != MAGIC or length < HEADER_BYTES - OVERHEAD_BYTES:
            raise DamagedFileError(path, position)
        end = position + length + OVERHEAD_BYTES
        yield position, end, base_offset, base_offset + last_delta
        position = end


def holds_batch_for(file: File, position: int, stop: int, offset: int) -> bool:
    """Return whether a batch seems to begin at `position` and ends at `offset` or later, before `stop`.

    Raises OSError.
    """
    head = file.pread(_EXTENT.size, position)
    if len(head) < _EXTENT.size:
        return False
    base_offset, length, magic, last_delta = _EXTENT.unpack(head)
    is_batch: bool = magic == MAGIC and length >= HEADER_BYTES - OVERHEAD_BYTES
    is_there: bool = position + length + OVERHEAD_BYTES <= stop and base_offset + last_delta >= offset
    return is_batch and is_there


def batches(
    file: File, path: Path, position: int, stop: int, read_bytes: int, offsets: tuple[int, int]
) -> Iterator[tuple[Header, memoryview]]:
    """Yield the batches from `position` up to `stop`, complete and with a valid checksum.

    Reads `read_bytes` at a time, or one batch if that is larger. The base offset is outside of the checksum, so offsets
    are checked: they must grow, and lie from the first of `offsets` up to the second.
    """
    chunk, start = memoryview(b""), position
    expected, end_offset = offsets
    while position < stop:
        at = position - start
        header = parse_header(chunk, at) if at + HEADER_BYTES <= len(chunk) else None
        if header is not None and header.length < HEADER_BYTES - OVERHEAD_BYTES:
            raise DamagedFileError(path, position)
        if header is None or at + header.size > len(chunk):
            needed = HEADER_BYTES if header is None else header.size
            start, chunk = position, memoryview(file.pread(min(max(read_bytes, needed), stop - position), position))
            if len(chunk) < needed:
                raise DamagedFileError(path, position)
            continue
        batch = chunk[at : at + header.size]
        if header.magic != MAGIC or checksum(batch) != header.crc:
            raise DamagedFileError(path, position)
        if not expected <= header.base_offset <= header.last_offset < end_offset:
            raise DamagedFileError(path, position)
        yield header, batch
        position += header.size
        expected = header.last_offset + 1


def headers(file: File, path: Path, position: int, stop: int) -> Iterator[tuple[int, Header]]:
    """Yield (position, header) of the batches from `position` up to `stop`."""
    chunk = b""
    start = position
    while position + HEADER_BYTES <= stop:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            start, at = position, 0
            chunk = file.pread(min(_SCAN_BYTES, stop - position), position)
            if len(chunk) < HEADER_BYTES:
                raise DamagedFileError(path, position)
        header = parse_header(chunk, at)
        if header.magic != MAGIC or header.length < HEADER_BYTES - OVERHEAD_BYTES:
            raise DamagedFileError(path, position)
        yield position, header
        position += header.size
