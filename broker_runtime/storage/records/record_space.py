"""Whether the bytes of a batch have room for the records that its header counts. Pure; nothing is decompressed.

For uncompressed records the lengths of the first ones are read. For compressed bytes the frames of their format are
followed (RFC 1952, RFC 8878, the LZ4 frame format, snappy's length, Java's blocks): they bound the decompressed size.
This finds broken producers, whose batches no consumer can read: librdkafka stops at one without an error.
"""

from collections.abc import Callable, Iterator, Mapping
from struct import Struct

from kafka_bytes.batches import HEADER_BYTES, RECORD_BYTES_MIN
from kafka_bytes.compression import GZIP, LZ4, SNAPPY, XERIAL, XERIAL_HEADER_BYTES, ZSTD
from kafka_bytes.varints import read_uvarint

LENGTHS_READ_MAX = 4
"""Number of records of a batch whose lengths are read, which takes 0.3 us for each."""
_LENGTH_MIN, _MORE = 2 * (RECORD_BYTES_MIN - 1), 0x80
"""The least length of an encoded record, and the first length that takes more than a byte."""
_BLOCKS_MAX = 64
"""Number of compressed blocks that are followed; a batch with more passes if one of these has content."""
_LARGEST_RATIO = {GZIP: 1_032, SNAPPY: 64, LZ4: 255, ZSTD: 32_768}
"""Greatest number of bytes that each format can decompress one byte to."""
_GZIP_MAGIC, _LZ4_MAGIC, _ZSTD_MAGIC = b"\x1f\x8b", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"
_GZIP_MEMBER = _GZIP_MAGIC + b"\x08"
"""The beginning of a gzip member, with the only compression method that exists."""
_GZIP_BYTES_MIN = 18
_SKIPPABLE, _SKIPPABLE_MASK = 0x184D2A50, 0xFFFFFFF0
"""The magic of zstd frames without data, and the mask for comparing it."""
_ZSTD_BLOCK_BYTES_MAX = 128 << 10
_UINT32, _UINT64 = Struct("<I"), Struct("<Q")
_JAVA_LENGTH = Struct(">i")


def has_room(codec: int, records: memoryview, count: int) -> bool:
    """Return whether the bytes after the header in `records` can be `count` records. `codec` 0 means uncompressed."""
    if not codec:
        return _are_framed(records, count)
    body = records[HEADER_BYTES:]
    needed = count * RECORD_BYTES_MIN
    if needed > len(body) * _LARGEST_RATIO[codec]:
        return False
    try:
        return _reaches(needed, _UNPACKED[codec](body))
    except (IndexError, ValueError):
        # A frame is cut short, or does not have the format.
        return False


def _are_framed(records: memoryview, count: int) -> bool:
    """Whether the first records have possible lengths, and leave room for the others."""
    at, left, end = HEADER_BYTES, count, len(records)
    if at + left * RECORD_BYTES_MIN > end:
        return False
    while left and count - left < LENGTHS_READ_MAX:
        left -= 1
        length = records[at]
        at += 1
        if length >= _MORE:
            shift = 7
            while length >> shift:
                # The highest bit of a byte is set if another one follows.
                if shift > 28:
                    return False
                length += (records[at] - 1) << shift
                at += 1
                shift += 7
        if length & 1 or length < _LENGTH_MIN:
            return False
        at += length >> 1
        if at + left * RECORD_BYTES_MIN > end:
            return False
    return left > 0 or at == end


def _reaches(needed: int, sizes: Iterator[int]) -> bool:
    """Whether blocks of at most these sizes may have `needed` bytes."""
    left = needed
    for number, size in enumerate(sizes, 1):
        left -= size
        if left <= 0:
            return True
        if number == _BLOCKS_MAX:
            return left < needed
    return False


def _of_gzip(body: memoryview) -> Iterator[int]:
    """Yield the length at the end, if the data has less than 4 GiB.

    It is the length of the last member: most clients write one member.
    """
    if len(body) < _GZIP_BYTES_MIN or body[:2] != _GZIP_MAGIC:
        raise ValueError
    is_exact = len(body) * _LARGEST_RATIO[GZIP] < 1 << 32
    yield _UINT32.unpack_from(body, len(body) - 4)[0] if is_exact else 1 << 32
    if bytes(body).find(_GZIP_MEMBER, _GZIP_BYTES_MIN) > 0:
        # If another member begins, the one before it may have as much as the format can pack.
        yield len(body) * _LARGEST_RATIO[GZIP]


def _of_snappy(body: memoryview) -> Iterator[int]:
    if body[: len(XERIAL)] != XERIAL:
        yield read_uvarint(body, 0)[0]
        return
    at = XERIAL_HEADER_BYTES
    while at < len(body):
        (size,) = _JAVA_LENGTH.unpack_from(_exactly(body, at, 4))
        at += 4
        yield read_uvarint(_exactly(body, at, size), 0)[0]
        at += size


def _of_lz4(body: memoryview) -> Iterator[int]:
    if body[:4] != _LZ4_MAGIC:
        raise ValueError
    flags, block_bytes_max = body[4], 1 << (2 * (body[5] >> 4 & 7) + 8)
    at = 6
    if flags & 0x08:
        yield _UINT64.unpack_from(_exactly(body, at, 8))[0]
        return
    at += 1 + 4 * (flags & 1)
    while size := _UINT32.unpack_from(_exactly(body, at, 4))[0]:
        is_stored, size = size >> 31, size & 0x7FFFFFFF
        _exactly(body, at + 4, size)
        yield size if is_stored else min(size * _LARGEST_RATIO[LZ4], block_bytes_max)
        at += 4 + size + 4 * (flags >> 4 & 1)


def _of_zstd(body: memoryview) -> Iterator[int]:
    """Yield the size of each frame if it is given, else the limit of each of its blocks."""
    at = 0
    while at < len(body):
        magic = _exactly(body, at, 4)
        at += 4
        if _UINT32.unpack_from(magic)[0] & _SKIPPABLE_MASK == _SKIPPABLE:
            at += 4 + _UINT32.unpack_from(_exactly(body, at, 4))[0]
            yield 0
            continue
        if magic != _ZSTD_MAGIC:
            raise ValueError
        flags = body[at]
        is_single = flags >> 5 & 1
        # After the flags: the window, the dictionary's id, the size of the content.
        at += 1 + (not is_single) + (0, 1, 2, 4)[flags & 3]
        size_bytes = (is_single, 2, 4, 8)[flags >> 6]
        if size_bytes:
            yield int.from_bytes(_exactly(body, at, size_bytes), "little") + 256 * (size_bytes == 2)
        at += size_bytes
        is_last = False
        while not is_last:
            head = int.from_bytes(_exactly(body, at, 3), "little")
            is_last, kind, size = bool(head & 1), head >> 1 & 3, head >> 3
            at += 3 + len(_exactly(body, at + 3, 1 if kind == 1 else size))
            most = size if kind < 2 else _ZSTD_BLOCK_BYTES_MAX
            yield 0 if size_bytes else most
        at += 4 * (flags >> 2 & 1)


def _exactly(body: memoryview, at: int, size: int) -> memoryview:
    """Return the `size` bytes at `at`. Raises ValueError if there are fewer."""
    part = body[at : at + size]
    if size < 0 or len(part) < size:
        raise ValueError
    return part


_UNPACKED: Mapping[int, Callable[[memoryview], Iterator[int]]] = {
    GZIP: _of_gzip,
    SNAPPY: _of_snappy,
    LZ4: _of_lz4,
    ZSTD: _of_zstd,
}
"""Functions for upper bounds of the decompressed size of each block, by codec."""
