"""The codecs of record batches, with a bound for the decompressed size.

Pure. gzip is in the standard library; snappy, lz4 and zstd come with cramjam, which is loaded at its first use.
"""

import zlib
from collections.abc import Callable
from importlib import import_module
from types import ModuleType

from broker_runtime.errors import ErrorCode, KafkaError

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4
NAMES = {GZIP: "gzip", SNAPPY: "snappy", LZ4: "lz4", ZSTD: "zstd"}
XERIAL = b"\x82SNAPPY\x00"
"""Java's clients write snappy in blocks after this magic; other clients send one block without a magic."""
XERIAL_HEADER_BYTES = 16
_USUAL_RATIO = 64


def unpack(codec: int, packed: bytes | memoryview, limit: int) -> bytes:
    """At most `limit` decompressed bytes.

    Raises KafkaError: MESSAGE_TOO_LARGE for more, which makes a producer split its batch. INVALID_RECORD for bytes that
    do not have the format, UNSUPPORTED_COMPRESSION_TYPE if the decompressor is not installed.
    """
    return _UNPACKERS[codec](memoryview(packed), limit)


def pack(codec: int, data: bytes, like: memoryview) -> bytes:
    """Compress for `unpack`; snappy uses blocks if `like` does. Raises KafkaError as `unpack` does."""
    if codec == GZIP:
        return zlib.compress(data, wbits=31)
    cramjam = _cramjam(codec)
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(data))
    if codec == LZ4:
        # Java's clients reject blocks that depend on each other.
        frame = cramjam.lz4.Compressor(block_linked=False)
        frame.compress(data)
        return bytes(frame.finish())
    block = bytes(cramjam.snappy.compress_raw(data))
    if like[: len(XERIAL)] != XERIAL:
        return block
    return bytes(like[:XERIAL_HEADER_BYTES]) + len(block).to_bytes(4, "big") + block


def _unpack_gzip(packed: memoryview, limit: int) -> bytes:
    stream = zlib.decompressobj(wbits=31)
    try:
        data = stream.decompress(packed, limit + 1)
    except zlib.error as error:
        raise _no_data(GZIP, error) from error
    if len(data) > limit:
        raise _too_large(limit)
    if not stream.eof:
        raise _no_data(GZIP, "it ends too early")
    return data


def _unpack_frame(codec: int) -> Callable[[memoryview, int], bytes]:
    def unpack_frame(packed: memoryview, limit: int) -> bytes:
        cramjam = _cramjam(codec)
        return _into(codec, getattr(cramjam, NAMES[codec]).decompress_into, packed, limit)

    return unpack_frame


def _unpack_snappy(packed: memoryview, limit: int) -> bytes:
    into = _cramjam(SNAPPY).snappy.decompress_raw_into
    if packed[: len(XERIAL)] != XERIAL:
        return _into(SNAPPY, into, packed, limit)
    blocks: list[bytes] = []
    at, left = XERIAL_HEADER_BYTES, limit
    while at < len(packed):
        size = int.from_bytes(packed[at : at + 4], "big")
        block = packed[at + 4 : at + 4 + size]
        if len(block) < size or not size:
            raise _no_data(SNAPPY, "a block is cut short")
        blocks.append(_into(SNAPPY, into, block, left))
        left -= len(blocks[-1])
        at += 4 + size
    return b"".join(blocks)


def _into(codec: int, decompress_into: Callable[[memoryview, bytearray], int], packed: memoryview, limit: int) -> bytes:
    """Decompress into a buffer that nearly always suffices, else into one of the largest size."""
    for space in (min(limit, _USUAL_RATIO * len(packed) + _USUAL_RATIO), limit):
        buffer = bytearray(space)
        try:
            size = decompress_into(packed, buffer)
        except Exception as error:
            # cramjam has one kind of error for all failures.
            if "buffer" not in str(error):
                raise _no_data(codec, error) from error
        else:
            return bytes(memoryview(buffer)[:size])
    raise _too_large(limit)


def _cramjam(codec: int) -> ModuleType:
    try:
        return import_module("cramjam")
    except ImportError as error:
        raise KafkaError(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"this broker has to check the records and cannot decompress {NAMES[codec]}: install the Python "
            "package cramjam, or produce with gzip or uncompressed",
        ) from error


def _no_data(codec: int, why: object) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"the records are not valid {NAMES[codec]} data: {why}")


def _too_large(limit: int) -> KafkaError:
    return KafkaError(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"the decompressed batch has more than sluicegate.record.validation.max.bytes={limit}; send smaller batches",
    )


_UNPACKERS: dict[int, Callable[[memoryview, int], bytes]] = {
    GZIP: _unpack_gzip,
    SNAPPY: _unpack_snappy,
    LZ4: _unpack_frame(LZ4),
    ZSTD: _unpack_frame(ZSTD),
}
