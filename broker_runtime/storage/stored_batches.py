"""The batches in a segment's file, one after another: where each begins, and what its header says.

A generator reads ahead in chunks and holds nothing but the file, so it may run in another thread while the log grows.
KafkaError with KAFKA_STORAGE_ERROR says where the file holds no batch.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct

from broker_runtime.errors import ErrorCode, KafkaError
from broker_runtime.storage.batch import HEADER_BYTES, MAGIC, OVERHEAD_BYTES, Header, parse_header
from broker_runtime.storage.filesystem import File

_SCAN_BYTES = 64 * 1024
_LOOK_BYTES = 4 * 1024
_EXTENT = Struct(">qi4xb6xi")


def damaged_at(path: Path, position: int) -> KafkaError:
    return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{path} is damaged at byte {position}")


def extents(file: File, path: Path, position: int, stop: int) -> Iterator[tuple[int, int, int, int]]:
    """(position, end, base offset, last offset) of the batches from `position` up to `stop`; the fetch path's."""
    chunk = b""
    start = position
    unpack = _EXTENT.unpack_from
    while position + HEADER_BYTES <= stop:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            start, at = position, 0
            chunk = file.pread(min(_LOOK_BYTES, stop - position), position)
            if len(chunk) < HEADER_BYTES:
                raise damaged_at(path, position)
        base_offset, length, magic, last_delta = unpack(chunk, at)
        if magic != MAGIC or length < HEADER_BYTES - OVERHEAD_BYTES:
            raise damaged_at(path, position)
        end = position + length + OVERHEAD_BYTES
        yield position, end, base_offset, base_offset + last_delta
        position = end


def headers(file: File, path: Path, position: int, stop: int) -> Iterator[tuple[int, Header]]:
    """(position, header) of the batches from `position` up to `stop`."""
    chunk = b""
    start = position
    while position + HEADER_BYTES <= stop:
        at = position - start
        if at + HEADER_BYTES > len(chunk):
            start, at = position, 0
            chunk = file.pread(min(_SCAN_BYTES, stop - position), position)
            if len(chunk) < HEADER_BYTES:
                raise damaged_at(path, position)
        header = parse_header(chunk, at)
        if header.magic != MAGIC or header.length < HEADER_BYTES - OVERHEAD_BYTES:
            raise damaged_at(path, position)
        yield position, header
        position += header.size
