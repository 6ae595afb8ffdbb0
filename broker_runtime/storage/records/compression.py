"""Decompresses and compresses the records of a batch, with the broker's errors and limit.

Pure. `kafka_bytes.compression` has the codecs; cramjam, which has three of them, is loaded at its first use.
"""

import zlib
from importlib import import_module

from broker_runtime.errors import ErrorCode, KafkaError
from kafka_bytes import compression
from kafka_bytes.compression import (
    GZIP,
    LZ4,
    NAMES,
    SNAPPY,
    XERIAL,
    XERIAL_HEADER_BYTES,
    ZSTD,
    CutShortError,
    UnpackedTooLargeError,
)
from kafka_bytes.errors import FormatError

_CUT_SHORT = {GZIP: "it ends too early", SNAPPY: "a block is cut short"}


def unpack(codec: int, packed: bytes | memoryview, limit: int) -> bytes:
    """Return at most `limit` decompressed bytes.

    Raises KafkaError: MESSAGE_TOO_LARGE for more, which makes a producer split its batch. INVALID_RECORD for bytes that
    do not have the format, UNSUPPORTED_COMPRESSION_TYPE if the decompressor is not installed.
    """
    try:
        return bytes(compression.unpack(codec, memoryview(packed), limit))
    except UnpackedTooLargeError:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"the decompressed batch has more than sluicegate.record.validation.max.bytes={limit}; send smaller "
            "batches",
        ) from None
    except CutShortError:
        raise _no_data(codec, _CUT_SHORT[codec]) from None
    except FormatError as error:
        raise _no_data(codec, str(error)) from error
    except ImportError as error:
        raise _not_installed(codec) from error


def pack(codec: int, data: bytes, like: memoryview) -> bytes:
    """Compress data for `unpack`; snappy writes blocks if `like` has blocks. Raises the KafkaErrors of `unpack`."""
    if codec == GZIP:
        return zlib.compress(data, wbits=31)
    try:
        cramjam = import_module("cramjam")
    except ImportError as error:
        raise _not_installed(codec) from error
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


def _no_data(codec: int, why: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_RECORD, f"the records are not valid {NAMES[codec]} data: {why}")


def _not_installed(codec: int) -> KafkaError:
    return KafkaError(
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        f"this broker has to check the records and cannot decompress {NAMES[codec]}: install the Python "
        "package cramjam, or produce with gzip or uncompressed",
    )
