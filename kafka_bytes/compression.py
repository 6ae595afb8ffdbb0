"""The codecs of record batches, with a limit for the decompressed size. Pure.

gzip is in the standard library. snappy, lz4 and zstd come with cramjam, which is loaded at its first use.
"""

import zlib
from collections.abc import Callable
from importlib import import_module
from typing import Any

from kafka_bytes.errors import FormatError

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
XERIAL = b"\x82SNAPPY\x00"
"""The magic before the blocks in which Java's clients write snappy. Other clients write one block without a magic."""
XERIAL_HEADER_BYTES = 16
_USUAL_RATIO = 16
"""First guess of the decompressed size. If it is too small, four times as much is tried, up to the limit.

Buffers are zeroed before use: allocating the whole limit at once would block the event loop for a tenth of a second.
"""
_GROWTH = 4


class UnpackedTooLargeError(FormatError):
    """Error for data that decompresses to more than the limit."""


class CutShortError(FormatError):
    """Error for compressed data that ends too early. Only gzip and Java's blocks of snappy show this."""


def unpack(codec: int, packed: memoryview, limit: int) -> bytes | memoryview:
    """Return at most `limit` decompressed bytes.

    Raises UnpackedTooLargeError for more, CutShortError or FormatError for data that does not have the format, and
    ImportError without cramjam. `codec` is one of NAMES.
    """
    if codec == GZIP:
        return _unpack_gzip(packed, limit)
    decompressor = getattr(import_module("cramjam"), NAMES[codec])
    if codec == SNAPPY:
        return _unpack_snappy(decompressor.decompress_raw_into, packed, limit)
    return _into(decompressor.decompress_into, packed, limit)


def _unpack_gzip(packed: memoryview, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        data = stream.decompress(packed, limit + 1)
    except zlib.error as error:
        raise FormatError(str(error)) from error
    if len(data) > limit:
        raise UnpackedTooLargeError
    if not stream.eof:
        raise CutShortError
    return data


def _unpack_snappy(into: Callable[..., Any], packed: memoryview, limit: int) -> bytes | memoryview:
    if packed[: len(XERIAL)] != XERIAL:
        return _into(into, packed, limit)
    blocks: list[bytes | memoryview] = []
    if len(packed) < XERIAL_HEADER_BYTES:
        raise CutShortError
    at, left = XERIAL_HEADER_BYTES, limit
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "big")
        block = packed[at + 4 : at + 4 + size]
        if len(block) < size or not size:
            raise CutShortError
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
                raise FormatError(str(error)) from error
        else:
            return memoryview(buffer)[:size]
    raise UnpackedTooLargeError
