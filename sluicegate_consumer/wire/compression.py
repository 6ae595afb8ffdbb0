"""The codecs of record batches. gzip is in the standard library; cramjam has the others.

Pure. Raises CorruptRecordsError for invalid data, and for data that decompresses to more than the limit.
"""

import zlib
from collections.abc import Callable

import cramjam

from sluicegate_consumer.errors import CorruptRecordsError

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
_XERIAL = b"\x82SNAPPY\x00"
"""Java's producers split snappy data into blocks after this header; other producers send one block."""
_XERIAL_HEADER_BYTES = 16
_USUAL_RATIO = 16
"""First guess of the decompressed size. If it is too small, four times as much is tried, up to the limit.

Buffers are zeroed before use: allocating the whole limit at once would block the event loop for a tenth of a second.
"""
_GROWTH = 4


def unpack(codec: int, packed: memoryview, limit: int) -> bytes | memoryview:
    if codec == NONE:
        return packed
    if codec == GZIP:
        return _unpack_gzip(packed, limit)
    if codec == SNAPPY:
        return _unpack_snappy(packed, limit)
    if codec == LZ4:
        return _into(cramjam.lz4.decompress_into, packed, limit)
    if codec == ZSTD:
        return _into(cramjam.zstd.decompress_into, packed, limit)
    raise CorruptRecordsError(f"a batch is compressed with the unknown codec {codec}")


def _unpack_gzip(packed: memoryview, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        data = stream.decompress(packed, limit + 1)
    except zlib.error as error:
        raise CorruptRecordsError(f"a batch is not valid gzip data: {error}") from error
    if len(data) > limit:
        raise _too_large(limit)
    if not stream.eof:
        raise CorruptRecordsError("a gzip batch ends too early")
    return data


def _unpack_snappy(packed: memoryview, limit: int) -> bytes | memoryview:
    into = cramjam.snappy.decompress_raw_into
    if packed[: len(_XERIAL)] != _XERIAL:
        return _into(into, packed, limit)
    blocks: list[bytes | memoryview] = []
    at, left = _XERIAL_HEADER_BYTES, limit
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "big")
        block = packed[at + 4 : at + 4 + size]
        if len(block) < size or not size:
            raise CorruptRecordsError("a snappy block is cut off")
        blocks.append(_into(into, block, left))
        left -= len(blocks[-1])
        at += 4 + size
    return b"".join(blocks)


def _into(decompress_into: Callable[[memoryview, bytearray], int], packed: memoryview, limit: int) -> memoryview:
    space = 0
    while space < limit:
        space = min(limit, _GROWTH * space or _USUAL_RATIO * (len(packed) + 64))
        buffer = bytearray(space)
        try:
            size = decompress_into(packed, buffer)
        except Exception as error:
            # cramjam has a single error type for everything.
            if "buffer" not in str(error):
                raise CorruptRecordsError(f"a batch cannot be decompressed: {error}") from error
        else:
            return memoryview(buffer)[:size]
    raise _too_large(limit)


def _too_large(limit: int) -> CorruptRecordsError:
    return CorruptRecordsError(f"a decompressed batch has more than Settings.unpacked_bytes_max={limit}")
