"""Record batches with their records compressed, as clients of all kinds do it."""

import gzip
import struct
from collections.abc import Callable, Mapping

import cramjam

from broker_runtime.storage.batch import CRC_FROM, HEADER_BYTES, OVERHEAD_BYTES, checksum

_XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
_XERIAL_BLOCK_BYTES = 32 * 1024


def xerial(data: bytes) -> bytes:
    """Snappy as Java's clients write it: in blocks."""
    out = bytearray(_XERIAL_HEADER)
    for at in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[at : at + _XERIAL_BLOCK_BYTES]))
        out += struct.pack(">i", len(block)) + block
    return bytes(out)


PACKERS: Mapping[int, Callable[[bytes], bytes]] = {
    1: gzip.compress,
    2: lambda data: bytes(cramjam.snappy.compress_raw(data)),
    3: lambda data: bytes(cramjam.lz4.compress(data)),
    4: lambda data: bytes(cramjam.zstd.compress(data)),
}


def packed(codec: int, batch: bytes, packer: Callable[[bytes], bytes] | None = None) -> bytes:
    """An uncompressed `batch` as the same one compressed."""
    return with_body(codec, batch, (packer or PACKERS[codec])(batch[HEADER_BYTES:]))


def with_body(codec: int, batch: bytes, body: bytes) -> bytes:
    """`batch` with other bytes behind its header, said to be compressed with `codec` (0: not), and a right checksum."""
    changed = bytearray(batch[:HEADER_BYTES]) + body
    struct.pack_into(">i", changed, 8, len(changed) - OVERHEAD_BYTES)
    struct.pack_into(">h", changed, CRC_FROM, codec)
    struct.pack_into(">I", changed, CRC_FROM - 4, checksum(changed))
    return bytes(changed)
